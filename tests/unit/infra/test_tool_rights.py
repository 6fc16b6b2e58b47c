"""Parameters that open resources to tools: their names become statements of the worker's role and variables of the worker."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from noetl_core.tools.aws import rights
from tests.unit.infra.iam import permits
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


@pytest.mark.one_in(2)
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
def test_a_parameter_opens_the_resources_it_names_in_this_account_and_region(
    parameter: str, value: str, allowed: set[str]
) -> None:
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
def test_the_workers_environment_lists_the_resources_its_role_allows(right: rights.Right) -> None:
    environment = of_type("AWS::Lambda::Function", **ALL)["WorkerFunction"]["Environment"]["Variables"]
    assert environment[right.variable] == ALL[right.parameter]


def test_parameters_open_nothing_to_the_python_pool() -> None:
    pool = {"PythonPool": "yes"}
    assert list(statements("PythonWorkerFunction", **pool, **ALL)) == list(statements("PythonWorkerFunction", **pool))
    told = of_type("AWS::Lambda::Function", **pool, **ALL)["PythonWorkerFunction"]["Environment"]["Variables"]
    assert told["STACK_RESOURCES"] == "{}", "without it the worker would take itself for a local runner, which may all"
    assert not any(name.startswith("NOETL_TOOL_") for name in told)


@pytest.mark.parametrize("parameters", [{"PythonPool": "yes"}, {}, {"Console": "yes"}], ids=str)
def test_the_worker_knows_the_engines_own_resources(monkeypatch: pytest.MonkeyPatch, parameters: dict[str, str]) -> None:
    functions = of_type("AWS::Lambda::Function", **parameters)
    for name, value in functions["WorkerFunction"]["Environment"]["Variables"].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "${WorkerFunction}")
    assert rights.own(rights.TABLES) == {f"${{{name}}}" for name in of_type("AWS::DynamoDB::Table", **parameters)}
    assert rights.own(rights.BUCKETS) == {f"${{{name}}}" for name in of_type("AWS::S3::Bucket", **parameters)}
    assert rights.own(rights.QUEUES) == {f"${{{name}.QueueName}}" for name in of_type("AWS::SQS::Queue", **parameters)}
    assert rights.own(rights.FUNCTIONS) == {f"${{{name}}}" for name in functions}
    assert rights.own(rights.APIS) == {f"${{{name}}}" for name in of_type("AWS::ApiGateway::RestApi", **parameters)}
    assert rights.own(rights.TOPICS) == frozenset()


@pytest.mark.parametrize("pool", ["yes", "no"])
def test_the_worker_itself_does_nothing_that_is_denied_to_tools(pool: str) -> None:
    """A denial stands above what the role allows: of each action that the role allows, every key and folder that it names is permitted."""
    tried = 0
    for statement in statements("WorkerFunction", PythonPool=pool):
        conditions = statement.get("Condition", {})
        keys = conditions.get("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys", ["r#*"])
        for action, resource, key in product(listed(statement["Action"]), listed(statement["Resource"]), keys):
            assert permits("WorkerFunction", action, resource, {"dynamodb:LeadingKeys": [key]}, PythonPool=pool), (
                action,
                resource,
            )
            tried += 1
    assert tried > 30


def test_a_worker_may_call_the_ask_function_and_no_other_of_the_stack() -> None:
    """The router above all: it trusts the records that it is called with."""
    on = {"Asks": "yes", "PythonPool": "yes", "SnapStart": "2026"}
    here = {"aws:ResourceAccount": "123456789012", "aws:RequestedRegion": "us-east-1"}
    for function in of_type("AWS::Lambda::Function", **on):
        for qualifier in ("", ":live"):
            resource = "${" + function + ".Arn}" + qualifier
            for action in ("lambda:InvokeFunction", "lambda:UpdateFunctionCode"):
                allowed = permits("WorkerFunction", action, resource, here, **on)
                assert allowed == (function == "AskFunction" and action == "lambda:InvokeFunction"), (function, action)
                assert not permits("PythonWorkerFunction", action, resource, here, **on)
