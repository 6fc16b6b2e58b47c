"""Parameters with the longest accepted values fit into AWS's limits: policies of roles and environments of functions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from tests.unit.infra.translated import deployed, of_type, source, takes

INLINE, MANAGED, ATTACHED, ENVIRONMENT = 10_240, 6_144, 10, 4_096
"""Quotas of AWS: characters of a role's own policies and of a managed one, spaces not counted; managed policies of a role, by default;
bytes of a function's environment."""
SPARE = 32
"""Bytes of an environment that are left for variables that come."""
STACK = "noetl-production-of-the-far-west"
"""32 characters: the longest name of a stack that has room for all that parameters may say (docs/operating.md)."""
PLACE = {
    "AWS::StackName": STACK,
    "AWS::Region": "ap-southeast-2",
    "AWS::Partition": "aws-us-gov",
    "AWS::URLSuffix": "amazonaws.com.cn",
}
HERE = "arn:aws-us-gov:{}:ap-southeast-2:123456789012:"
BOUNDS = {"AWS::SQS::Queue": 80, "AWS::Lambda::Function": 64, "AWS::S3::Bucket": 63, "AWS::DynamoDB::Table": 255}
"""Characters of a name that CloudFormation makes: of the stack, the resource, and chance."""
SERVICES = {
    "AWS::SQS::Queue": ("sqs", "{}"),
    "AWS::Lambda::Function": ("lambda", "function:{}"),
    "AWS::DynamoDB::Table": ("dynamodb", "table/{}"),
    "AWS::SecretsManager::Secret": ("secretsmanager", "secret:{}-AbCdEf"),
    "AWS::KMS::Key": ("kms", "key/12345678-1234-1234-1234-123456789012"),
    "AWS::Logs::LogGroup": ("logs", f"log-group:/noetl/{STACK}/sweeper:*"),
    "AWS::Lambda::LayerVersion": ("lambda", f"layer:{STACK}-core:1234"),
    "AWS::Lambda::Alias": ("lambda", f"function:{'f' * 64}:live"),
    "AWS::Events::Rule": ("events", "rule/{}"),
    "AWS::IAM::Role": ("iam", "role/{}"),
}

ONE_OF_A_LIST = {"SubnetIds": "subnet-0123456789abcdef0", "SecurityGroupIds": "sg-0123456789abcdef0", "UploadBuckets": "b" * 39}
LONGEST: dict[str, str] = {
    "UserPoolArn": "arn:aws-us-gov:cognito-idp:ap-southeast-2:123456789012:userpool/ap-southeast-2_abcdefghi",
    "AlarmTopicArn": "",
    "ToolLayers": "",
    "ConsoleSignIn": "https://" + "a" * 80 + ".example.com",
    "ConsoleClientId": "c" * 128,
    "AllowPrivateHttp": ",".join(["10.123.123.0/24"] * 6),
    "SecretsPrefix": "s" * 63 + "/",
    "EndpointUrl": "http://" + "e" * 33,
    "SnapStart": "s" * 32,
    "StageName": "v" * 32,
    "SubnetIds": ",".join([ONE_OF_A_LIST["SubnetIds"]] * 16),
    "SecurityGroupIds": ",".join([ONE_OF_A_LIST["SecurityGroupIds"]] * 5),
    "EventBus": "b" * 64,
    "EventSources": ",".join(["s" * 52] * 3),
    "UploadBuckets": ",".join([ONE_OF_A_LIST["UploadBuckets"]] * 4),
    **{f"TriggerQueue{n}": HERE.format("sqs") + "q" * 80 for n in ("", "2", "3", "4")},
    "OnFailure": "o" * 128,
    "ExecutionLink": "l" * 160,
    "SecretReaders": "r" * 1024,
    "InlineStarters": "i" * 384,
    "ScopesOf": "s" * 64,
}
"""Values as long as their parameters take them; the lists of tools are in `many` and `long`."""
CHOSEN = {
    "ApiAuth": "JWT",
    "AllowShell": "all",
    "Console": "yes",
    "PythonPool": "yes",
    "Asks": "yes",
    "ControlReserved": "1000",
    "WorkerReserved": "1000",
    "HookReserved": "1000",
    "WorkerMemory": "10240",
    "WorkerConcurrency": "1000",
    "RetentionDays": "730",
    "IndexPartitions": "128",
    "LogLevel": "DEBUG",
    "ApiAccessLogs": "yes",
    "CallbackAuth": "TOKEN",
}
TOOLS = tuple(name for name in source()["Parameters"] if name.startswith("Tool") and name != "ToolLayers")


