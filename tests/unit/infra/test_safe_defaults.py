"""Safe defaults: access that is closed by default, the principals that resources trust, and protection from deletion."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from noetl_infra.deploy import write_account
from tests.unit.infra.iam import permits
from tests.unit.infra.translated import CHOICES, ROOT, conditions, deployed, listed, of_type, source

EMULATOR = {"AWS::AccountId": "000000000000"}
SAM = tomllib.loads((ROOT / "samconfig.toml").read_text())


def asked(**parameters: str) -> set[str]:
    """Return the API's ways of authentication: at the gateway, in the functions, and in the settings of the console's pages."""
    (api,) = of_type("AWS::ApiGateway::RestApi", Console="yes", **parameters).values()
    paths = api["Body"]["paths"]
    methods = [
        m for p, item in paths.items() if p.startswith("/api/") and "hooks" not in p for k, m in item.items() if k != "options"
    ]
    gateway = {next(iter(m["security"][0])) if m["security"] else "NONE" for m in methods}
    functions = of_type("AWS::Lambda::Function", Console="yes", **parameters).values()
    settings = json.dumps(paths["/console/settings.json"]["get"]["x-amazon-apigateway-integration"])
    told = set(re.findall(r'\\"auth\\": \\"(\w+)\\"', settings))
    return gateway | {v["API_AUTH"] for f in functions if "API_AUTH" in (v := f["Environment"]["Variables"])} | told


def test_an_api_that_asks_nobody_exists_in_an_emulators_account_alone() -> None:
    assert asked(ApiAuth="NONE", **EMULATOR) == {"NONE"}
    assert asked(ApiAuth="NONE") == {"IAM"}, "an account of AWS"
    assert conditions(ApiAuth="NONE", **EMULATOR)("OpenCallbacks")
    assert not conditions(ApiAuth="NONE")("OpenCallbacks")


def test_an_emulator_that_knows_no_account_in_conditions_is_told_its_own() -> None:
    """MiniStack leaves `AWS::AccountId` there as it is; without the account its API would ask for IAM."""
    for account in ("000000000000", "123456789012"):
        template = {"Conditions": dict(source()["Conditions"])}
        write_account(template, account)
        assert template["Conditions"]["OnEmulator"] == {"Fn::Equals": [account, "000000000000"]}
        assert "AWS::AccountId" not in json.dumps(template)


def test_the_local_environment_is_no_stack_of_another_environment() -> None:
    names = {each: SAM[each]["global"]["parameters"]["stack_name"] for each in ("default", "local", "dev", "prod")}
    assert len(set(names.values())) == len(names), names
    open_ = {
        each
        for each in SAM
        if each != "version" and "ApiAuth=NONE" in SAM[each]["global"]["parameters"].get("parameter_overrides", "")
    }
    assert open_ == {"local", "container"}, "of which the one has a name of its own, and the other deploys nothing"
    assert "deploy" not in SAM["container"]


def test_credentials_of_a_stack_are_below_its_name_unless_a_parameter_says_another() -> None:
    for parameters, prefix in (({}, "stack/"), ({"SecretsPrefix": "shared/"}, "shared/")):
        functions = of_type("AWS::Lambda::Function", **parameters).values()
        assert {f["Environment"]["Variables"]["SECRETS_PREFIX"] for f in functions} == {prefix}
        mine = f"arn:aws:secretsmanager:us-east-1:123456789012:secret:{prefix}api-AbCdEf"
        for function in ("WorkerFunction", "CredentialsFunction"):
            assert permits(function, "secretsmanager:GetSecretValue", mine, {}, **parameters)
            assert not permits(function, "secretsmanager:GetSecretValue", mine.replace(prefix, "other/"), {}, **parameters)
        for action in ("DeleteSecret", "RestoreSecret"):
            assert permits("CredentialsFunction", f"secretsmanager:{action}", mine, {}, **parameters)


def test_production_protects_its_tables_and_keeps_room_for_webhooks() -> None:
    assert {t["DeletionProtectionEnabled"] for t in of_type("AWS::DynamoDB::Table").values()} == {False}
    assert "ReservedConcurrentExecutions" not in of_type("AWS::Lambda::Function")["HooksFunction"]
    overrides = dict(pair.split("=") for pair in SAM["prod"]["global"]["parameters"]["parameter_overrides"].split())
    assert {t["DeletionProtectionEnabled"] for t in of_type("AWS::DynamoDB::Table", **overrides).values()} == {True}
    assert int(of_type("AWS::Lambda::Function", **overrides)["HooksFunction"]["ReservedConcurrentExecutions"]) > 0


def test_results_have_versions_that_end() -> None:
    bucket = of_type("AWS::S3::Bucket")["ResultsBucket"]
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    expiring, markers = bucket["LifecycleConfiguration"]["Rules"]
    assert expiring["NoncurrentVersionExpiration"] == {"NoncurrentDays": 30}
    assert markers["ExpiredObjectDeleteMarker"] is True


VPC = {"PythonPool": "yes", "SubnetIds": "subnet-0a", "SecurityGroupIds": "sg-0a"}


@pytest.mark.parametrize("function", ["WorkerFunction", "PythonWorkerFunction"])
@pytest.mark.parametrize("action", ["Create", "Delete", "Describe"])
def test_lambda_attaches_a_function_to_the_vpc_and_the_functions_code_does_not(function: str, action: str) -> None:
    call = f"ec2:{action}NetworkInterface" + ("s" if action == "Describe" else "")
    interface = "arn:aws:ec2:us-east-1:123456789012:network-interface/eni-1"
    code = {"lambda:SourceFunctionArn": "arn:aws:lambda:us-east-1:123456789012:function:stack-worker"}
    assert permits(function, call, interface, {}, **VPC)
    assert not permits(function, call, interface, code, **VPC)


# --- trusts ---------------------------------------------------------------------------------------------------------------


def trusts(**parameters: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each statement of a resource's policy that lets a service in."""
    for name, resource in deployed(**parameters).items():
        for document in policies(resource["Properties"]):
            for statement in document["Statement"]:
                principal = statement.get("Principal")
                if statement["Effect"] == "Allow" and isinstance(principal, Mapping) and "Service" in principal:
                    yield name, statement


