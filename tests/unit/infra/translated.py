"""template.yaml as CloudFormation gets it: after the SAM transform, for given parameter values, with conditions decided.

What names a resource becomes text (`Ref` X is `${X}`, `Fn::GetAtt` X.Arn is `${X.Arn}`), so that a policy's resources can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator

from noetl_infra.template_file import read_template

ROOT = Path(__file__).parents[3]
PSEUDO = {
    "AWS::StackName": "stack",
    "AWS::Region": "us-east-1",
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
}
NO_VALUE = object()
CHOICES: tuple[Mapping[str, str], ...] = (
    {},
    {"PythonPool": "yes"},
    {"Asks": "yes"},
    {"ApiAuth": "JWT", "UserPoolArn": "arn:aws:cognito-idp:us-east-1:123456789012:userpool/us-east-1_abc"},
    {"ApiAuth": "NONE", "AWS::AccountId": "000000000000", "Architecture": "x86_64", "LambdaRuntime": "python3.14"},
    {"SecretsPrefix": "shared/", "DeletionProtection": "yes", "HookReserved": "20"},
    {
        "ApiAuth": "JWT",
        "UserPoolArn": "arn:aws:cognito-idp:us-east-1:123456789012:userpool/us-east-1_abc",
        "Console": "yes",
        "ConsoleSignIn": "https://people.auth.us-east-1.amazoncognito.com",
        "ConsoleClientId": "1abc",
    },
    {"CallbackAuth": "TOKEN", "AlarmTopicArn": "arn:aws:sns:us-east-1:123456789012:alarms"},
    {
        "PythonPool": "yes",
        "SubnetIds": "subnet-0a1b2c3d,subnet-1a1b2c3d",
        "SecurityGroupIds": "sg-0a1b2c3d",
        "ControlReserved": "20",
        "WorkerReserved": "60",
        "ApiAccessLogs": "yes",
        "ToolLayers": "arn:aws:lambda:us-east-1:123456789012:layer:mine:3",
    },
    {"SnapStart": "2026-11-22", "PythonPool": "yes", "Asks": "yes"},
    {
        "EventBus": "default",
        "EventSources": "shop.orders,aws.s3",
        "TriggerQueue": "arn:aws:sqs:us-east-1:123456789012:orders",
        "TriggerQueue2": "arn:aws:sqs:us-east-1:123456789012:orders-2",
        "TriggerQueue3": "arn:aws:sqs:us-east-1:123456789012:orders-3",
        "TriggerQueue4": "arn:aws:sqs:us-east-1:123456789012:orders.fifo",
        "UploadBuckets": "scans,drop-zone",
    },
    {
        "ToolBuckets": "reports,raw-*",
        "ToolQueues": "orders,jobs-*",
        "ToolTables": "stock",
        "ToolFunctions": "resize",
        "ToolClusters": "jobs,batch-*",
        "ToolTasks": "train",
        "ToolTaskRoles": "train-task",
        "ToolTopics": "alerts",
        "ToolEventBuses": "shop",
        "ToolSenders": "reports@example.org,*@example.net",
        "ToolApis": "a1b2c3",
    },
)
"""Parameter values that between them decide every condition both ways."""


@cache
def source() -> Mapping[str, Any]:
    """template.yaml as it is written."""
    read: Mapping[str, Any] = read_template(ROOT / "template.yaml")
    return read


def declared(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = source()["Parameters"][name]
    return found


def takes(name: str, value: str) -> bool:
    """Return whether CloudFormation would accept the value."""
    rules = declared(name)
    return (
        value in map(str, rules.get("AllowedValues", [value]))
        and re.fullmatch(rules.get("AllowedPattern", ".*"), value) is not None
        and len(value) <= rules.get("MaxLength", len(value))
        and (rules["Type"] != "Number" or rules.get("MinValue", 0) <= int(value) <= rules.get("MaxValue", 10**9))
    )


def defaults() -> dict[str, str]:
    """Return the default values of the parameters."""
    return {name: str(p["Default"]) for name, p in source()["Parameters"].items() if "Default" in p}


def translated(**parameters: str) -> dict[str, Any]:
    """The template after the SAM transform; conditions and references as they are."""
    template = deepcopy(dict(source()))
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = "s3://bucket/code.zip"
        elif resource["Type"] == "AWS::Serverless::LayerVersion":
            resource["Properties"]["ContentUri"] = "s3://bucket/layer.zip"
    patch = pytest.MonkeyPatch()
    with patch.context() as environment:
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        result: dict[str, Any] = Translator({}, Parser()).translate(template, {**defaults(), **parameters})
    return result


@cache
def _deployed(parameters: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    template = translated(**dict(parameters))
    values = {**PSEUDO, **defaults(), **dict(parameters)}
    resolver = _Resolver(template, values)
    kept = {name: r for name, r in template["Resources"].items() if resolver.holds(r.get("Condition"))}
    return {name: resolver.of(r) for name, r in kept.items()}


def conditions(**parameters: str) -> Callable[[str], bool]:
    """Return a function that evaluates a condition of the template with these parameter values."""
    return _Resolver(source(), {**PSEUDO, **defaults(), **parameters}).holds


def deployed(**parameters: str) -> Mapping[str, Any]:
    """The resources that exist with these parameter values."""
    return _deployed(tuple(sorted(parameters.items())))


def of_type(kind: str, **parameters: str) -> dict[str, Mapping[str, Any]]:
    """Properties of the resources of a type, by name."""
    return {name: r["Properties"] for name, r in deployed(**parameters).items() if r["Type"] == kind}


def statements(function: str, effect: str = "Allow", **parameters: str) -> Iterator[Mapping[str, Any]]:
    """Yield the statements that a function's role allows (or, with the effect `Deny`, denies)."""
    for policy in deployed(**parameters)[f"{function}Role"]["Properties"]["Policies"]:
        yield from _of(policy, effect)
    for policy in of_type("AWS::IAM::ManagedPolicy", **parameters).values():
        if "${" + function + "Role}" in policy["Roles"]:
            yield from _of(policy, effect)


