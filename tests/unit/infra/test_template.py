"""Promises of template.yaml after the SAM transform: roles, queues, the stream mapping, the API's three ways of
authentication."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from noetl_core.control.deployment.inbound_sources import InboundSources
from tests.api_requests import routes
from tests.unit.infra import translated
from tests.unit.infra.translated import listed, source

FUNCTIONS = (
    "AdmitFunction",
    "CredentialsFunction",
    "HooksFunction",
    "RouterFunction",
    "AskFunction",
    "SweeperFunction",
    "WorkerFunction",
    "PythonWorkerFunction",
)
CONTROL = ("AdmitFunction", "RouterFunction", "AskFunction", "SweeperFunction")
WORKERS = ("WorkerFunction", "PythonWorkerFunction")
HOOKS = "/api/hooks/{proxy+}"
"""The one path whose callers prove who they are by what they send."""


def of_type(kind: str, **parameters: str) -> dict[str, Mapping[str, Any]]:
    """With both pools and asks, unless parameters say otherwise."""
    return translated.of_type(kind, **{"PythonPool": "yes", "Asks": "yes", **parameters})


def statements(function: str) -> Iterator[Mapping[str, Any]]:
    return translated.statements(function, PythonPool="yes", Asks="yes")


def test_only_the_control_plane_can_send() -> None:
    for function in FUNCTIONS:
        environment = of_type("AWS::Lambda::Function")[function]["Environment"]["Variables"]
        sends = {r for s in statements(function) if "sqs:SendMessage" in listed(s["Action"]) for r in listed(s["Resource"])}
        commands = bool(sends & {"${CommandQueue.Arn}", "${PythonQueue.Arn}", "${ControlQueue.Arn}"})
        assert ("COMMAND_QUEUES" in environment, commands) == (function in CONTROL, function in CONTROL)
        assert commands or sends == ({"${InboxQueue.Arn}"} if function == "HooksFunction" else set())


def test_the_python_pool_reads_no_secrets() -> None:
    def reads(function: str) -> bool:
        return any("secretsmanager:GetSecretValue" in listed(s["Action"]) for s in statements(function))

    assert reads("WorkerFunction")
    assert not reads("PythonWorkerFunction")


def test_admit_reads_the_signing_secret_and_other_control_functions_read_no_secret() -> None:
    for function in CONTROL:
        read = [s["Resource"] for s in statements(function) if "secretsmanager:GetSecretValue" in listed(s["Action"])]
        assert read == (["${SigningSecret}"] if function == "AdmitFunction" else [])


def test_the_credentials_function_touches_nothing_but_credentials() -> None:
    actions = {a for s in statements("CredentialsFunction") for a in listed(s["Action"])}
    assert {a.partition(":")[0] for a in actions} == {"secretsmanager", "logs", "xray"}


def test_the_stream_mapping_limits_retries_and_has_a_failure_destination() -> None:
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
    longest = source()["Parameters"]["WorkerTimeout"]["MaxValue"]
    mappings = [m for m in of_type("AWS::Lambda::EventSourceMapping").values() if "StartingPosition" not in m]
    assert len(mappings) == 4
    for mapping in mappings:
        queue = queues[mapping["EventSourceArn"].removesuffix(".Arn}")[2:]]
        timeout = of_type("AWS::Lambda::Function", WorkerTimeout=str(longest))[mapping["FunctionName"][2:-1]]["Timeout"]
        assert queue["VisibilityTimeout"] >= 6 * int(timeout)
        assert queue["RedrivePolicy"]["deadLetterTargetArn"].endswith("DeadLetters.Arn}")
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_buckets_are_private_encrypted_and_reached_by_tls_only() -> None:
    buckets = of_type("AWS::S3::Bucket")
    assert all(all(b["PublicAccessBlockConfiguration"].values()) and b["BucketEncryption"] for b in buckets.values())
    guarded = {
        p["Bucket"][2:-1]
        for p in of_type("AWS::S3::BucketPolicy").values()
        for s in p["PolicyDocument"]["Statement"]
        if s["Effect"] == "Deny" and s["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    }
    assert guarded == set(buckets)


def test_functions_may_call_each_other_through_queues_without_end() -> None:
    assert {f["RecursiveLoop"] for f in of_type("AWS::Lambda::Function").values()} == {"Allow"}


@pytest.mark.parametrize(
    ("parameters", "schemes"),
    [({}, [{"IAM"}]), ({"ApiAuth": "JWT"}, [{"JWT"}]), ({"ApiAuth": "NONE", "AWS::AccountId": "000000000000"}, [])],
    ids=["iam by default", "tokens of a user pool", "open, for an emulator"],
)
def test_every_api_method_except_webhooks_has_the_configured_authentication(
    parameters: dict[str, str], schemes: list[set[str]]
) -> None:
    (api,) = of_type("AWS::ApiGateway::RestApi", **parameters).values()
    body = api["Body"]
    asking = {path: methods for path, methods in body["paths"].items() if path != HOOKS}
    methods = [m for path in asking.values() for m in path.items() if m[0] in ("get", "post", "put", "delete", "options")]
    assert len(methods) >= 4
    assert all([set(wanted) for wanted in operation["security"]] == schemes for _, operation in methods)
    for scheme in (name for wanted in schemes for name in wanted):
        assert body["securityDefinitions"][scheme]["x-amazon-apigateway-authtype"]


def test_each_jwt_method_accepts_the_scopes_that_its_routes_require() -> None:
    (api,) = of_type("AWS::ApiGateway::RestApi", ApiAuth="JWT").values()
    paths = api["Body"]["paths"]

    def scopes(path: str, method: str) -> set[str]:
        (wanted,) = paths[path][method]["security"]
        return {str(scope).removeprefix("noetl/") for scope in wanted["JWT"]}

    for path, methods in paths.items():
        assert path == HOOKS or all("groups" in scopes(path, method) for method in methods if method != "options")
    for route in routes():
        exact = re.sub(r"\{(\w+)\+\}", "{proxy+}", route.path)
        behind = re.sub(r"^(/api/\w+)/.+", r"\1/{proxy+}", route.path)
        path = next(p for p in (exact, behind, "/api/{proxy+}") if p in paths)
        assert not route.right or route.right in scopes(path, route.method.lower()), (route.method, route.path)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_additional_tool_layers_reach_the_workers_alone(function: str) -> None:
    mine = "arn:aws:lambda:us-east-1:123456789012:layer:mine:3"
    core = ["${" + layer + "}" for layer in of_type("AWS::Lambda::LayerVersion")]
    assert of_type("AWS::Lambda::Function")[function]["Layers"] == core
    layers = of_type("AWS::Lambda::Function", ToolLayers=f"{mine},{mine}4")[function]["Layers"]
    assert layers == [*core, *([mine, f"{mine}4"] if function in WORKERS else [])]


def test_token_auth_of_callbacks_opens_only_the_callback_and_webhook_paths() -> None:
    (api,) = of_type("AWS::ApiGateway::RestApi", CallbackAuth="TOKEN").values()
    paths = api["Body"]["paths"]
    opened = {(path, m) for path, methods in paths.items() for m, o in methods.items() if m != "options" and not o["security"]}
    assert opened == {
        ("/api/callbacks", "post"),
        ("/api/callbacks/{token}", "get"),
        ("/api/callbacks/{token}", "post"),
        ("/api/callbacks/{token}/answer", "post"),
        (HOOKS, "post"),
    }


def test_webhooks_are_open_go_to_their_own_function_and_have_a_rate_of_their_own() -> None:
    (api,) = of_type("AWS::ApiGateway::RestApi", ApiAuth="JWT").values()
    (stage,) = of_type("AWS::ApiGateway::Stage").values()
    hooks = api["Body"]["paths"][HOOKS]
    assert hooks["post"]["security"] == []
    assert "HooksFunction" in json.dumps(hooks["post"]["x-amazon-apigateway-integration"])
    assert [m for m in hooks if m != "options"] == ["post"]
    assert api["Body"]["x-amazon-apigateway-binary-media-types"] == ["application/octet-stream"]
    (rate,) = [m for m in stage["MethodSettings"] if m["ResourcePath"] == "/~1api~1hooks~1{proxy+}"]
    assert (rate["HttpMethod"], rate["ThrottlingRateLimit"], rate["ThrottlingBurstLimit"]) == ("POST", "50", "100")


def test_events_come_from_the_bus_and_the_sources_that_are_named_and_from_no_other_rule() -> None:
    assert of_type("AWS::Events::Rule").keys() == {"SweeperFunctionEveryMinute"}
    for sources, wanted in (("", [{"prefix": ""}]), ("shop.orders,aws.s3", ["shop.orders", "aws.s3"])):
        named = {"EventBus": "shop", "EventSources": sources}
        rule = of_type("AWS::Events::Rule", **named)["EventRule"]
        assert (rule["EventBusName"], rule["EventPattern"]) == ("shop", {"source": wanted})
        (target,) = rule["Targets"]
        assert (target["Arn"], target["DeadLetterConfig"]["Arn"]) == ("${InboxQueue.Arn}", "${InboxDeadLetters.Arn}")
        for policy in ("InboxQueuePolicy", "InboxDeadLettersPolicy"):
            told = of_type("AWS::SQS::QueuePolicy", **named)[policy]["PolicyDocument"]["Statement"]
            (allowed,) = [s for s in told if s["Principal"] == {"Service": "events.amazonaws.com"}]
            assert allowed["Condition"]["ArnEquals"] == {"aws:SourceArn": "${EventRule.Arn}"}


def test_each_queue_that_is_named_has_a_mapping_that_reports_single_failures() -> None:
    arn = "arn:aws:sqs:us-east-1:123456789012:orders"
    mapped = of_type("AWS::Lambda::EventSourceMapping", TriggerQueue=arn, TriggerQueue3=f"{arn}-3")
    queues = {name: m["EventSourceArn"] for name, m in mapped.items() if name.startswith("AdmitFunctionQueue")}
    assert queues == {"AdmitFunctionQueue": arn, "AdmitFunctionQueue3": f"{arn}-3"}
    assert all(mapped[name]["FunctionResponseTypes"] == ["ReportBatchItemFailures"] for name in queues)


def test_the_admit_function_knows_the_queues_event_sources_and_buckets_of_triggers() -> None:
    arn = "arn:aws:sqs:us-east-1:123456789012:orders"
    named = {
        "TriggerQueue": arn,
        "TriggerQueue3": f"{arn}-3",
        "EventBus": "shop",
        "EventSources": "shop.orders,aws.s3",
        "UploadBuckets": "scans",
    }
    known = of_type("AWS::Lambda::Function", **named)["AdmitFunction"]["Environment"]["Variables"]
    ways = InboundSources.from_environment(known)
    assert (set(ways.queues), ways.event_bus, ways.event_sources) == ({"orders", "orders-3"}, "shop", ("shop.orders", "aws.s3"))
    assert "scans" in ways.buckets and len(ways.buckets) == 2, "and the inbox bucket"


def test_functions_behind_the_api_know_its_authentication_mode() -> None:
    for function in ("AdmitFunction", "CredentialsFunction"):
        assert of_type("AWS::Lambda::Function")[function]["Environment"]["Variables"]["API_AUTH"] == "IAM"


def test_the_gateway_traces_and_logs_no_path() -> None:
    (stage,) = of_type("AWS::ApiGateway::Stage").values()
    assert stage["TracingEnabled"] is False
    assert not any(m.get("DataTraceEnabled") for m in stage["MethodSettings"])
    assert "$context.path" not in json.dumps(stage)  # `$context.resourcePath` is the route's pattern


def test_only_the_worker_may_use_the_sealing_key() -> None:
    uses = {f for f in FUNCTIONS if any("SealingKey" in json.dumps(s) for s in statements(f))}
    assert uses == {"WorkerFunction"}
    assert of_type("AWS::KMS::Key")["SealingKey"]["EnableKeyRotation"] is True
    assert not any(s["Action"] == "kms:*" for f in FUNCTIONS for s in statements(f))


@pytest.mark.parametrize(("kind", "status", "code"), [("THROTTLED", "429", "throttled"), ("DEFAULT_5XX", "503", "unavailable")])
def test_gateway_refusals_carry_a_retry_after_header(kind: str, status: str, code: str) -> None:
    (api,) = of_type("AWS::ApiGateway::RestApi").values()
    answer = api["Body"]["x-amazon-apigateway-gateway-responses"][kind]
    assert answer["statusCode"] == status
    assert answer["responseParameters"] == {"gatewayresponse.header.Retry-After": "'1'"}
    assert f'"code": "{code}"' in answer["responseTemplates"]["application/json"]
