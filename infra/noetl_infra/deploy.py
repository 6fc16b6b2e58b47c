"""Deploys template.yaml to an endpoint: the same template for MiniStack, LocalStack and AWS."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial
from hashlib import sha256
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from noetl_console.publishing import publish
from noetl_core.adapters.local.packages import Platform
from noetl_infra import REGION
from noetl_infra.package import ROOT, Package, function, layer
from noetl_infra.package import packages as packages_package
from noetl_infra.package import tools as tool_package
from noetl_infra.template_file import read_template

STACK = "noetl"
WAIT_S = 300
LOCAL_PARAMETERS = {
    "AllowPrivateHttp": "1",
    "ApiAuth": "NONE",
    "Architecture": "x86_64",
    "PythonPool": "yes",
    "WorkerBatchSize": "10",
    "WorkerConcurrency": str(max(4, min(8, 2 * (os.cpu_count() or 1)))),
}
"""Parameters that differ on an emulator on this machine. Its services have private addresses, and plain HTTP clients use its API.
The python pool is deployed, so that any playbook runs. Workers are processes of some 100 MB, so there are few, and they get
commands in batches. No concurrency is reserved: when MiniStack receives a message but may not invoke the function, it delivers
the message again only after the visibility timeout, an hour and a half for a command."""


HERE = Platform(f"{sys.version_info.major}.{sys.version_info.minor}", os.uname().machine)
"""The architecture of this machine, as Lambda names it. Only wheels for Linux are supported."""


class DeployFailed(Exception):
    """CloudFormation refused or rolled back; the message has its reasons."""


class WrongParameter(Exception):
    """template.yaml has no such parameter, or does not allow this value. Who acts: the caller, who deploys."""


@dataclass(frozen=True, slots=True)
class Deployed:
    """A deployed stack: its outputs, and the URL of its API."""

    endpoint: str
    api_url: str
    outputs: Mapping[str, str]


def local_environment(endpoint: str) -> dict[str, str]:
    """Return the environment for AWS clients of an emulator: its endpoint, and credentials if none are set."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": os.environ.get("AWS_ACCESS_KEY_ID", "test"),
        "AWS_SECRET_ACCESS_KEY": os.environ.get("AWS_SECRET_ACCESS_KEY", "test"),
        "AWS_DEFAULT_REGION": os.environ.get("AWS_DEFAULT_REGION", REGION),
    }


def check_parameters(parameters: Mapping[str, str]) -> None:
    """Raise `WrongParameter` for parameters that CloudFormation would refuse after a minute, or an emulator would accept."""
    declared: Mapping[str, Any] = read_template(ROOT / "template.yaml")["Parameters"]
    for name, value in parameters.items():
        if name not in declared:
            near = get_close_matches(name, declared, 1)
            raise WrongParameter(f"the stack has no parameter {name}" + (f" (did you mean {near[0]}?)" if near else ""))
        rules = declared[name]
        allowed = [str(one) for one in rules.get("AllowedValues", ())]
        if allowed and value not in allowed:
            raise WrongParameter(f"{name} is one of {', '.join(allowed)}, not {value!r}")
        if "AllowedPattern" in rules and not re.fullmatch(rules["AllowedPattern"], value):
            raise WrongParameter(f"{name} does not take {value!r}: {rules.get('Description', '')}")
        if len(value) > rules.get("MaxLength", len(value)):
            raise WrongParameter(
                f"{name} has at most {rules['MaxLength']} characters, not {len(value)}: {rules.get('Description', '')}"
            )
        if rules["Type"] == "Number" and not _is_within(value, rules.get("MinValue"), rules.get("MaxValue")):
            raise WrongParameter(
                f"{name} is a number from {rules.get('MinValue', 0)} to {rules.get('MaxValue', 'any')}, not {value!r}"
            )


def _is_within(value: str, low: int | None, high: int | None) -> bool:
    if not re.fullmatch(r"[0-9]+", value):
        return False
    return (low is None or int(value) >= low) and (high is None or int(value) <= high)


