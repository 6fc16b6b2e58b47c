"""Parameters: accepted values, their effects, and values that they refuse."""

from __future__ import annotations

import json
import logging
import re
import time

import boto3
import pytest

from noetl_core.dsl.numbers import LIFETIME
from tests.unit.infra.translated import CHOICES, declared, deployed, of_type, source, takes, translated

DAY_S = 86_400


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("LogLevel", ["DEBUG", "INFO"], ["WARN", "WARNING", "CRITICAL", "TRACE", "info"]),
        ("LogRetentionDays", ["1", "30", "3653"], ["2", "31", "100"]),  # CloudWatch's list
        ("SecretsPrefix", ["", "noetl/", "noetl-dev/", "a/b/"], ["noetl", "/", "noetl/*", "no etl/"]),
        (
            "ToolLayers",
            ["", "arn:aws:lambda:eu-west-1:123456789012:layer:mine:3,arn:aws-cn:lambda:cn-north-1:123456789012:layer:a:1"],
            [
                "mine",
                "arn:aws:lambda:eu-west-1:123456789012:layer:mine",
                "arn:aws:lambda:eu-west-1:123456789012:layer:mine:3,mine",
            ],
        ),
        ("ToolBuckets", ["", "reports", "raw-*,my.bucket", "*"], ["Reports", "a,", "a b", "a/b", "arn:aws:s3:::a", "a,,b"]),
        ("ToolQueues", ["", "orders", "orders.fifo,Jobs_*"], ["https://sqs/orders", "a,", "arn:aws:sqs:us-east-1:1:a"]),
        ("ToolTables", ["", "stock", "a.b_c-*"], ["a/b", "a,"]),
        ("ToolFunctions", ["", "resize,re-*"], ["resize:live", "a,"]),
        ("ToolClusters", ["", "jobs,batch-*"], ["arn:aws:ecs:us-east-1:1:cluster/jobs", "a,"]),
        ("ToolTasks", ["", "train,re-*"], ["train:7", "a,"]),
        ("ToolTaskRoles", ["", "train-task,ecs*"], ["service-role/x", "arn:aws:iam::1:role/x"]),
        ("ToolTopics", ["", "alerts", "team-*,orders.fifo"], ["arn:aws:sns:us-east-1:1:a", "a b"]),
        ("ToolEventBuses", ["", "default", "shop,team-*"], ["arn:aws:events:us-east-1:1:event-bus/a", "a,"]),
        ("ToolSenders", ["", "a@example.org", "*@example.org,b+c@x.y"], ["Ann <a@b.c>", "${aws:username}@b.c", "a?@b.c"]),
        ("ToolApis", ["", "a1b2c3", "*"], ["https://a1b2c3", "A1"]),
        ("StageName", ["v1"], ["", "v-1", "a/b"]),
        ("AlarmTopicArn", ["", "arn:aws:sns:us-east-1:123456789012:alarms"], ["alarms"]),
        ("UserPoolArn", ["", "arn:aws:cognito-idp:us-east-1:123456789012:userpool/us-east-1_abc"], ["us-east-1_abc"]),
        ("SubnetIds", ["", "subnet-0a1b2c3d,subnet-1a"], ["vpc-0a1b2c3d", "subnet-0a,"]),
        ("SecurityGroupIds", ["", "sg-0a1b2c3d"], ["default"]),
        ("WorkerMemory", ["1769"], ["64", "20000"]),
        ("WorkerStorage", ["512", "10240"], ["100", "20480"]),
        ("EndpointUrl", ["", "http://127.0.0.1:4566"], ["127.0.0.1:4566"]),
        ("RetentionDays", ["30", "365"], ["0", "31"]),
    ],
)
def test_a_parameter_accepts_only_values_that_aws_accepts(name: str, good: list[str], bad: list[str]) -> None:
    assert [value for value in good if not takes(name, value)] == []
    assert [value for value in bad if takes(name, value)] == []


@pytest.mark.parametrize("name", sorted(source()["Parameters"]))
def test_every_default_is_allowed(name: str) -> None:
    assert takes(name, str(declared(name)["Default"]))


@pytest.mark.parametrize("level", declared("LogLevel")["AllowedValues"])
def test_a_log_level_is_known_to_lambda_and_to_python(level: str) -> None:
    assert level in {"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"}
    assert level in logging.getLevelNamesMapping()


@pytest.mark.parametrize("level", declared("LogLevel")["AllowedValues"])
def test_no_log_level_keeps_metrics_from_the_alarms(level: str) -> None:
    """A metric is a line that functions print without a level. Lambda takes it for INFO, and drops what is below the level set."""
    functions = of_type("AWS::Lambda::Function", LogLevel=level).values()
    levels = {f["LoggingConfig"]["ApplicationLogLevel"] for f in functions}
    assert {name for name in levels if logging.getLevelNamesMapping()[name] > logging.INFO} == set()


def test_every_parameter_reaches_something() -> None:
    written = json.dumps({part: source()[part] for part in ("Resources", "Conditions", "Globals", "Rules")}, default=str)
    unused = {n for n in source()["Parameters"] if not re.search(rf'"Ref": "{n}"|\$\{{{n}\}}', written)}
    assert unused == set()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("days", declared("RetentionDays")["AllowedValues"])
