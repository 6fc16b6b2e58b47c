"""Checks the inputs of a task of the kind, and builds the request that starts it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from noetl_core.tools.actions import optional_text, text
from noetl_core.tools.aws import rights
from noetl_core.tools.aws.rights import CLUSTERS, TASKS
from noetl_core.tools.base import BadInput, ToolCall

_CLUSTER: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")
_DEFINITION: Final = re.compile(r"([A-Za-z0-9_-]{1,255})(:[0-9]+)?")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LAUNCH: Final = ("FARGATE", "EC2", "EXTERNAL")
MOST_BYTES: Final = 8192
"""The most bytes that ECS takes as overrides."""
OWN: Final = "NOETL_"
"""The prefix of the variables that the engine sets."""


@dataclass(frozen=True, slots=True)
class Request:
    """A checked request for one task of ECS."""

    cluster: str
    family: str
    region: str | None
    container: str | None
    """The container whose exit code counts, and whose command and environment are overridden."""
    arguments: Mapping[str, Any]
    """The arguments of RunTask, without the keys that name the task."""


def started_by(call: ToolCall) -> str:
    """Return the name under which an attempt starts its task. A later search finds the task by it."""
    return f"{call.task_run_id}-{call.attempt}"


def request_of(call: ToolCall) -> Request:
    """Return what the call asks for. Raises `BadInput`, `Forbidden`."""
    cluster, definition = optional_text(call, "cluster") or "default", text(call, "task_definition")
    if not _CLUSTER.fullmatch(cluster):
        raise BadInput(f"`cluster` {cluster[:80]!r} must be the name of a cluster, not an ARN")
    found = _DEFINITION.fullmatch(definition)
    if found is None:
        raise BadInput(f"`task_definition` {definition[:80]!r} must be family or family:revision, not an ARN")
    rights.check(CLUSTERS, cluster)
    rights.check(TASKS, found[1])
    arguments: dict[str, Any] = {"taskDefinition": definition, "overrides": _overrides(call), **_placed(call)}
    if (network := _network(call)) is not None:
        arguments["networkConfiguration"] = {"awsvpcConfiguration": network}
    return Request(cluster, found[1], optional_text(call, "region"), optional_text(call, "container"), arguments)


def _placed(call: ToolCall) -> dict[str, Any]:
    """Return on what the task runs."""
    launch, provider = optional_text(call, "launch_type"), optional_text(call, "capacity_provider")
    out: dict[str, Any] = {}
    if launch is not None:
        if launch not in LAUNCH:
            raise BadInput(f"`launch_type` is one of {', '.join(LAUNCH)}, not {launch[:40]!r}")
        out["launchType"] = launch
    if provider is not None:
        if launch is not None:
            raise BadInput("`launch_type` and `capacity_provider` exclude each other")
        out["capacityProviderStrategy"] = [{"capacityProvider": provider}]
    if (version := optional_text(call, "platform_version")) is not None:
        out["platformVersion"] = version
    return out


def _overrides(call: ToolCall) -> dict[str, Any]:
    """Return what the task has otherwise than its definition says."""
    name, command, env = call.inputs.get("container"), call.inputs.get("command"), call.inputs.get("env") or {}
    if name is None and (command is not None or env):
        raise BadInput("`command` and `env` need `container`, the name of the container in the task definition")
    out: dict[str, Any] = {}
    for key in ("cpu", "memory"):
        if (size := call.inputs.get(key)) is not None:
            out[key] = _size(size, key)
    if isinstance(name, str):
        out["containerOverrides"] = [{"name": name, "environment": _environment(call, env)}]
        if command is not None:
            out["containerOverrides"][0]["command"] = _command(command)
    if (size := len(json.dumps(out))) > MOST_BYTES:
        raise BadInput(
            f"`command` and `env` have {size:,} bytes together, and ECS accepts {MOST_BYTES:,}: put the data into S3 and pass"
            " its key"
        )
    return out


def _size(value: Any, key: str) -> str:
    if isinstance(value, bool) or not re.fullmatch(r"[1-9][0-9]{0,6}", str(value)):
        raise BadInput(f"`{key}` must be a number of {'CPU units' if key == 'cpu' else 'MiB'}, such as 1024")
    return str(value)


def _command(value: Any) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(word, str | int | float) for word in value):
        raise BadInput("`command` must be a list of words")
    return [_word(word) for word in value]


def _environment(call: ToolCall, env: Any) -> list[dict[str, str]]:
    if not isinstance(env, Mapping):
        raise BadInput("`env` must be a mapping of names to texts")
    for name, value in env.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith(OWN):
            raise BadInput(f"`env` has {str(name)[:60]!r}, which is not the name of a variable, or begins with {OWN}")
        if not isinstance(value, str | int | float):
            raise BadInput(f"`env.{name}` must be text or a number: make JSON of it with `| tojson`")
    own = {
        "NOETL_EXECUTION_ID": call.execution_id,
        "NOETL_TASK_RUN_ID": call.task_run_id,
        "NOETL_ATTEMPT": str(call.attempt),
    }
    return [{"name": name, "value": _word(value)} for name, value in {**own, **env}.items()]


def _word(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _network(call: ToolCall) -> dict[str, Any] | None:
    network = call.inputs.get("network")
    if network is None:
        return None
    if not isinstance(network, Mapping):
        raise BadInput("`network` must be a mapping with `subnets`")
    strange = sorted(set(network) - {"subnets", "security_groups", "public_ip"})
    if strange:
        raise BadInput(f"`network` has an unknown key `{strange[0]}`: it takes subnets, security_groups, public_ip")
    out: dict[str, Any] = {"subnets": _texts(network.get("subnets"), "network.subnets")}
    if network.get("security_groups") is not None:
        out["securityGroups"] = _texts(network["security_groups"], "network.security_groups")
    public = network.get("public_ip", False)
    if not isinstance(public, bool):
        raise BadInput("`network.public_ip` must be true or false")
    return {**out, "assignPublicIp": "ENABLED" if public else "DISABLED"}


def _texts(value: Any, name: str) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(one, str) and one for one in value):
        raise BadInput(f"`{name}` must be a list of ids")
    return value
