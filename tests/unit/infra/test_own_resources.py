"""Resources of the stack itself are closed to playbooks: every resource of the template, by every tool that could name it, in the
role and in the worker.

The list is the template's. A resource that is new is tried at once; one of a new type fails here until somebody says how tools name it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import pytest

from noetl_core.adapters.local.results import FileResultStore
from noetl_core.dsl.kinds import PLUGINS
from noetl_core.ports import Forbidden
from noetl_core.tools.aws import rights
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from noetl_core.tools.registry import BUILT_IN, FOR_LOOPS, ToolRegistry
from noetl_core.tools.script import ScriptedTool
from noetl_core.worker.secrets.credentials import PermittedCredentials
from tests.aws_calls import observe_calls
from tests.unit.infra.iam import permits
from tests.unit.infra.translated import deployed, listed, of_type, statements

STACK = {
    "PythonPool": "yes",
    "Asks": "yes",
    "Console": "yes",
    "ApiAuth": "JWT",
    "UserPoolArn": "arn:aws:cognito-idp:us-east-1:123456789012:userpool/us-east-1_abc",
    "SnapStart": "2026",
    "EventBus": "shop",
    "ApiAccessLogs": "yes",
    "SubnetIds": "subnet-0a1b2c3d",
    "SecurityGroupIds": "sg-0a1b2c3d",
}
"""A stack with everything in it."""
EVERYTHING = {**STACK, **{right.parameter: "*" for right in rights.RIGHTS}}
"""The same, whose parameters open all that there is."""

REACHED: Mapping[str, tuple[str, ...]] = {
    "AWS::DynamoDB::Table": ("", "/index/heads", "/index/by_due", "/stream/2026"),
    "AWS::S3::Bucket": ("",),
    "AWS::SQS::Queue": ("",),
    "AWS::Lambda::Function": ("", ":live", ":7"),
    "AWS::ApiGateway::RestApi": ("/v1/POST/api/executions", "/v1/GET/console/index.html"),
}
"""Types of resources that tools name, and what there is of each."""
OBJECTS: Mapping[str, tuple[str, ...]] = {
    "ResultsBucket": ("/7/results/a", "/hooks/a"),
    "InboxBucket": ("/triggers/a/b.json", "/playbooks/a.yaml", "/uploads/a", "/rejected/a"),
    "ConsoleBucket": ("/index.html", "/settings.json"),
}
"""The contents of each bucket."""
NOT_NAMED: Mapping[str, str] = {
    "AWS::SecretsManager::Secret": "tools name credentials, below the prefix; the key of callbacks is not there",
    "AWS::KMS::Key": "no tool names a key, and no parameter opens one",
    "AWS::IAM::Role": "ToolTaskRoles hands roles on to ECS alone, whom no role of the stack trusts",
    "AWS::IAM::ManagedPolicy": "no tool names one",
    "AWS::Lambda::LayerVersion": "no tool names one",
    "AWS::Lambda::Version": "is named by its function",
    "AWS::Lambda::Alias": "is named by its function",
    "AWS::Lambda::EventSourceMapping": "no tool names one",
    "AWS::Lambda::Permission": "no tool names one",
    "AWS::Logs::LogGroup": "no tool names one, and no parameter opens one",
    "AWS::CloudWatch::Alarm": "no tool names one",
    "AWS::CloudWatch::Dashboard": "no tool names one",
    "AWS::Events::Rule": "tools put events on buses; the stack has none of its own",
    "AWS::SQS::QueuePolicy": "is part of its queue",
    "AWS::S3::BucketPolicy": "is part of its bucket",
    "AWS::ApiGateway::Stage": "is part of its API",
    "AWS::ApiGateway::Deployment": "is part of its API",
}
"""Types of resources that no tool names, and why."""
ACTIONS = {"dynamodb": "AWS::DynamoDB::Table", "s3": "AWS::S3::Bucket", "sqs": "AWS::SQS::Queue", "lambda": "AWS::Lambda::Function",
           "execute-api": "AWS::ApiGateway::RestApi"}  # fmt: skip
KEYS = (
    "m#1",
    "s#1",
    "r#1#0",
    "p#a",
    "latest",
    "about",
    "d#1",
    "x#1",
    "due#1",
    "trigger#a",
    "kv#a",
    "token#a",
    "rate#1",
    "requests#a/b",
    "running#a",
    None,
)
HERE = {"aws:ResourceAccount": "123456789012", "aws:RequestedRegion": "us-east-1"}


def owned() -> dict[str, str]:
    """The stack's resources by name, with their types."""
    return {name: resource["Type"] for name, resource in deployed(**STACK).items()}