def test_results_outlive_every_execution_and_its_log_whatever_the_retention(days: str) -> None:
    rule, _ = of_type("AWS::S3::Bucket", RetentionDays=days)["ResultsBucket"]["LifecycleConfiguration"]["Rules"]
    kept_s = int(
        of_type("AWS::Lambda::Function", RetentionDays=days)["RouterFunction"]["Environment"]["Variables"]["RETENTION_S"]
    )
    assert kept_s == int(days) * DAY_S
    assert rule["ExpirationInDays"] * DAY_S > LIFETIME.high + kept_s


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, {"ApiAuth": "JWT"}), ({}, {"CallbackAuth": "TOKEN"}), ({"StageName": "v1"}, {"StageName": "v2"})],
    ids=["ApiAuth", "CallbackAuth", "StageName"],
)
def test_a_changed_api_parameter_creates_a_new_deployment_for_the_stage(
    monkeypatch: pytest.MonkeyPatch, before: dict[str, str], after: dict[str, str]
) -> None:
    """A stage serves its deployment, and CloudFormation creates a new deployment only for a new logical id."""
    now = time.time()

    def deployment(parameters: dict[str, str], at: float) -> str:
        monkeypatch.setattr(time, "time", lambda: at)
        resources = translated(**parameters)["Resources"]
        (made,) = [name for name, r in resources.items() if r["Type"] == "AWS::ApiGateway::Deployment"]
        (stage,) = [r["Properties"] for r in resources.values() if r["Type"] == "AWS::ApiGateway::Stage"]
        assert stage["DeploymentId"] == {"Ref": made}
        return str(made)

    assert deployment(before, now) != deployment(after, now + 60)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("parameters", CHOICES, ids=lambda p: "+".join(p) or "defaults")
def test_resources_refer_only_to_existing_resources(parameters: dict[str, str]) -> None:
    resources = deployed(**parameters)
    named = set(re.findall(r"\$\{([A-Za-z][A-Za-z0-9]*)[.}]", json.dumps(resources)))
    assert named <= set(resources), named - set(resources)


def test_secrets_and_data_survive_the_stack() -> None:
    kinds = {"AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::KMS::Key", "AWS::SecretsManager::Secret"}
    kept = {name for name, r in deployed().items() if r.get("DeletionPolicy") == r.get("UpdateReplacePolicy") == "Retain"}
    assert kept == {name for name, r in deployed().items() if r["Type"] in kinds}


def test_two_stacks_of_an_account_share_neither_layer_nor_metrics_nor_dashboard() -> None:
    (layer,) = of_type("AWS::Lambda::LayerVersion").values()
    (board,) = of_type("AWS::CloudWatch::Dashboard").values()
    services = {f["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"] for f in of_type("AWS::Lambda::Function").values()}
    assert ("stack" in layer["LayerName"], "stack" in board["DashboardName"], services) == (True, True, {"stack"})


@pytest.mark.parametrize("function", ["WorkerFunction", "PythonWorkerFunction"])
def test_workers_get_storage_network_and_concurrency_from_parameters(function: str) -> None:
    plain = of_type("AWS::Lambda::Function", PythonPool="yes")[function]
    asked = {"WorkerStorage": "2048", "SubnetIds": "subnet-0a,subnet-0b", "SecurityGroupIds": "sg-0a", "WorkerReserved": "60"}
    made = of_type("AWS::Lambda::Function", PythonPool="yes", **asked)[function]
    assert "VpcConfig" not in plain and "ReservedConcurrentExecutions" not in plain
    assert (made["EphemeralStorage"], made["ReservedConcurrentExecutions"]) == ({"Size": "2048"}, "60")
    assert made["VpcConfig"] == {"SubnetIds": ["subnet-0a", "subnet-0b"], "SecurityGroupIds": ["sg-0a"]}


def test_the_control_plane_reserves_concurrency_only_if_control_reserved_is_set() -> None:
    reserved = {
        name: f.get("ReservedConcurrentExecutions") for name, f in of_type("AWS::Lambda::Function", ControlReserved="20").items()
    }
    assert {n: r for n, r in reserved.items() if r is not None} == {
        "AdmitFunction": "20",
        "RouterFunction": "20",
        "SweeperFunction": 1,
    }
    assert all("ReservedConcurrentExecutions" not in f for f in of_type("AWS::Lambda::Function").values())


def test_access_logs_name_the_route_and_not_the_path() -> None:
    """The path of a callback holds its token."""
    (stage,) = of_type("AWS::ApiGateway::Stage", ApiAccessLogs="yes").values()
    logged = json.loads(stage["AccessLogSetting"]["Format"])
    assert stage["AccessLogSetting"]["DestinationArn"] == "${ApiLogs.Arn}"
    assert logged["route"] == "$context.resourcePath"
    assert not {"$context.path", "$context.requestOverride.path"} & set(logged.values())
    (plain,) = of_type("AWS::ApiGateway::Stage").values()
    assert "AccessLogSetting" not in plain


def test_functions_have_an_endpoint_variable_only_if_one_is_configured() -> None:
    """An emulator tells its functions where it is; a name without a value would hide that."""

    def endpoints(**parameters: str) -> set[str | None]:
        functions = of_type("AWS::Lambda::Function", **parameters).values()
        return {f["Environment"]["Variables"].get("AWS_ENDPOINT_URL") for f in functions}

    assert endpoints() == {None}
    assert endpoints(EndpointUrl="http://127.0.0.1:4566") == {"http://127.0.0.1:4566"}


@pytest.mark.parametrize("service", ["dynamodb", "sqs", "s3", "secretsmanager", "kms"])
def test_an_empty_endpoint_variable_leaves_the_default_endpoint_of_aws(monkeypatch: pytest.MonkeyPatch, service: str) -> None:
    """A declaration for `sam local` may leave the name empty elsewhere. botocore then uses AWS's own endpoint."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "")
    made = boto3.client(service, region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none")  # type: ignore[call-overload]
    assert made.meta.endpoint_url.endswith("amazonaws.com")
