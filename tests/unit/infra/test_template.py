"""What template.yaml promises after the SAM transform: roles, queues, the stream mapping, the API's three ways of asking who calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
from samtranslator.yaml_helper import yaml_parse

from noetl_core.control.api import routes
from noetl_core.dsl.numbers import LIFETIME

ROOT = Path(__file__).parents[3]
FUNCTIONS = (
    "AdmitFunction",
    "CredentialsFunction",
    "RouterFunction",
    "SweeperFunction",
    "WorkerFunction",
    "PythonWorkerFunction",
)
CONTROL = ("AdmitFunction", "RouterFunction", "SweeperFunction")
WORKERS = ("WorkerFunction", "PythonWorkerFunction")


@cache
def transformed() -> Mapping[str, Any]:
    """The resources CloudFormation gets."""
    template = yaml_parse((ROOT / "template.yaml").read_text())
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = "s3://bucket/code.zip"
        elif resource["Type"] == "AWS::Serverless::LayerVersion":
            resource["Properties"]["ContentUri"] = "s3://bucket/layer.zip"
    patch = pytest.MonkeyPatch()
    with patch.context() as environment:
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        resources: Mapping[str, Any] = Translator({}, Parser()).translate(template, {})["Resources"]
    return resources


def of_type(kind: str) -> dict[str, Mapping[str, Any]]:
    return {name: r["Properties"] for name, r in transformed().items() if r["Type"] == kind}


def statements(function: str) -> Iterator[Mapping[str, Any]]:
    for policy in transformed()[f"{function}Role"]["Properties"]["Policies"]:
        yield from policy["PolicyDocument"]["Statement"]


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_role_names_what_it_may_touch(function: str) -> None:
    for statement in statements(function):
        assert all("*" not in action for action in listed(statement["Action"])), statement
        if listed(statement["Action"]) != ["secretsmanager:ListSecrets"]:  # names alone, and it knows no narrower resource
            assert "*" not in listed(statement["Resource"]), statement


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_log_is_written_only_under_the_key_spaces_of_a_function(function: str) -> None:
    written = {
        key
        for statement in statements(function)
        if "dynamodb:PutItem" in listed(statement["Action"]) and "EventsTable" in json.dumps(statement["Resource"])
        for key in statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
    }
    expected = {"m#*", "s#*", "r#*"} if function in CONTROL else {"r#*"} if function in WORKERS else set()
    assert written == expected


def test_only_the_control_plane_can_send() -> None:
    for function in FUNCTIONS:
        environment = transformed()[function]["Properties"]["Environment"]["Variables"]
        sends = any("sqs:SendMessage" in listed(s["Action"]) for s in statements(function))
        assert ("COMMAND_QUEUES" in environment, sends) == (function in CONTROL, function in CONTROL)


def test_the_python_pool_reads_no_secrets() -> None:
    def reads(function: str) -> bool:
        return any("secretsmanager:GetSecretValue" in listed(s["Action"]) for s in statements(function))

    assert reads("WorkerFunction")
    assert not reads("PythonWorkerFunction")


def test_of_the_control_plane_only_admit_reads_a_secret_and_only_the_signing_key() -> None:
    for function in CONTROL:
        read = [s["Resource"] for s in statements(function) if "secretsmanager:GetSecretValue" in listed(s["Action"])]
        assert read == ([{"Ref": "SigningSecret"}] if function == "AdmitFunction" else [])


def test_the_credentials_function_touches_nothing_but_credentials() -> None:
    actions = {a for s in statements("CredentialsFunction") for a in listed(s["Action"])}
    assert {a.partition(":")[0] for a in actions} == {"secretsmanager"}


def test_the_stream_mapping_gives_up_on_a_record_in_the_end_and_says_so() -> None:
    (mapping,) = [m for m in of_type("AWS::Lambda::EventSourceMapping").values() if "StartingPosition" in m]
    assert mapping["StartingPosition"] == "TRIM_HORIZON"
    assert mapping["BisectBatchOnFunctionError"] is True
    assert 0 < mapping["MaximumRetryAttempts"] < 100
    assert 0 < mapping["MaximumRecordAgeInSeconds"] < 24 * 3600
    assert mapping["DestinationConfig"]["OnFailure"]["Destination"]
    (only,) = mapping["FilterCriteria"]["Filters"]
    assert json.loads(only["Pattern"]) == {"eventName": ["INSERT"], "dynamodb": {"NewImage": {"wake": {"N": ["1"]}}}}


def test_a_message_stays_hidden_for_six_times_its_function_and_ends_in_a_dead_letter_queue() -> None:
    queues = of_type("AWS::SQS::Queue")
    longest = yaml_parse((ROOT / "template.yaml").read_text())["Parameters"]["WorkerTimeout"]["MaxValue"]
    mappings = [m for m in of_type("AWS::Lambda::EventSourceMapping").values() if "StartingPosition" not in m]
    assert len(mappings) == 4
    for mapping in mappings:
        queue = queues[mapping["EventSourceArn"]["Fn::GetAtt"][0]]
        timeout = transformed()[mapping["FunctionName"]["Ref"]]["Properties"]["Timeout"]
        assert queue["VisibilityTimeout"] >= 6 * (timeout if isinstance(timeout, int) else longest)
        assert queue["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0].endswith("DeadLetters")
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_every_dead_letter_queue_has_an_alarm() -> None:
    watched = {a["Dimensions"][0]["Value"]["Fn::GetAtt"][0] for a in of_type("AWS::CloudWatch::Alarm").values()}
    assert watched == {name for name in of_type("AWS::SQS::Queue") if name.endswith("DeadLetters")}


def test_buckets_are_private_encrypted_and_reached_by_tls_only() -> None:
    buckets = of_type("AWS::S3::Bucket")
    assert all(all(b["PublicAccessBlockConfiguration"].values()) and b["BucketEncryption"] for b in buckets.values())
    guarded = {
        p["Bucket"]["Ref"]
        for p in of_type("AWS::S3::BucketPolicy").values()
        for s in p["PolicyDocument"]["Statement"]
        if s["Effect"] == "Deny" and s["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    }
    assert guarded == set(buckets)


def test_functions_may_call_each_other_through_queues_without_end() -> None:
    assert {f["RecursiveLoop"] for f in of_type("AWS::Lambda::Function").values()} == {"Allow"}


def chosen(value: Any, **conditions: bool) -> Any:
    """`value` with every `Fn::If` decided."""
    if isinstance(value, dict):
        if "Fn::If" in value:
            name, yes, no = value["Fn::If"]
            return chosen(yes if conditions.get(name, False) else no, **conditions)
        return {k: chosen(v, **conditions) for k, v in value.items()}
    return [chosen(v, **conditions) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("conditions", "schemes"),
    [({}, [{"IAM"}]), ({"TokenApi": True}, [{"JWT"}]), ({"OpenApi": True, "OpenCallbacks": True}, [])],
    ids=["iam by default", "tokens of a user pool", "open, for an emulator"],
)
def test_every_method_of_the_api_asks_who_calls(conditions: dict[str, bool], schemes: list[set[str]]) -> None:
    (api,) = of_type("AWS::ApiGateway::RestApi").values()
    body = chosen(api["Body"], **conditions)
    methods = [m for path in body["paths"].values() for m in path.items() if m[0] in ("get", "post", "put", "delete", "options")]
    assert len(methods) >= 4
    assert all([set(wanted) for wanted in operation["security"]] == schemes for _, operation in methods)
    for scheme in (name for wanted in schemes for name in wanted):
        assert body["securityDefinitions"][scheme]["x-amazon-apigateway-authtype"]


def test_with_tokens_every_method_names_scopes_that_let_in_whoever_the_routes_behind_it_may_let_in() -> None:
    (api,) = of_type("AWS::ApiGateway::RestApi").values()
    paths = chosen(api["Body"], TokenApi=True)["paths"]

    def scopes(path: str, method: str) -> set[str]:
        (wanted,) = paths[path][method]["security"]
        return {scope["Fn::Sub"].removeprefix("${ScopesOf}/") for scope in wanted["JWT"]}

    for path, methods in paths.items():
        assert all("groups" in scopes(path, method) for method in methods if method != "options")
    for route in routes():
        exact = re.sub(r"\{(\w+)\+\}", "{proxy+}", route.path)
        behind = re.sub(r"^(/api/\w+)/.+", r"\1/{proxy+}", route.path)
        path = next(p for p in (exact, behind, "/api/{proxy+}") if p in paths)
        assert not route.right or route.right in scopes(path, route.method.lower()), (route.method, route.path)


def test_results_outlive_every_execution_and_its_log() -> None:
    parameters = yaml_parse((ROOT / "template.yaml").read_text())["Parameters"]
    log_days = LIFETIME.high / 86_400 + parameters["RetentionSeconds"]["Default"] / 86_400
    assert parameters["ResultsDays"]["Default"] >= log_days


@pytest.mark.parametrize("function", FUNCTIONS)
def test_additional_tool_layers_reach_the_workers_alone(function: str) -> None:
    layers = of_type("AWS::Lambda::Function")[function]["Layers"]
    if function in WORKERS:
        condition, with_tools, without = layers["Fn::If"]
        assert condition == "HasToolLayers"
        assert with_tools == {"Fn::Split": [",", {"Fn::Join": [",", [*without, {"Fn::Join": [",", {"Ref": "ToolLayers"}]}]]}]}
    else:
        without = layers
    assert [layer["Ref"] for layer in without] == list(of_type("AWS::Lambda::LayerVersion"))


def test_a_callback_may_be_opened_to_whoever_has_its_token_and_nothing_else_with_it() -> None:
    (api,) = of_type("AWS::ApiGateway::RestApi").values()
    paths = chosen(api["Body"], OpenCallbacks=True)["paths"]
    opened = {(path, m) for path, methods in paths.items() for m, o in methods.items() if m != "options" and not o["security"]}
    assert opened == {("/api/callbacks", "post"), ("/api/callbacks/{token}", "post")}


def test_functions_behind_the_api_know_how_it_asks_who_calls() -> None:
    for function in ("AdmitFunction", "CredentialsFunction"):
        assert of_type("AWS::Lambda::Function")[function]["Environment"]["Variables"]["API_AUTH"] == {"Ref": "ApiAuth"}


def test_the_gateway_traces_and_logs_no_path() -> None:
    (stage,) = of_type("AWS::ApiGateway::Stage").values()
    assert stage["TracingEnabled"] is False
    assert not any(m.get("DataTraceEnabled") for m in stage["MethodSettings"])
    assert "$context.path" not in json.dumps(stage)  # `$context.resourcePath` is the route's pattern


def test_what_suspended_runs_sealed_is_opened_by_the_worker_alone() -> None:
    uses = {f for f in FUNCTIONS if any("SealingKey" in json.dumps(s) for s in statements(f))}
    assert uses == {"WorkerFunction"}
    assert of_type("AWS::KMS::Key")["SealingKey"]["EnableKeyRotation"] is True
    assert not any(s["Action"] == "kms:*" for f in FUNCTIONS for s in statements(f))