def test_every_resource_type_is_reachable_by_tools_or_listed_with_a_reason() -> None:
    assert set(owned().values()) == set(REACHED) | set(NOT_NAMED)
    assert not set(REACHED) & set(NOT_NAMED)


def opened() -> list[str]:
    """The actions that parameters open."""
    plain = [json.dumps(s) for s in statements("WorkerFunction", **STACK)]
    return sorted(
        {a for s in statements("WorkerFunction", **EVERYTHING) if json.dumps(s) not in plain for a in listed(s["Action"])}
    )


def arn(name: str, kind: str) -> str:
    """The ARN of a resource as the template's policies name it, which `*` matches as it matches the real one."""
    return f"arn:aws:execute-api:us-east-1:123456789012:${{{name}}}" if kind == "AWS::ApiGateway::RestApi" else f"${{{name}.Arn}}"


REAL = {
    "AWS::DynamoDB::Table": "arn:aws:dynamodb:us-east-1:123456789012:table/{}",
    "AWS::S3::Bucket": "arn:aws:s3:::{}",
    "AWS::SQS::Queue": "arn:aws:sqs:us-east-1:123456789012:{}",
    "AWS::Lambda::Function": "arn:aws:lambda:us-east-1:123456789012:function:{}",
}


@pytest.fixture(scope="module", autouse=True)
def real_arns() -> Iterator[None]:
    """Policies with ARNs in them, so that a pattern of a parameter is held against what it would meet."""
    kinds = owned()
    patch = pytest.MonkeyPatch()

    def written(function: str, effect: str = "Allow", **parameters: str) -> list[Any]:
        text = json.dumps(list(statements(function, effect, **parameters)))
        text = re.sub(
            r"\$\{(\w+)\.Arn\}", lambda m: REAL[kinds[m[1]]].format(m[1].lower()) if kinds[m[1]] in REAL else m[0], text
        )
        text = re.sub(r"\$\{(\w+Bucket)\}", lambda m: m[1].lower(), text)
        return list(json.loads(text))

    patch.setattr("tests.unit.infra.iam.statements", written)
    yield
    patch.undo()


def real(name: str, kind: str) -> str:
    return REAL[kind].format(name.lower()) if kind in REAL else arn(name, kind)


def calls(kind: str) -> Iterator[tuple[str, str | None]]:
    """The actions that parameters open on this type, each with every key that a table has."""
    for action in opened():
        if ACTIONS.get(action.partition(":")[0]) == kind:
            yield from product([action], KEYS if kind == "AWS::DynamoDB::Table" else [None])


def test_wildcards_in_parameters_do_not_open_resources_of_the_stack() -> None:
    """The role permits there only the worker's own actions, which the worker refuses to tools before the call."""
    reached = {name: kind for name, kind in owned().items() if kind in REACHED}
    assert set(reached.values()) == set(REACHED)
    for name, kind in reached.items():
        _opens_nothing(name, kind)


def _opens_nothing(name: str, kind: str) -> None:
    tried = 0
    there = (*REACHED[kind], *(OBJECTS[name] if kind == "AWS::S3::Bucket" else ()))
    for below, (action, key) in product(there, calls(kind)):
        if action == "s3:ListBucket" and below:
            continue  # it is about a bucket
        context = {**HERE, **({"dynamodb:LeadingKeys": [key]} if key else {})}
        permitted = permits("WorkerFunction", action, real(name, kind) + below, context, **EVERYTHING)
        assert permitted == permits("WorkerFunction", action, real(name, kind) + below, context, **STACK), (
            name,
            action,
            below,
            key,
        )
        tried += 1
    assert tried, name