def _of(policy: Mapping[str, Any], effect: str) -> Iterator[Mapping[str, Any]]:
    return (statement for statement in policy["PolicyDocument"]["Statement"] if statement["Effect"] == effect)


def listed(value: Any) -> list[Any]:
    """A policy's one or many as many."""
    return value if isinstance(value, list) else [value]


class _Resolver:
    def __init__(self, template: Mapping[str, Any], values: Mapping[str, str]) -> None:
        self._values = values
        self._conditions, self._mappings = template["Conditions"], template.get("Mappings", {})

    def holds(self, condition: str | None) -> bool:
        return condition is None or self._true(self._conditions[condition])

    def _true(self, rule: Mapping[str, Any]) -> bool:
        ((name, told),) = rule.items()
        if name == "Condition":
            return self.holds(told)
        if name == "Fn::Equals":
            left, right = (self.of(side) for side in told)
            return bool(left == right)
        found = [self._true(each) for each in told]
        return {"Fn::Not": not found[0], "Fn::And": all(found), "Fn::Or": any(found)}[name]

    def of(self, value: Any) -> Any:
        if isinstance(value, list):
            return [made for each in value if (made := self.of(each)) is not NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((name, told),) = value.items()
            if name == "Ref" or name.startswith("Fn::"):
                return self._intrinsic(name, told)
        return {key: made for key, each in value.items() if (made := self.of(each)) is not NO_VALUE}

    def _intrinsic(self, name: str, told: Any) -> Any:
        if name == "Ref":
            return self._ref(told)
        if name == "Fn::If":
            return self.of(told[1] if self.holds(told[0]) else told[2])
        if name == "Fn::GetAtt":
            return "${" + (told if isinstance(told, str) else ".".join(told)) + "}"
        if name == "Fn::Sub":
            text, more = (told, {}) if isinstance(told, str) else told
            known = {**self._values, **{key: self.of(each) for key, each in more.items()}}
            return re.sub(r"\$\{([\w:.]+)\}", lambda m: str(known.get(m[1], m[0])), text)
        parts = self.of(told)
        if name == "Fn::Join":
            return parts[0].join(parts[1])
        if name == "Fn::Split":
            return parts[1].split(parts[0])
        if name == "Fn::Select":
            return parts[1][int(parts[0])]
        if name == "Fn::FindInMap":
            return self._mappings[parts[0]][str(parts[1])][parts[2]]
        raise NotImplementedError(name)

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return NO_VALUE
        return self._values.get(name, "${" + name + "}")