def policies(value: Any) -> Iterator[Mapping[str, Any]]:
    """Each policy document in the properties of a resource."""
    if isinstance(value, Mapping):
        if "Statement" in value and "Version" in value:
            yield value
        for each in value.values():
            yield from policies(each)
    elif isinstance(value, list):
        for each in value:
            yield from policies(each)


@pytest.mark.parametrize("parameters", CHOICES, ids=lambda p: "+".join(p) or "defaults")
def test_every_service_that_is_trusted_acts_for_this_account(parameters: dict[str, str]) -> None:
    account = parameters.get("AWS::AccountId", "123456789012")
    found = list(trusts(**parameters))
    assert len({name for name, _ in found}) >= len(of_type("AWS::IAM::Role", **parameters)) + 1, "each role, and the inbox queue"
    for name, statement in found:
        accounts = [c["aws:SourceAccount"] for c in statement.get("Condition", {}).values() if "aws:SourceAccount" in c]
        assert accounts == [account], name
    for name, permission in of_type("AWS::Lambda::Permission", **parameters).items():
        source_arn = str(permission["SourceArn"])
        assert permission.get("SourceAccount") == account or account in source_arn or source_arn.startswith("${"), name


def test_a_role_of_a_function_is_assumed_by_lambda_in_this_account_and_by_nobody_else() -> None:
    for name, role in of_type("AWS::IAM::Role", PythonPool="yes").items():
        (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert statement["Principal"] == {"Service": "lambda.amazonaws.com"}, name
        assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": "123456789012"}}, name


# --- Actions --------------------------------------------------------------------------------------------------------------


def test_actions_are_pinned_by_digest() -> None:
    """A tag can be moved; beside the digest stands the version that it is."""
    used = [
        (file.name, line.strip())
        for file in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
        for line in file.read_text().splitlines()
        if re.match(r"\s*(- )?uses:", line)
    ]
    assert len(used) > 8
    pinned = re.compile(r"(- )?uses: [\w./-]+@[0-9a-f]{40} # v\d+(\.\d+){2}")
    assert [each for each in used if not pinned.fullmatch(each[1])] == []
    digests = {re.sub(r"^(- )?uses: ", "", line) for _, line in used}
    assert len(digests) == len({each.partition("@")[0] for each in digests}), "each action in one version"


def test_the_parameters_that_close_say_so() -> None:
    assert "000000000000" in source()["Parameters"]["ApiAuth"]["Description"]
    assert listed(source()["Parameters"]["DeletionProtection"]["Default"]) == ["no"]
