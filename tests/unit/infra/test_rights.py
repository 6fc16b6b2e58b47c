"""Calls of functions are within their roles: every call over the sample events, checked against the translated policies."""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.ports import WebhookDelivery
from noetl_core.runtime import control_wiring
from tests.aws_calls import observe_calls
from tests.contract.aws import environment, make_queue
from tests.unit.infra import test_sample_events as sample
from tests.unit.infra.translated import listed, statements

pytestmark = pytest.mark.filterwarnings("ignore:No application metrics to publish")
cloud = sample.cloud
ACTIONS = {"SendMessageBatch": "SendMessage", "ListObjectsV2": "ListBucket"}
"""Operations whose right has another name."""
LOGICAL = (
    "EventsTable",
    "CatalogTable",
    "CommandQueue",
    "ControlQueue",
    "CommandDeadLetters",
    "ControlDeadLetters",
    "InboxQueue",
)


@dataclass(frozen=True)
class ApiCall:
    """A call that a function made."""

    action: str
    resource: str
    key: str | None = None

    def allowed_by(self, statement: Mapping[str, Any]) -> bool:
        if not any(fnmatchcase(self.action, action) for action in listed(statement["Action"])):
            return False
        if not any(fnmatchcase(self.resource, resource) for resource in listed(statement["Resource"])):
            return False
        keys = statement.get("Condition", {}).get("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys")
        return keys is None or self.key is None or any(fnmatchcase(self.key, key) for key in keys)


def api_calls(service: str, operation: str, asked: Mapping[str, Any]) -> Iterator[ApiCall]:
    """The call as policies see it: a copy reads and writes."""
    action = f"{service}:{ACTIONS.get(operation, operation)}"
    if service == "dynamodb":
        table = next(name for name in LOGICAL if name in asked["TableName"])
        index = f"/index/{asked['IndexName']}" if "IndexName" in asked else ""
        yield ApiCall(action, f"${{{table}.Arn}}{index}", leading_key(asked))
    elif service == "sqs":
        queue = asked.get("QueueUrl") or asked["QueueName"]
        yield ApiCall(action, f"${{{next(name for name in LOGICAL if name in queue)}.Arn}}")
    elif operation == "CopyObject":
        yield ApiCall("s3:PutObject", stored(asked["Bucket"], asked["Key"]))
        yield ApiCall(reading(asked["CopySource"]), stored(asked["CopySource"]["Bucket"], asked["CopySource"]["Key"]))
    elif operation in ("GetObject", "HeadObject"):
        yield ApiCall(reading(asked), stored(asked["Bucket"], asked["Key"]))
    elif service == "s3":
        yield ApiCall(action, stored(asked["Bucket"], asked.get("Key", "")))
    elif service == "secretsmanager" and "SecretId" in asked:
        name = asked["SecretId"]
        stands = f"arn:aws:secretsmanager:us-east-1:123456789012:secret:{name}-AbCdEf"
        yield ApiCall(action, "${SigningSecret}" if name == "SigningSecret" else stands)
    else:
        yield ApiCall(action, "${SealingKey.Arn}" if "KeyId" in asked else "*")


def reading(asked: Mapping[str, Any]) -> str:
    return "s3:GetObjectVersion" if "VersionId" in asked else "s3:GetObject"


def stored(bucket: str, key: str) -> str:
    return f"arn:aws:s3:::${{InboxBucket}}/{key}" if "inbox" in bucket else f"${{ResultsBucket.Arn}}/{key}"


def leading_key(asked: Mapping[str, Any]) -> str:
    """The partition key an operation is about."""
    item = asked.get("Item") or asked.get("Key")
    if item is not None:
        return str(item["pk"]["S"])
    values = asked["ExpressionAttributeValues"]
    return str((values.get(":pk") or values[":partition"])["S"])


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ApiCall]]:
    """The calls made from now on."""
    found: list[ApiCall] = []
    observe_calls(monkeypatch, lambda *call: found.extend(api_calls(*call)))
    yield found


def refused(function: str, calls: list[ApiCall], **parameters: str) -> set[ApiCall]:
    allowed = list(statements(function, **parameters))
    return {one for one in calls if not any(one.allowed_by(statement) for statement in allowed)}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("function", "events"),
    [
        ("AdmitFunction", ("admit api_health", "admit api_start", "admit upload")),
        ("WorkerFunction", ("worker command",)),
        ("RouterFunction", ("router stream", "router wake")),
        ("SweeperFunction", ("sweeper schedule",)),
    ],
)
def test_each_role_allows_every_api_call_of_its_function(
    cloud: None, calls: list[ApiCall], function: str, events: tuple[str, ...]
) -> None:
    if function != "AdmitFunction":
        sample.call("admit", "api_start")
    if function in ("RouterFunction", "SweeperFunction"):
        sample.call("worker", "command")
    calls.clear()
    for event in events:
        sample.call(*event.split())
    assert calls
    assert refused(function, calls) == set()


