"""What parameters open to tools: names in a parameter become statements of the worker's role and words that the worker is told."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import Any

import pytest

from noetl_core.tools.aws import rights
from tests.unit.infra.translated import CHOICES, defaults, listed, of_type, source, statements

ALL = next(choice for choice in CHOICES if "ToolBuckets" in choice)
HERE = {"StringEquals": {"aws:ResourceAccount": "123456789012", "aws:RequestedRegion": "us-east-1"}}


def granted(**parameters: str) -> list[Any]:
    """The statements of the worker's role that come with parameters."""
    plain = [json.dumps(s, sort_keys=True) for s in statements("WorkerFunction")]
    return [s for s in statements("WorkerFunction", **parameters) if json.dumps(s, sort_keys=True) not in plain]


def resources(**parameters: str) -> set[str]:
    return {resource for s in granted(**parameters) for resource in listed(s["Resource"])}


def test_every_right_of_the_code_is_a_parameter_of_the_template_and_the_other_way_round() -> None:
    declared = {name for name in source()["Parameters"] if name.startswith("Tool") and name != "ToolLayers"}
    assert {right.parameter for right in rights.RIGHTS} == declared == set(ALL)


def test_by_default_tools_reach_nothing() -> None:
    assert {defaults()[right.parameter] for right in rights.RIGHTS} == {""}
    environment = of_type("AWS::Lambda::Function")["WorkerFunction"]["Environment"]["Variables"]
    assert {environment[right.variable] for right in rights.RIGHTS} == {""}
    assert granted() == []


@pytest.mark.parametrize(
    ("parameter", "value", "allowed"),
    [
        (
            "ToolBuckets",
            "reports,raw-*",
            {"arn:*:s3:::reports", "arn:*:s3:::reports/*", "arn:*:s3:::raw-*", "arn:*:s3:::raw-*/*"},
        ),
        ("ToolQueues", "orders,jobs-*", {"arn:*:sqs:*:*:orders", "arn:*:sqs:*:*:jobs-*"}),
        ("ToolTables", "stock", {"arn:*:dynamodb:*:*:table/stock", "arn:*:dynamodb:*:*:table/stock/index/*"}),
        ("ToolFunctions", "resize", {"arn:*:lambda:*:*:function:resize", "arn:*:lambda:*:*:function:resize:*"}),
        (
            "ToolClusters",
            "jobs",
            {"arn:*:ecs:*:*:task/jobs/*", "arn:*:ecs:*:*:container-instance/jobs/*"},
        ),
        ("ToolTopics", "alerts,team-*", {"arn:*:sns:*:*:alerts", "arn:*:sns:*:*:team-*"}),
        ("ToolEventBuses", "shop,team-*", {"arn:*:events:*:*:event-bus/shop", "arn:*:events:*:*:event-bus/team-*"}),
        ("ToolApis", "a1,b2", {"arn:*:execute-api:*:*:a1/*", "arn:*:execute-api:*:*:b2/*"}),
    ],
)
def test_a_parameter_opens_what_it_names_in_this_account_and_region(parameter: str, value: str, allowed: set[str]) -> None:
    assert resources(**{parameter: value}) == allowed
    for statement in granted(**{parameter: value}):
        held = {"ToolBuckets": "aws:ResourceAccount", "ToolApis": "aws:RequestedRegion"}.get(parameter)
        (condition,) = statement["Condition"].values()
        assert condition == (HERE["StringEquals"] if held is None else {held: HERE["StringEquals"][held]})


def test_a_sender_is_opened_by_its_address() -> None:
    (statement,) = granted(ToolSenders="reports@example.org,*@example.net")
    assert statement["Action"] == ["ses:SendEmail", "ses:SendRawEmail"]
    mine = "arn:aws:ses:us-east-1:123456789012"
    assert statement["Resource"] == [f"{mine}:identity/*", f"{mine}:configuration-set/*"]
    assert statement["Condition"] == {"StringLike": {"ses:FromAddress": ["reports@example.org", "*@example.net"]}}


def test_a_task_definition_is_run_in_clusters_that_are_named_and_in_no_other() -> None:
    run, shown = granted(ToolTasks="train,re-*")
    assert run["Action"] == ["ecs:RunTask"]
    assert run["Resource"] == ["arn:*:ecs:*:*:task-definition/train:*", "arn:*:ecs:*:*:task-definition/re-*:*"]
    assert run["Condition"] == {**HERE, "ArnLike": {"ecs:cluster": ["arn:*:ecs:*:*:cluster/"]}}, "which no cluster is called"
    assert (shown["Action"], shown["Resource"]) == (["ecs:DescribeTaskDefinition"], "*")
    run = next(s for s in granted(ToolTasks="train", ToolClusters="jobs,batch-*") if s["Action"] == ["ecs:RunTask"])
    assert run["Condition"]["ArnLike"] == {"ecs:cluster": ["arn:*:ecs:*:*:cluster/jobs", "arn:*:ecs:*:*:cluster/batch-*"]}