def test_parameters_open_resources_outside_the_stack() -> None:
    """The counter-check: the same calls are permitted on resources that are not of the stack."""
    for action, (kind, name) in {
        "s3:PutObject": ("AWS::S3::Bucket", "reports/a"),
        "dynamodb:Scan": ("AWS::DynamoDB::Table", "stock/index/by_name"),
        "sqs:SendMessage": ("AWS::SQS::Queue", "orders"),
        "lambda:InvokeFunction": ("AWS::Lambda::Function", "resize"),
    }.items():
        assert permits("WorkerFunction", action, REAL[kind].format(name), HERE, **EVERYTHING), action
        assert not permits("WorkerFunction", action, REAL[kind].format(name), HERE, **STACK), action


@pytest.mark.parametrize("action", ["secretsmanager:GetSecretValue", "secretsmanager:PutSecretValue"])
def test_only_the_hooks_function_reads_secrets_of_webhooks(action: str) -> None:
    secret = "arn:aws:secretsmanager:us-east-1:123456789012:secret:stack/{}-AbCdEf"
    assert not permits("WorkerFunction", action, secret.format("hooks/github"), {}, **EVERYTHING)
    assert permits("WorkerFunction", action, secret.format("api"), {}, **EVERYTHING) == action.endswith("GetSecretValue")
    assert permits("HooksFunction", "secretsmanager:GetSecretValue", secret.format("hooks/github"), {}, **STACK)


# --- the worker -----------------------------------------------------------------------------------------------------------

TABLE = {"key": {"pk": "a"}}
WAYS: Mapping[str, Mapping[str, Callable[[str], list[dict[str, Any]]]]] = {
    "s3": {
        "buckets": lambda name: [
            *({"action": action, "bucket": name, "key": "index.html"} for action in ("get", "delete", "presign")),
            {"action": "put", "bucket": name, "key": "index.html", "data": "x"},
            {"action": "put", "uri": f"s3://{name}/index.html", "data": "x"},
            {"action": "list", "bucket": name},
            {"action": "copy", "bucket": "reports", "key": "a", "source": f"s3://{name}/7/a"},
            {"action": "copy", "bucket": name, "key": "index.html", "source": "s3://reports/a"},
            {"action": "presign", "method": "put", "bucket": name, "key": "index.html"},
        ]
    },
    "duckdb": {
        "buckets": lambda name: [
            {"sources": {"t": f"s3://{name}/7/*.json"}, "command": "SELECT 1"},
            {"sources": {"t": f"s3://{name}/7/a.json"}, "command": "SELECT 1"},
        ]
    },
    "transfer": {
        "buckets": lambda name: [
            {"source": {"rows": [{"a": 1}]}, "target": {"kind": "s3", "uri": f"s3://{name}/out/"}},
            {"source": {"kind": "s3", "uri": f"s3://{name}/7/*.jsonl"}, "target": {"kind": "s3", "uri": "s3://reports/out/"}},
        ]
    },
    "python": {"buckets": lambda name: [{"script": {"uri": f"s3://{name}/7/a.py", "source": "s3"}}]},
    "sqs": {
        "queues": lambda name: [
            {"action": "send", "queue": name, "message": "x"},
            {"action": "send", "queue": f"https://sqs.us-east-1.amazonaws.com/123456789012/{name}", "message": "x"},
        ]
    },
    "cursor.sqs": {"queues": lambda name: [{"queue": name, "action": "receive", "limit": 1, "hide_s": 60, "wait_s": 0}]},
    "dynamodb": {
        "tables": lambda name: [
            {"action": "get", "table": name, **TABLE},
            {"action": "put", "table": name, "item": {"pk": "a"}},
            {"action": "query", "table": name, "index": "heads", "where": "pk = :p", "values": {":p": "a"}},
            {"action": "update", "table": name, **TABLE, "update": "SET a = :a", "values": {":a": 1}},
            {"action": "delete", "table": name, **TABLE},
        ]
    },
    "cursor.dynamodb": {"tables": lambda name: [{"table": name, "action": "settle", "keys": [], "rows": {}}]},
    "lambda": {
        "functions": lambda name: [
            {"function": name, "payload": {}},
            {"function": f"{name}:live", "payload": {}},
            {"function": f"arn:aws:lambda:us-east-1:123456789012:function:{name}", "payload": {}},
        ]
    },
    "http": {
        "apis": lambda name: [
            {"url": f"https://{name}.execute-api.us-east-1.amazonaws.com/v1/api/executions", "auth": {"type": "aws"}}
        ]
    },
}
"""Kinds of tasks, and the calls by which they name what the stack owns."""
NAMES_NOTHING: Mapping[str, str] = {
    **dict.fromkeys(("noop", "store", "kv", "artifact"), "what they keep is below their execution, or below a name of their own"),
    **dict.fromkeys(("postgres", "mcp", "llm", "shell"), "they sign nothing with the worker's role"),
    "secrets": "a credential is one that PermittedCredentials hands out",
    "sns": "the stack owns no topic",
    "eventbridge": "the stack owns no bus",
    "email": "the stack owns no address",
    **dict.fromkeys(PLUGINS, "clusters, task definitions and services of others; the stack owns none"),
}
TYPES = {"buckets": "AWS::S3::Bucket", "queues": "AWS::SQS::Queue", "tables": "AWS::DynamoDB::Table", "functions": "AWS::Lambda::Function",
         "apis": "AWS::ApiGateway::RestApi"}  # fmt: skip