VALIDATED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: taker, path: team/taker}
executor:
  spec:
    triggers:
      - {name: latest, webhook: {form: github, credential: hooks/github, respond: validated}}
      - {name: stable, webhook: {form: github, credential: hooks/github, respond: validated}, version: stable}
workflow: [{step: only, tool: {kind: noop}}]
"""


def test_the_webhook_role_allows_the_calls_that_validate_a_request(cloud: None, calls: list[ApiCall]) -> None:
    body = json.dumps({"playbook": VALIDATED})
    sample.app("admit").handler({**sample.event("api_start"), "path": "/api/playbooks", "body": body}, sample.Context())
    hooks, read = sample.app("hooks"), set()
    for name, wrong in (("latest", None), ("stable", "not_found")):
        record = hooks.DynamoTriggers(os.environ["CATALOG_TABLE"]).trigger("team/taker", name)
        calls.clear()
        found = hooks.refusal_of(record, WebhookDelivery("team/taker", name, "1", {"headers": {}, "body": {}}, 0))
        assert (found and found["code"]) == wrong
        read |= {(one.key or "").partition("#")[0] for one in calls}
        assert refused("HooksFunction", calls) == set()
    assert read == {"about", "p", "d"}


def test_the_webhook_role_allows_the_calls_that_count_a_request(cloud: None, calls: list[ApiCall]) -> None:
    body = json.dumps({"playbook": VALIDATED})
    sample.app("admit").handler({**sample.event("api_start"), "path": "/api/playbooks", "body": body}, sample.Context())
    made = hmac.new(b"s3cret", b"{}", "sha256").hexdigest()
    kept = json.dumps({"data": {"secret": "s3cret"}, "paths": ["*"]})
    client("secretsmanager").create_secret(Name="stack/hooks/github", SecretString=kept)
    sent = {"path": "/api/hooks/team/taker/latest", "headers": {"X-Hub-Signature-256": f"sha256={made}"}, "body": "{}"}
    with environment(INBOX_QUEUE_URL=make_queue("InboxQueue"), SECRETS_PREFIX="stack/"):
        hooks = sample.app("hooks")
        calls.clear()
        assert hooks.handler({**sample.event("api_hook"), **sent}, sample.Context())["statusCode"] == 202
    assert "requests#team/taker/latest" in {one.key for one in calls if one.action == "dynamodb:UpdateItem"}
    assert refused("HooksFunction", calls) == set()


@pytest.mark.parametrize(
    ("known", "does"),
    [(True, {"s3:GetObjectVersion"}), (False, {"s3:GetObjectVersion", "s3:PutObject", "s3:DeleteObject"})],
    ids=["taken", "moved aside"],
)
def test_the_admit_role_allows_the_calls_that_handle_an_upload(
    cloud: None, calls: list[ApiCall], known: bool, does: set[str]
) -> None:
    deliver = sample.upload()
    if known:
        start = sample.event("api_start")
        body = json.dumps({"playbook": json.loads(start["body"])["playbook"]})
        sample.app("admit").handler({**start, "path": "/api/playbooks", "body": body}, sample.Context())
    calls.clear()
    assert deliver() == {"batchItemFailures": []}
    assert {one.action for one in calls if "InboxBucket" in one.resource} >= does
    assert refused("AdmitFunction", calls) == set()


def test_a_call_beyond_a_role_is_found(cloud: None, calls: list[ApiCall]) -> None:
    """A worker does what admit does: it writes the control stream, the catalog and the queues."""
    sample.call("admit", "api_start")
    beyond = {one.action + " " + (one.key or one.resource).partition("#")[0] for one in refused("WorkerFunction", calls)}
    assert {"dynamodb:PutItem m", "dynamodb:PutItem due", "sqs:SendMessage ${CommandQueue.Arn}"} <= beyond


def test_an_execution_in_the_python_pool_calls_neither_secrets_nor_keys(cloud: None, calls: list[ApiCall]) -> None:
    sample.call("admit", "api_start")
    calls.clear()
    sample.call("worker", "command")
    assert refused("PythonWorkerFunction", calls, PythonPool="yes") == set()
    assert not any(one.action.startswith(("secretsmanager:", "kms:")) for one in calls), json.dumps([c.action for c in calls])


SECRETIVE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: reads, path: team/reads}
keychain: [{name: api, kind: credential}]
workflow:
  - step: start
    tool:
      - {name: use, kind: secrets, secret: api, field: token}
      - {name: ask, kind: callback}
"""