def at_most(name: str) -> int:
    return int(source()["Parameters"][name]["MaxLength"])


def long() -> dict[str, str]:
    """Lists with few names that are long."""
    return {name: ",".join(["n" * 63, "m" * 63]) for name in TOOLS}


def many() -> dict[str, str]:
    """Lists with as many names as they take."""
    made = {}
    for name in TOOLS:
        each = (at_most(name) - 11) // 12
        made[name] = ",".join(["n" * each] * 11 + ["m" * (at_most(name) - 11 * each - 11)])
    return made


WORST: Mapping[str, Mapping[str, str]] = {
    "many names": {**CHOSEN, **LONGEST, **many(), **PLACE},
    "long names": {**CHOSEN, **LONGEST, **long(), **PLACE},
}


def test_each_parameter_that_is_free_text_has_its_longest_value_here() -> None:
    """A parameter that is new is measured, too."""
    free = {n for n, p in source()["Parameters"].items() if p["Type"] == "String" and "AllowedValues" not in p}
    assert free == set(LONGEST) | set(TOOLS)
    for values in WORST.values():
        for name in free:
            assert takes(name, values[name]), name
            most = source()["Parameters"][name].get("MaxLength")
            assert most is None or most - 15 <= len(values[name]) <= most, (name, len(values[name]), most)
    assert [len(value.split(",")) for value in many().values()] == [12] * len(TOOLS)
    assert not any(takes(name, value + ",x") for name, value in many().items()), "no list takes a thirteenth name"


@cache
def _kinds(worst: str) -> dict[str, str]:
    return {name: resource["Type"] for name, resource in deployed(**WORST[worst]).items()}


def filled(value: Any, worst: str) -> str:
    """The JSON of a value, with names and ARNs as AWS makes them."""

    def made(found: re.Match[str]) -> str:
        name, _, attribute = found[1].partition(".")
        kind = _kinds(worst)[name]
        physical = f"{STACK}-{name}-1A2B3C4D5E6F7"[: BOUNDS.get(kind, 255)]
        if kind == "AWS::S3::Bucket":
            return f"arn:aws-us-gov:s3:::{physical}" if attribute == "Arn" else physical
        if kind == "AWS::ApiGateway::RestApi":
            return "a1b2c3d4e5"
        if kind == "AWS::SQS::Queue" and not attribute:
            return f"https://sqs.ap-southeast-2.amazonaws.com/123456789012/{physical}"
        if attribute in ("Arn", "StreamArn") or kind not in BOUNDS:
            service, form = SERVICES[kind]
            stream = "/stream/2026-11-24T00:00:00.000" if attribute == "StreamArn" else ""
            return HERE.format(service) + form.format(physical) + stream
        return physical

    return re.sub(r"\$\{([A-Za-z0-9]+(?:\.\w+)?)\}", made, json.dumps(value, separators=(",", ":")))


def characters(policy: Any, worst: str) -> int:
    return len(re.sub(r"\s", "", filled(policy, worst)))


@pytest.mark.parametrize("worst", WORST)
def test_the_policies_of_each_role_fit_with_the_longest_of_all_parameters(worst: str) -> None:
    roles = of_type("AWS::IAM::Role", **WORST[worst])
    assert len(roles) == 9
    for name, role in roles.items():
        assert sum(characters(p["PolicyDocument"], worst) for p in role["Policies"]) <= INLINE, name


@pytest.mark.parametrize("worst", WORST)
def test_managed_policies_fit_and_a_role_has_no_more_of_them_than_it_may(worst: str) -> None:
    policies = of_type("AWS::IAM::ManagedPolicy", **WORST[worst])
    assert len(policies) == 8
    for name, policy in policies.items():
        assert characters(policy["PolicyDocument"], worst) <= MANAGED, (name, characters(policy["PolicyDocument"], worst))
    attached = [role for policy in policies.values() for role in policy["Roles"]]
    assert max(attached.count(role) for role in attached) <= ATTACHED


@pytest.mark.parametrize("worst", WORST)
def test_the_environment_of_each_function_fits_with_the_longest_of_all_parameters(worst: str) -> None:
    functions = of_type("AWS::Lambda::Function", **WORST[worst])
    taken = {name: len(filled(f["Environment"]["Variables"], worst).encode()) for name, f in functions.items()}
    assert {name: size for name, size in taken.items() if size > ENVIRONMENT - SPARE} == {}, taken


def test_five_names_of_twenty_characters_in_every_list_fit() -> None:
    five = ",".join(f"{n}" * 20 for n in range(5))
    assert all(takes(name, five) for name in TOOLS)