def test_every_kind_has_calls_to_try_or_a_reason() -> None:
    assert {*BUILT_IN, *FOR_LOOPS, *PLUGINS} == {*WAYS, *NAMES_NOTHING}, (
        "enter each kind in WAYS, or in NAMES_NOTHING with the reason"
    )
    assert set(TYPES.values()) == set(REACHED)
    assert {sort for ways in WAYS.values() for sort in ways} == set(TYPES) == {right.own for right in rights.RIGHTS if right.own}


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the worker's function, whose parameters open everything; a call to AWS fails the test."""
    variables = of_type("AWS::Lambda::Function", **EVERYTHING)["WorkerFunction"]["Environment"]["Variables"]
    for name, value in variables.items():
        monkeypatch.setenv(name, re.sub(r"\$\{(\w+)(?:\.\w+)?\}", lambda m: m[1].lower(), value))
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "workerfunction")

    def called(_service: str, operation: str, asked: Any) -> None:
        raise AssertionError(f"{operation} was called: {asked}")

    observe_calls(monkeypatch, called)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", WAYS)
def test_a_tool_refuses_each_resource_of_the_stack_before_the_call(kind: str, worker: None, tmp_path: Any) -> None:
    tools = ToolRegistry()
    for sort, ways in WAYS[kind].items():
        names = [name.lower() for name, type_ in owned().items() if type_ == TYPES[sort]]
        assert names
        for name in names:
            for inputs in ways(name):
                call = ToolCall(kind, inputs, {}, "7", task_run_id="t", results=FileResultStore(tmp_path))
                tool = ScriptedTool(tools.get(kind), tools) if "script" in inputs else tools.get(kind)
                error = invoke(tool, call).error
                assert error is not None and error.kind == "auth" and "is the engine's own" in error.message, (inputs, error)


class Kept:
    def get(self, name: str) -> Mapping[str, Any]:
        return {"data": {"secret": "s3cret"}}


def test_a_playbook_is_handed_no_credential_that_signs_webhooks() -> None:
    """This holds for every caller: the worker makes the check, on a stack and on this machine."""
    credentials = PermittedCredentials(Kept(), "digest", None)
    assert credentials.get("github")
    for name in ("hooks/github", "hooks/a/b", "hooks/"):
        with pytest.raises(Forbidden, match="signs webhooks"):
            credentials.get(name)