def test_a_role_is_handed_on_to_ecs_and_to_nothing_else() -> None:
    (statement,) = granted(ToolTaskRoles="train-task")
    assert (statement["Action"], statement["Resource"]) == (["iam:PassRole"], ["arn:*:iam::*:role/train-task"])
    assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}}


@pytest.mark.parametrize("right", rights.RIGHTS, ids=lambda right: right.parameter)
def test_the_worker_is_told_what_its_role_allows(right: rights.Right) -> None:
    environment = of_type("AWS::Lambda::Function", **ALL)["WorkerFunction"]["Environment"]["Variables"]
    assert environment[right.variable] == ALL[right.parameter]


def test_parameters_open_nothing_to_the_python_pool() -> None:
    pool = {"PythonPool": "yes"}
    assert list(statements("PythonWorkerFunction", **pool, **ALL)) == list(statements("PythonWorkerFunction", **pool))
    told = of_type("AWS::Lambda::Function", **pool, **ALL)["PythonWorkerFunction"]["Environment"]["Variables"]
    assert told["STACK_RESOURCES"] == "{}", "without it the worker would take itself for a local runner, which may all"
    assert not any(name.startswith("NOETL_TOOL_") for name in told)


@pytest.mark.parametrize("pool", ["yes", "no"])
def test_the_worker_knows_what_is_the_engines_own(pool: str) -> None:
    functions = of_type("AWS::Lambda::Function", PythonPool=pool)
    own = json.loads(functions["WorkerFunction"]["Environment"]["Variables"]["STACK_RESOURCES"])
    assert set(own) == {right.own for right in rights.RIGHTS if right.own} | {"inbox"}
    assert set(own["tables"]) == {f"${{{name}}}" for name in of_type("AWS::DynamoDB::Table", PythonPool=pool)}
    assert set(own["buckets"]) == {f"${{{name}}}" for name in of_type("AWS::S3::Bucket", PythonPool=pool)}
    assert set(own["queues"]) == {f"${{{name}.QueueName}}" for name in of_type("AWS::SQS::Queue", PythonPool=pool)}
    assert set(own["functions"]) == {f"${{{name}}}" for name in functions if name != "WorkerFunction"}


@pytest.mark.parametrize("pool", ["yes", "no"])
def test_the_worker_itself_does_nothing_that_is_denied_to_tools(pool: str) -> None:
    """A denial stands above what the role allows."""
    allowed = [
        (a, r, json.dumps(s.get("Condition")))
        for s in statements("WorkerFunction", PythonPool=pool)
        for a in listed(s["Action"])
        for r in listed(s["Resource"])
    ]
    for statement in statements("WorkerFunction", "Deny", PythonPool=pool):
        both = [
            (action, resource, condition)
            for action, resource, condition in allowed
            if action in listed(statement["Action"]) and any(fnmatchcase(resource, r) for r in listed(statement["Resource"]))
        ]
        if "Condition" in statement:
            assert both
            kept = statement["Condition"]["ForAnyValue:StringNotLike"]
            assert all(json.loads(condition)["ForAllValues:StringLike"] == kept for _, _, condition in both)
        else:
            assert both == [], statement


def test_what_parameters_name_by_a_wildcard_leaves_out_the_engines_own() -> None:
    """Each action that a parameter can open is denied on the engine's own resources of that service, or is one that the worker does there
    itself - reading and writing results, reading the log - or the stack has nothing of that service."""
    everything = {right.parameter: "*" for right in rights.RIGHTS}
    opened = {action for s in granted(**everything) for action in listed(s["Action"])}
    denied = {action for s in statements("WorkerFunction", "Deny", **everything) for action in listed(s["Action"])}
    worker = {action for s in statements("WorkerFunction") for action in listed(s["Action"])}
    harmless = {"s3:AbortMultipartUpload", "dynamodb:DescribeTable"}
    ecs = {f"ecs:{name}" for name in ("RunTask", "StopTask", "DescribeTasks", "ListTasks", "DescribeTaskDefinition")}
    nothing_there = {"sns:Publish", "events:PutEvents", "ses:SendEmail", "ses:SendRawEmail", "iam:PassRole"} | ecs
    assert opened - denied - worker == harmless | nothing_there