@pytest.fixture
def keys(cloud: None) -> Iterator[None]:
    """The keys of a stack: what signs tokens and cursors, and what seals."""
    client("secretsmanager").create_secret(Name="SigningSecret", SecretString="k" * 48)
    key = client("kms").create_key()["KeyMetadata"]["KeyId"]
    with environment(CALLBACK_SECRET="SigningSecret", SEALING_KEY=key):
        sample.forget()
        yield


def asks(method: str, route: str, body: Any = None, **query: str) -> dict[str, Any]:
    """Return admit's answer to this request."""
    asked = {
        **sample.event("api_health"),
        "httpMethod": method,
        "path": f"/api/{route}",
        "queryStringParameters": query or None,
        "body": None if body is None else json.dumps(body),
    }
    answer: dict[str, Any] = sample.app("admit").handler(asked, sample.Context())
    assert answer["statusCode"] < 300, (route, answer["body"])
    return dict(json.loads(answer["body"]))


def message(body: Mapping[str, Any]) -> dict[str, Any]:
    """A command as the worker's queue delivers it."""
    event = sample.event("command")
    event["Records"][0]["body"] = json.dumps(body)
    return event


def test_the_admit_role_allows_the_calls_of_callers_and_operators(keys: None, calls: list[ApiCall]) -> None:
    """Lists by status and path read the indexes; pausing, resuming, cancelling and redriving write gates and heads."""
    asks("POST", "playbooks", {"playbook": SECRETIVE})
    execution_id = asks("POST", "executions", {"path": "team/reads"})["execution_id"]
    for path in ("executions", "playbooks", "playbooks/team/reads", "queue", "runtime"):
        asks("GET", path)
    for query in ({"status": "running"}, {"path": "team/reads"}, {"path": "team/reads", "status": "running"}):
        assert asks("GET", "executions", **query)["executions"], query
    for view in ("", "/events", "/timeline", "/graph", "/cost", "/state", "/logs", "/callbacks"):
        asks("GET", f"executions/{execution_id}{view}")
    asks("POST", "events", {"execution_id": execution_id, "name": "go", "data": {"x": "y" * 20_000}})
    for action in ("pause", "resume", "cancel", "redrive"):
        asks("POST", f"executions/{execution_id}/{action}", {})
    asks("POST", "executions", {"playbook": SECRETIVE, "idempotency_key": "k"})
    asks("POST", "context/render", {"execution_id": execution_id, "template": "{{ 1 }}"})
    indexes = {one.resource.partition("/index/")[2] for one in calls} - {""}
    assert indexes == {"heads", "heads_by_path"}
    assert refused("AdmitFunction", calls) == set()


def test_the_worker_role_allows_the_calls_that_read_a_credential(keys: None, calls: list[ApiCall]) -> None:
    """The worker reads the credential, and whether the playbook is registered under one of the credential's paths."""
    secret = json.dumps({"data": {"token": "s3cret"}, "paths": ["team/*"]})
    client("secretsmanager").create_secret(Name="noetl/api", SecretString=secret)
    asks("POST", "playbooks", {"playbook": SECRETIVE})
    execution_id = asks("POST", "executions", {"path": "team/reads"})["execution_id"]
    calls.clear()
    (command,) = sample.commands()
    assert sample.app("worker").handler(message(command), sample.Context()) == {"batchItemFailures": []}
    read = {one.resource for one in calls if one.action == "secretsmanager:GetSecretValue"}
    assert read == {"arn:aws:secretsmanager:us-east-1:123456789012:secret:noetl/api-AbCdEf"}
    assert "kms:GenerateDataKey" in {one.action for one in calls}
    assert refused("WorkerFunction", calls, SecretsPrefix="noetl/") == set()
    events = asks("GET", f"executions/{execution_id}/events")["events"]
    assert "s3cret" not in json.dumps(events)
    assert [e["name"] for e in events if e["name"] == "StepSuspended"]


def test_a_sweep_that_fires_takes_over_and_handles_dead_letters_is_within_its_role(keys: None, calls: list[ApiCall]) -> None:
    asks("POST", "playbooks", {"playbook": SECRETIVE})
    execution_id = asks("POST", "executions", {"path": "team/reads"})["execution_id"]
    (command,) = sample.commands()
    (dead, _) = json.loads(os.environ["DEAD_LETTER_QUEUES"])
    letter = {"execution_id": execution_id, "step": "start", "run_id": command["run_id"]}
    client("sqs").send_message(QueueUrl=dead, MessageBody=json.dumps(letter))
    control_wiring.control().index.set_due(execution_id, 1)
    calls.clear()
    swept = sample.call("sweeper", "schedule")
    assert (swept["looked"], swept["dead"]) == (1, 1)
    assert refused("SweeperFunction", calls) == set()