def deploy(
    endpoint: str,
    *,
    dependencies: bool,
    parameters: Mapping[str, str] | None = None,
    name: str = STACK,
    tools: Sequence[str] = (),
    packages: Sequence[str] = (),
) -> Deployed:
    """Package the code, create or update the stack, and wait. `tools` are distributions with further tool kinds, a layer each
    (`package.tools`); `packages` are files whose requirements go into another layer (`package.packages`). All layers are built
    for the runtime and the architecture of the template's parameters, or for this interpreter on the embedded stack, which runs
    all functions in it. Raises `DeployFailed`, `WrongParameter`, `MissingPackages`."""
    check_parameters(parameters or {})
    env = local_environment(endpoint)
    make = {
        "endpoint_url": endpoint,
        "region_name": env["AWS_DEFAULT_REGION"],
        "aws_access_key_id": env["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": env["AWS_SECRET_ACCESS_KEY"],
    }
    s3 = boto3.client("s3", config=Config(s3={"addressing_style": "path"}), **make)  # type: ignore[call-overload]  # the stubs want each argument by name
    bucket = f"{name}-deploy"
    cloudformation = boto3.client("cloudformation", **make)  # type: ignore[call-overload]  # the stubs want each argument by name
    runtime = (
        f"python{sys.version_info.major}.{sys.version_info.minor}"  # emulators on this machine run functions in this version
    )
    local = {**LOCAL_PARAMETERS, "LambdaRuntime": runtime} if "amazonaws.com" not in endpoint else {}
    values = {**local, **(parameters or {})}
    template: dict[str, Any] = read_template(ROOT / "template.yaml")
    platform = platform_of(template, values) if dependencies else None  # the embedded stack runs functions in this interpreter
    if platform == HERE:
        platform = None
    core = layer(dependencies=dependencies, platform=platform)
    code = cache(partial(function, dependencies=dependencies, platform=platform))  # two functions have the same
    _package(template, s3, bucket, core, code)
    if tools or packages:
        functions = boto3.client("lambda", **make)  # type: ignore[call-overload]  # the stubs want each argument by name
        made = [(f"{name}-tools-{n}", tool_package(t, platform)) for n, t in enumerate(tools)]
        if packages:
            made.append((f"{name}-packages", packages_package(packages, platform)))
        layers = [_published(functions, layer_name, s3, bucket, package) for layer_name, package in made]
        values["ToolLayers"] = ",".join(layers)
    write_numbers(template, values)
    if local:
        _write_media_types(template)
        sts = boto3.client("sts", **make)  # type: ignore[call-overload]  # the stubs want each argument by name
        write_account(template, str(sts.get_caller_identity()["Account"]))
    body = json.dumps(template, separators=(",", ":"), default=str).encode()
    written = Package(f"template-{sha256(body).hexdigest()[:16]}.json", body)
    _uploaded(s3, bucket, written)
    outputs = _apply(cloudformation, name, f"{endpoint}/{bucket}/{written.key}", values)
    if pages := outputs.get("ConsoleBucketName"):
        publish(s3, pages)
    api_url = f"{endpoint}/_aws/execute-api/{outputs['ApiId']}/{outputs['StageName']}"
    return Deployed(endpoint, api_url, outputs)


def platform_of(template: Mapping[str, Any], values: Mapping[str, str]) -> Platform:
    """Return the platform of the functions, by the parameters of the template."""
    runtime, architecture = (
        str(values.get(name, template["Parameters"][name]["Default"])) for name in ("LambdaRuntime", "Architecture")
    )
    return Platform(runtime.removeprefix("python"), {"arm64": "aarch64"}.get(architecture, architecture))


def write_numbers(template: dict[str, Any], values: Mapping[str, str]) -> None:
    """Replace references to numeric parameters by numbers, because MiniStack passes a `Number` parameter on as text, which stops
    its queue poller. Environment variables remain text, as on AWS: a process cannot be started with others."""
    numbers = {
        name: int(values.get(name, declared["Default"]))
        for name, declared in template["Parameters"].items()
        if declared["Type"] == "Number"
    }

    def written(value: Any, kind: Callable[[int], int | str] = int) -> Any:
        if isinstance(value, list):
            return [written(each, kind) for each in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1 and value.get("Ref") in numbers:
            return kind(numbers[value["Ref"]])
        return {key: written(each, str if key == "Variables" else kind) for key, each in value.items()}

    template["Resources"] = written(template["Resources"])


def write_account(template: dict[str, Any], account: str) -> None:
    """Write the account that answers into the conditions, in which MiniStack does not know `AWS::AccountId`."""

    def written(value: Any) -> Any:
        if isinstance(value, list):
            return [written(each) for each in value]
        if not isinstance(value, dict):
            return value
        return account if value == {"Ref": "AWS::AccountId"} else {key: written(each) for key, each in value.items()}

    template["Conditions"] = written(template["Conditions"])


def _write_media_types(template: dict[str, Any]) -> None:
    """Replace `~1` in media types by the slash that it means in CloudFormation, because MiniStack does not decode it."""
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        if "BinaryMediaTypes" in properties:
            properties["BinaryMediaTypes"] = [kind.replace("~1", "/") for kind in properties["BinaryMediaTypes"]]


def _package(template: dict[str, Any], s3: Any, bucket: str, core: Package, code: Callable[[str], Package]) -> None:
    """Upload the code of a template, and set its locations."""
    try:
        s3.create_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
            raise
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Serverless::Function":
            properties["CodeUri"] = _uploaded(s3, bucket, code(properties["CodeUri"]))
        elif resource["Type"] == "AWS::Serverless::LayerVersion":
            properties["ContentUri"] = _uploaded(s3, bucket, core)


def _uploaded(s3: Any, bucket: str, package: Package) -> str:
    try:
        s3.head_object(Bucket=bucket, Key=package.key)
    except ClientError:
        s3.put_object(Bucket=bucket, Key=package.key, Body=package.body)
    return f"s3://{bucket}/{package.key}"


def _published(functions: Any, name: str, s3: Any, bucket: str, package: Package) -> str:
    """Return the ARN of the layer version with this content."""
    for version in functions.list_layer_versions(LayerName=name).get("LayerVersions", []):
        if version.get("Description") == package.key:
            return str(version["LayerVersionArn"])
    _uploaded(s3, bucket, package)
    content = {"S3Bucket": bucket, "S3Key": package.key}
    published = functions.publish_layer_version(LayerName=name, Description=package.key, Content=content)
    return str(published["LayerVersionArn"])


def _apply(cloudformation: Any, name: str, template_url: str, parameters: Mapping[str, str]) -> dict[str, str]:
    request = {
        "StackName": name,
        "TemplateURL": template_url,  # a request takes at most 51,200 bytes of template
        "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
        "Parameters": [{"ParameterKey": k, "ParameterValue": v} for k, v in parameters.items()],
    }
    mark = sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
    request["Tags"] = [{"Key": "noetl:content", "Value": mark}]
    known = _describe(cloudformation, name)
    if known is not None and {"Key": "noetl:content", "Value": mark} in known.get("Tags", []):
        return _outputs(known)
    try:
        if known is None:
            cloudformation.create_stack(**request)
        else:
            cloudformation.update_stack(**request)
    except ClientError as error:
        if "No updates are to be performed" not in str(error):
            raise DeployFailed(str(error)) from error
    return _outputs(_wait(cloudformation, name))


def _describe(cloudformation: Any, name: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
    except (ClientError, IndexError):
        return None
    return None if found["StackStatus"] == "DELETE_COMPLETE" else found


def _wait(cloudformation: Any, name: str) -> dict[str, Any]:
    deadline = time.monotonic() + WAIT_S
    while True:
        stack = _describe(cloudformation, name)
        status = stack["StackStatus"] if stack else "missing"
        if stack and status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            return stack
        if "FAILED" in status or "ROLLBACK" in status:
            pages = cloudformation.get_paginator("describe_stack_events").paginate(StackName=name)
            reasons = [
                f"{e['LogicalResourceId']}: {e.get('ResourceStatusReason', '')}"
                for page in pages
                for e in page["StackEvents"]
                if "FAILED" in e["ResourceStatus"]
            ]
            raise DeployFailed(f"{status}: " + "; ".join(reasons[:5]))
        if time.monotonic() > deadline:
            raise DeployFailed(f"still {status} after {WAIT_S} s")
        time.sleep(0.2)


def _outputs(stack: Mapping[str, Any]) -> dict[str, str]:
    return {o["OutputKey"]: o["OutputValue"] for o in stack.get("Outputs", [])}


__all__ = ["REGION", "STACK", "DeployFailed", "Deployed", "WrongParameter", "check_parameters", "deploy", "local_environment"]
