"""Rights of each function, from the translated template: its own tables, prefixes, queues and log, and nothing by wildcard."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from typing import Any

import pytest

from tests.unit.infra.translated import CHOICES, deployed, listed, of_type, statements

QUEUE = "arn:aws:sqs:us-east-1:123456789012:orders"
EVERYTHING = {
    "PythonPool": "yes",
    "Asks": "yes",
    "SubnetIds": "subnet-0a1b2c3d",
    "SecurityGroupIds": "sg-0a1b2c3d",
    "EventBus": "default",
    "TriggerQueue": QUEUE,
    "TriggerQueue4": f"{QUEUE}.fifo",
    "UploadBuckets": "scans,drop-zone",
}
UNSCOPED = {
    "xray:PutTraceSegments": "the action knows no resource",
    "xray:PutTelemetryRecords": "the action knows no resource",
    "secretsmanager:ListSecrets": "names alone; the action knows no resource",
    "ecs:DescribeTaskDefinition": "where the output of a container is; the action knows no resource",
    "ec2:DescribeNetworkInterfaces": "Lambda looks for its network interface; the action knows no resource",
}
"""Actions that may stand beside `*`, and why."""
CREDENTIALS = "arn:aws:secretsmanager:us-east-1:123456789012:secret:stack/*"
HOOKS = "arn:aws:secretsmanager:us-east-1:123456789012:secret:stack/hooks/*"
INBOX = ("", "/playbooks/*", "/triggers/*", "/uploads/*", "/rejected/*")
FURTHER = {f"arn:*:s3:::{bucket}{below}" for bucket in ("scans", "drop-zone") for below in ("", "/*")}
NETWORK = "arn:aws:ec2:us-east-1:123456789012:*/*"
TOUCHES: dict[str, dict[str, set[str]]] = {
    "AdmitFunction": {
        "dynamodb": {
            "${EventsTable.Arn}",
            "${CatalogTable.Arn}",
            "${CatalogTable.Arn}/index/heads",
            "${CatalogTable.Arn}/index/heads_by_path",
        },
        "s3": {"${ResultsBucket.Arn}", "${ResultsBucket.Arn}/*", *(f"arn:aws:s3:::${{InboxBucket}}{p}" for p in INBOX), *FURTHER},
        "sqs receives": {"${InboxQueue.Arn}", QUEUE, f"{QUEUE}.fifo"},
        "sqs sends": {"${CommandQueue.Arn}", "${ControlQueue.Arn}", "${PythonQueue.Arn}"},
        "secretsmanager": {"${SigningSecret}"},
        "logs": {"${AdmitLogs.Arn}"},
    },
    "CredentialsFunction": {"secretsmanager": {CREDENTIALS, "*"}, "logs": {"${AdmitLogs.Arn}"}},
    "HooksFunction": {
        "dynamodb": {"${CatalogTable.Arn}"},
        "secretsmanager": {HOOKS},
        "s3": {"${ResultsBucket.Arn}/hooks/*"},
        "sqs sends": {"${InboxQueue.Arn}"},
        "logs": {"${HooksLogs.Arn}"},
    },
    "RouterFunction": {
        "dynamodb": {"${EventsTable.Arn}", "${EventsTable.StreamArn}", "${EventsTable.Arn}/stream/*", "${CatalogTable.Arn}"},
        "s3": {"${ResultsBucket.Arn}", "${ResultsBucket.Arn}/*"},
        "sqs receives": {"${ControlQueue.Arn}"},
        "sqs sends": {"${CommandQueue.Arn}", "${ControlQueue.Arn}", "${PythonQueue.Arn}", "${ControlDeadLetters.Arn}"},
        "logs": {"${RouterLogs.Arn}"},
    },
    "AskFunction": {
        "dynamodb": {"${EventsTable.Arn}", "${CatalogTable.Arn}"},
        "s3": {"${ResultsBucket.Arn}", "${ResultsBucket.Arn}/*"},
        "sqs sends": {"${CommandQueue.Arn}", "${ControlQueue.Arn}", "${PythonQueue.Arn}"},
        "logs": {"${AskLogs.Arn}"},
    },
    "SweeperFunction": {
        "dynamodb": {"${EventsTable.Arn}", "${CatalogTable.Arn}", "${CatalogTable.Arn}/index/by_due"},
        "s3": {"${ResultsBucket.Arn}", "${ResultsBucket.Arn}/*"},
        "sqs receives": {"${CommandDeadLetters.Arn}", "${ControlDeadLetters.Arn}"},
        "sqs sends": {"${CommandQueue.Arn}", "${ControlQueue.Arn}", "${PythonQueue.Arn}"},
        "logs": {"${SweeperLogs.Arn}"},
    },
    "WorkerFunction": {
        "dynamodb": {"${EventsTable.Arn}", "${CatalogTable.Arn}"},
        "s3": {
            "${ResultsBucket.Arn}",
            "${ResultsBucket.Arn}/*",
            *(f"arn:aws:s3:::${{InboxBucket}}{p}" for p in ("", "/triggers/*")),
        },
        "sqs receives": {"${CommandQueue.Arn}"},
        "secretsmanager": {"${SigningSecret}", CREDENTIALS},
        "kms": {"${SealingKey.Arn}"},
        "lambda": {"${AskFunction.Arn}", "${AskFunction.Arn}:*"},
        "logs": {"${WorkerLogs.Arn}"},
    },
    "PythonWorkerFunction": {
        "dynamodb": {"${EventsTable.Arn}", "${CatalogTable.Arn}"},
        "s3": {"${ResultsBucket.Arn}", "${ResultsBucket.Arn}/*"},
        "sqs receives": {"${PythonQueue.Arn}"},
        "logs": {"${WorkerLogs.Arn}"},
    },
}
"""Resources that each function uses besides traces and network interfaces."""
FUNCTIONS = tuple(TOUCHES)


def touched(function: str) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for statement in statements(function, **EVERYTHING):
        for action, resource in itertools.product(listed(statement["Action"]), listed(statement["Resource"])):
            service, _, name = action.partition(":")
            if service == "sqs" and name in ("ReceiveMessage", "DeleteMessage"):
                service = "sqs receives"
            elif service == "sqs" and name == "SendMessage":
                service = "sqs sends"
            found[service].add(resource)
    return dict(found)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_touches_its_own_tables_prefixes_queues_and_log_and_nothing_else(function: str) -> None:
    found = touched(function)
    assert {k: v for k, v in found.items() if k not in ("xray", "ec2", "sqs")} == TOUCHES[function]
    assert found.get("ec2") == ({NETWORK, "*"} if function.endswith("WorkerFunction") else None)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("parameters", CHOICES, ids=lambda p: "+".join(p) or "defaults")
def test_no_role_has_a_wildcard_resource_or_a_policy_that_others_wrote(parameters: dict[str, str]) -> None:
    roles = of_type("AWS::IAM::Role", **parameters)
    assert roles
    for name, role in roles.items():
        assert role.get("ManagedPolicyArns", []) == [], f"{name}: managed policies allow on every resource of the account"
        for statement in statements(name.removesuffix("Role"), **parameters):
            assert not any("*" in action for action in listed(statement["Action"])), (name, statement)
            if "*" in listed(statement["Resource"]):
                assert set(listed(statement["Action"])) <= set(UNSCOPED), (name, statement)


def test_every_function_has_a_role_of_its_own() -> None:
    functions = of_type("AWS::Lambda::Function", **EVERYTHING)
    assert set(functions) == set(FUNCTIONS)
    assert {name: f["Role"] for name, f in functions.items()} == {name: "${" + name + "Role.Arn}" for name in functions}


def test_a_queue_is_drained_by_the_function_that_its_mapping_names_and_by_no_other() -> None:
    mappings = of_type("AWS::Lambda::EventSourceMapping", **EVERYTHING).values()
    drains = {f: resources for f in FUNCTIONS if (resources := touched(f).get("sqs receives"))}
    mapped: defaultdict[str, set[str]] = defaultdict(set)
    for mapping in mappings:
        if "StartingPosition" not in mapping:
            mapped[mapping["FunctionName"][2:-1]].add(mapping["EventSourceArn"])
    assert drains == {**mapped, "SweeperFunction": {"${CommandDeadLetters.Arn}", "${ControlDeadLetters.Arn}"}}


def test_the_stream_is_read_by_the_router_alone() -> None:
    reads = {f for f in FUNCTIONS if "${EventsTable.StreamArn}" in touched(f).get("dynamodb", set())}
    assert reads == {"RouterFunction"}


def keys(function: str, table: str, *actions: str) -> set[str]:
    """The leading keys under which `actions` are allowed on a table; `*` where there is no condition."""
    found: set[str] = set()
    for statement in statements(function, **EVERYTHING):
        if set(actions) & set(listed(statement["Action"])) and table in listed(statement["Resource"]):
            condition: dict[str, Any] = statement.get("Condition", {})
            found |= set(condition.get("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys", ["*"]))
    return found


EXECUTIONS = {"x#*", "due#*", "w#*", "d#*", "trigger#*", "fired#*", "refused", "limit#*", "waits#*"}
"""Keys that functions that start and advance executions write in addition to the log."""


@pytest.mark.parametrize(
    ("function", "log", "catalog"),
    [
        ("AdmitFunction", {"m#*", "s#*", "r#*"}, {"p#*", "latest", "about", "d#*", *EXECUTIONS}),
        ("RouterFunction", {"m#*", "s#*", "r#*"}, EXECUTIONS),
        ("AskFunction", {"m#*", "s#*", "r#*"}, EXECUTIONS),
        ("SweeperFunction", {"m#*", "s#*", "r#*"}, EXECUTIONS),
        ("WorkerFunction", {"r#*"}, {"token#*", "rate#*", "running#*", "kv#*"}),
        ("PythonWorkerFunction", {"r#*"}, set()),
        ("CredentialsFunction", set(), set()),
        ("HooksFunction", set(), {"requests#*"}),
    ],
)
def test_a_function_writes_under_its_own_keys_alone(function: str, log: set[str], catalog: set[str]) -> None:
    write = ("dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:UpdateItem")
    assert (keys(function, "${EventsTable.Arn}", *write), keys(function, "${CatalogTable.Arn}", *write)) == (log, catalog)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_that_read_objects_of_a_bucket_may_list_the_bucket(function: str) -> None:
    """Without the right to list, S3 answers "denied" if an object does not exist."""
    allowed = [(a, r) for s in statements(function, **EVERYTHING) for a in listed(s["Action"]) for r in listed(s["Resource"])]
    read = {re.sub(r"/.*", "", resource) for action, resource in allowed if action == "s3:GetObject"}
    assert read == {resource for action, resource in allowed if action == "s3:ListBucket" and "/" not in resource}


def test_the_hooks_function_reads_only_webhooks_and_playbooks_of_the_catalog() -> None:
    assert keys("HooksFunction", "${CatalogTable.Arn}", "dynamodb:GetItem") == {"about", "trigger#*", "p#*", "d#*"}
    assert keys("HooksFunction", "${CatalogTable.Arn}", "dynamodb:Query") == {"p#*", "d#*"}
    read = [a for s in statements("HooksFunction", **EVERYTHING) for a in listed(s["Action"]) if a.startswith(("dynamodb", "s3"))]
    assert sorted(read) == ["dynamodb:GetItem", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem", "s3:PutObject"]


def test_a_function_outside_a_vpc_makes_no_network_interfaces() -> None:
    for function in of_type("AWS::Lambda::Function"):
        assert not any(a.startswith("ec2:") for s in statements(function) for a in listed(s["Action"]))


def test_nothing_exists_for_a_pool_that_is_not_there() -> None:
    assert not any("Python" in name for name in deployed())
