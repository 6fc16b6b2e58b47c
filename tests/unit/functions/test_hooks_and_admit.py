"""The hooks function and admit over mocked AWS: signed requests, events, messages and uploads become executions, each once."""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import client
from noetl_core.adapters.clock import SystemClock
from noetl_core.runtime.control_wiring import control
from tests.contract.aws import environment, make_bucket, make_queue
from tests.properties import some
from tests.unit.functions.conftest import Context, Function, lines

pytestmark = pytest.mark.filterwarnings("ignore:No application metrics to publish")
SECRET = "It's a Secret to Everybody"
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: taker, path: team/taker}
executor:
  spec:
    triggers:
      - {name: push, webhook: {form: github, credential: hooks/github}, payload: {n: "{{ trigger.event.body.n }}"}}
      - {event: {source: [shop]}, payload: {n: "{{ trigger.event.detail.n }}"}}
      - {queue: orders, payload: {n: "{{ trigger.event.body.n }}"}}
      - {upload: {prefix: uploads/in/}, payload: {n: "{{ trigger.event.object.n }}"}}
workload: {n: null}
workflow: [{step: only, tool: {kind: noop}}]
"""


@pytest.fixture
def stack(function: Function) -> Iterator[Function]:
    """With an inbox queue and bucket, a secret, and a playbook with a trigger of each kind."""
    queue, bucket = make_queue("InboxQueue"), make_bucket()
    with environment(INBOX_QUEUE_URL=queue, INBOX_QUEUE="inbox", INBOX_BUCKET=bucket, HOOK_RATE="1000"):
        kept = json.dumps({"data": {"secret": SECRET}, "paths": ["*"]})
        client("secretsmanager").create_secret(Name="noetl/hooks/github", SecretString=kept)
        request = {
            "httpMethod": "POST",
            "path": "/api/playbooks",
            "headers": {},
            "requestContext": {},
            "body": json.dumps({"playbook": PLAYBOOK}),
        }
        assert function("admit").handler(request, Context())["statusCode"] in (200, 201)
        yield function


def request(body: str, delivery: str = "1", secret: str = SECRET, path: str = "team/taker/push") -> dict[str, Any]:
    made = hmac.new(secret.encode(), body.encode(), "sha256").hexdigest()
    headers = {"x-hub-signature-256": f"sha256={made}", "Content-Type": "application/json", "X-GitHub-Delivery": delivery}
    return {"httpMethod": "POST", "path": f"/api/hooks/{path}", "headers": headers, "requestContext": {}, "body": body}


def message(body: str, number: int = 0, queue: str = "inbox") -> dict[str, Any]:
    return {
        "messageId": f"m-{number}",
        "receiptHandle": "r",
        "body": body,
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1795373028000"},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{queue}",
    }


def handed_on() -> list[str]:
    """Take what lies in the inbox queue."""
    found: list[str] = []
    url = os.environ["INBOX_QUEUE_URL"]
    while got := client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for one in got:
            found.append(one["Body"])
            client("sqs").delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
    return found


def deliver(admit: ModuleType, records: list[dict[str, Any]]) -> None:
    for first in range(0, len(records), 10):
        assert admit.handler({"Records": records[first : first + 10]}, Context()) == {"batchItemFailures": []}


def payloads() -> list[Any]:
    """Return the payloads with which the executions were started."""
    heads = control().index.heads(limit=1_000)
    return sorted(control().load(head.execution_id).payload["n"] for head in heads)


@pytest.mark.nightly
@pytest.mark.sized
@pytest.mark.parametrize("count", some([12, 40, 200], 3))
def test_webhooks_delivered_twice_are_one_execution_each(stack: Function, count: int) -> None:
    hooks, admit = stack("hooks"), stack("admit")
    told = []
    for n in [*range(count), *range(count)]:
        answer = hooks.handler(request(json.dumps({"n": n}), f"guid-{n}"), Context())
        assert answer["statusCode"] == 202
        told.append(json.loads(answer["body"])["execution_id"])
    assert len(set(told)) == count
    deliver(admit, [message(body, number) for number, body in enumerate(handed_on())])
    assert payloads() == list(range(count))
    assert {head.execution_id for head in control().index.heads(limit=1_000)} == set(told)


def test_a_validating_webhook_answers_422_to_an_invalid_payload(stack: Function) -> None:
    validated = PLAYBOOK.replace("credential: hooks/github}", "credential: hooks/github, respond: validated}").replace(
        "workload: {n: null}", "workload: {n: null, x-schema: {type: object, properties: {n: {type: number}}}}"
    )
    sent = {"httpMethod": "POST", "path": "/api/playbooks", "headers": {}, "requestContext": {}}
    assert stack("admit").handler({**sent, "body": json.dumps({"playbook": validated})}, Context())["statusCode"] == 201
    hooks = stack("hooks")
    answer = hooks.handler(request('{"n": "x"}'), Context())
    error = json.loads(answer["body"])["error"]
    assert (answer["statusCode"], error["code"]) == (422, "workload")
    assert "n" in error["message"] and error["details"][0]["loc"] == "body.payload" and error["request_id"]
    assert handed_on() == []
    assert hooks.handler(request('{"n": 1}'), Context())["statusCode"] == 202
    assert len(handed_on()) == 1


def test_a_webhook_over_its_rate_says_when_to_send_again_and_counts_it(
    stack: Function, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOOK_RATE", "1")
    clock = SystemClock().now()
    monkeypatch.setattr(SystemClock, "now", lambda self: clock)
    answers = [stack("hooks").handler(request("{}", f"guid-{n}"), Context()) for n in range(3)]
    assert [answer["statusCode"] for answer in answers] == [202, 202, 429]
    assert answers[2]["headers"]["Retry-After"] == "1"
    error = json.loads(answers[2]["body"])["error"]
    assert (error["code"], error["request_id"]) == ("over_rate", "req-1")
    assert len(handed_on()) == 2
    (sent,) = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    assert sent["HooksOverRate"] == [1.0]
    assert "webhook push of team/taker is over its rate" in caplog.text


def everything() -> list[Any]:
    """All that is stored anywhere."""
    tables = [client("dynamodb").scan(TableName=os.environ[name])["Items"] for name in ("EVENTS_TABLE", "CATALOG_TABLE")]
    buckets = [
        client("s3").list_objects_v2(Bucket=os.environ[name]).get("Contents", ()) for name in ("RESULTS_BUCKET", "INBOX_BUCKET")
    ]
    return [*tables, *([o["Key"] for o in bucket] for bucket in buckets)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "wrong",
    [
        request("{}", secret="guess"),
        request("{}", path="team/taker/pull"),
        request("{}", path="team/taker"),
        request("{}", path=""),
        request("{}", path="%00/%ff/" + "x" * 3_000),
        {**request("{}"), "headers": None},
        {**request("{}"), "body": None},
        request("{}") | {"body": '{"n": 1}'},
    ],
    ids=["secret", "trigger", "playbook", "nothing", "hostile", "headers", "body", "another body"],
)
def test_a_wrong_signature_is_401_and_leaves_nothing(
    stack: Function, wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    before = everything()
    hooks = stack("hooks")
    answer = hooks.handler(wrong, Context())
    told = {
        "code": "unauthorized",
        "message": "no webhook has this address and this signature",
        "details": [],
        "request_id": "req-1",
    }
    assert (answer["statusCode"], json.loads(answer["body"])) == (401, {"error": told})
    assert (everything(), handed_on()) == (before, [])
    assert SECRET not in caplog.text


def test_a_body_that_the_gateway_sends_as_base64_is_the_same_body(stack: Function) -> None:
    from base64 import b64encode

    body = json.dumps({"n": 1})
    coded = {**request(body), "body": b64encode(body.encode()).decode(), "isBase64Encoded": True}
    assert stack("hooks").handler(coded, Context())["statusCode"] == 202
    assert stack("hooks").handler({**coded, "body": "no base64!"}, Context())["statusCode"] == 400


def test_a_body_that_is_no_text_is_taken_as_base64(stack: Function) -> None:
    from base64 import b64encode

    odd = b"\xff\xfe no text"
    made = hmac.new(SECRET.encode(), odd, "sha256").hexdigest()
    sent = request("{}", "guid-odd")
    sent["headers"] |= {"x-hub-signature-256": f"sha256={made}", "Content-Type": "application/octet-stream"}
    coded = {**sent, "body": b64encode(odd).decode(), "isBase64Encoded": True}
    assert stack("hooks").handler(coded, Context())["statusCode"] == 202
    event = json.loads(handed_on()[-1])["noetl_webhook"]["event"]
    assert (event["body"], event["encoding"]) == (b64encode(odd).decode(), "base64")


@pytest.mark.nightly
def test_a_large_webhook_goes_by_the_results_bucket_and_reads_the_same(stack: Function) -> None:
    body = json.dumps({"n": 1, "pad": "x" * 600_000})
    assert stack("hooks").handler(request(body), Context())["statusCode"] == 202
    (handed,) = handed_on()
    assert len(handed) < 1_000
    deliver(stack("admit"), [message(handed)])
    assert payloads() == [1]


def test_the_log_has_neither_bodies_nor_signatures(stack: Function, caplog: pytest.LogCaptureFixture) -> None:
    sent = request(json.dumps({"n": 1, "private": "patient 7"}))
    stack("hooks").handler(sent, Context())
    deliver(stack("admit"), [message(body) for body in handed_on()])
    written = "".join(str(vars(record)) for record in caplog.records)
    assert "patient 7" not in written
    assert sent["headers"]["x-hub-signature-256"] not in written
    assert [line["id"] for line in lines(caplog, "taken")] == ["1"]


def test_repeated_events_messages_and_uploads_start_one_execution_each(stack: Function) -> None:
    admit, bucket = stack("admit"), os.environ["INBOX_BUCKET"]
    event = {"id": "e1", "source": "shop", "detail-type": "Placed", "time": "2026-11-22T18:43:48Z", "detail": {"n": 1}}
    client("s3").put_object(Bucket=bucket, Key="uploads/in/a b.json", Body=b'{"n": 3}')
    put = {"s3": {"bucket": {"name": bucket}, "object": {"key": "uploads/in/a+b.json", "size": 8, "sequencer": "1"}}}
    came = [
        message(json.dumps(event), 1),
        message(json.dumps({"n": 2}), 2, queue="orders"),
        message(json.dumps({"Records": [put]}), 3),
    ]
    deliver(admit, [*came, *came])
    assert payloads() == [1, 2, 3]


def test_a_message_of_a_queue_that_nothing_reads_stays_there(stack: Function) -> None:
    answer = stack("admit").handler({"Records": [message("{}", 7, queue="others")]}, Context())
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m-7"}]}


def test_an_upload_from_an_unreadable_bucket_is_listed_as_refused(
    stack: Function,
) -> None:
    admit = stack("admit")

    def denied(**_: Any) -> Any:
        raise ClientError({"Error": {"Code": "AccessDenied"}}, "CopyObject")

    client("s3").meta.events.register("before-call.s3.CopyObject", denied)
    put = {"s3": {"bucket": {"name": os.environ["INBOX_BUCKET"]}, "object": {"key": "uploads/in/a", "size": 8, "sequencer": "1"}}}
    deliver(admit, [message(json.dumps({"Records": [put]}))])
    client("s3").meta.events.unregister("before-call.s3.CopyObject", denied)
    (refused,) = control().triggers.list_refused(0, 10)
    assert (refused.name, refused.code, refused.facts["event"]["key"]) == ("upload", "forbidden", "uploads/in/a")
