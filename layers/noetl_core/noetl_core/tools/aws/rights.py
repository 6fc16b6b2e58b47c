"""Checks the access of tools to AWS: to the resources named by the stack's parameters (docs/access.md).

A stack grants its workers the resources that its parameters name (`ToolBuckets=reports,raw-*`). It also passes the parameters to
the workers, because an emulator enforces no roles, and because a refusal can then name the remedy. The engine's own resources are
never granted, and are refused here whatever the parameters name. The local runner has no parameters: tools have the rights of the
caller's own profile.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from noetl_core.ports import Forbidden
from noetl_core.values.frozen import frozen
from noetl_core.values.result_refs import is_plain

OWN: Final = "STACK_RESOURCES"
"""The environment variable that lists the stack's own resources. If it is set, tools run on a stack."""

ENGINE: Final = {"tables": ("EVENTS_TABLE", "CATALOG_TABLE"), "buckets": ("RESULTS_BUCKET",), "functions": ("ASK_FUNCTION",)}
"""The environment variables that each name one more, by type: the worker has them for its own work."""

ACCOUNT: Final = "NOETL_ACCOUNT_ID"
"""The environment variable with the account of the stack."""

UPLOADS: Final = "triggers/"
"""The folder of the inbox with objects that start playbooks."""


@frozen
class Right:
    """The right to the resources that one parameter of the stack names."""

    parameter: str
    variable: str
    noun: str
    own: str = ""
    """The key under which `STACK_RESOURCES` lists the engine's own resources of this type."""
    names: str = r"[A-Za-z0-9._-]+"
    """The characters that `*` in a parameter may match. It matches names, but not other forms that a service accepts instead,
    such as an ARN of an access point or a path."""


BUCKETS: Final = Right("ToolBuckets", "NOETL_TOOL_BUCKETS", "bucket", "buckets")
QUEUES: Final = Right("ToolQueues", "NOETL_TOOL_QUEUES", "queue", "queues")
TABLES: Final = Right("ToolTables", "NOETL_TOOL_TABLES", "table", "tables")
FUNCTIONS: Final = Right("ToolFunctions", "NOETL_TOOL_FUNCTIONS", "function", "functions")
TOPICS: Final = Right("ToolTopics", "NOETL_TOOL_TOPICS", "topic")
EVENT_BUSES: Final = Right("ToolEventBuses", "NOETL_TOOL_EVENT_BUSES", "event bus")
SENDERS: Final = Right("ToolSenders", "NOETL_TOOL_SENDERS", "sender", names=r"[A-Za-z0-9._%+=@-]+")
APIS: Final = Right("ToolApis", "NOETL_TOOL_APIS", "API", "apis")
CLUSTERS: Final = Right("ToolClusters", "NOETL_TOOL_CLUSTERS", "cluster", names=r"[A-Za-z0-9_-]+")
TASKS: Final = Right("ToolTasks", "NOETL_TOOL_TASKS", "task definition", names=r"[A-Za-z0-9_-]+")
TASK_ROLES: Final = Right("ToolTaskRoles", "NOETL_TOOL_TASK_ROLES", "task role")
"""The role of a task of ECS. It is not checked in advance, because only ECS knows the roles of a task definition."""
RIGHTS: Final = (BUCKETS, QUEUES, TABLES, FUNCTIONS, TOPICS, EVENT_BUSES, SENDERS, APIS, CLUSTERS, TASKS, TASK_ROLES)


def check(right: Right, name: str) -> None:
    """Raise `Forbidden`, with the remedy, unless tools may access the resource `name` (a name, not an ARN or a URL).

    `invoke` turns it into an outcome of kind `auth`, which is not retryable.
    """
    if name in own(right):
        raise Forbidden(f"{right.noun} `{name}` is the engine's own: no parameter opens it to tools")
    patterns = granted(right)
    if patterns is not None and not re.fullmatch(right.names, name):
        raise Forbidden(
            f"{right.noun} `{name[:200]}` must be a name, not an ARN or a path, as in the stack's parameter {right.parameter}"
        )
    if patterns is not None and not any(_matches(pattern, name) for pattern in patterns):
        raise Forbidden(missing(right, name))


def check_reading(bucket: str, key: str) -> None:
    """Like `check`, for reading an object: tools may also read uploads in the stack's inbox (docs/operating.md)."""
    upload = key.startswith(UPLOADS) and is_plain(key)
    if not (upload and bucket in _own(os.environ.get(OWN, "{}")).get("inbox", ())):
        check(BUCKETS, bucket)


def granted(right: Right) -> tuple[str, ...] | None:
    """Return the names and patterns that the parameter lists; None if the rights of the caller's profile apply."""
    value = os.environ.get(right.variable)
    if value is None and not on_stack():
        return None
    return tuple(name for each in (value or "").split(",") if (name := each.strip()))


def missing(right: Right, name: str) -> str:
    """Return the message of a refusal: the parameter and its present names."""
    patterns = granted(right)
    if patterns is None:
        return f"the caller's AWS profile may not use {right.noun} `{name}`"
    names = f"it names: {', '.join(patterns)}" if patterns else "it names none"
    return f"the stack's parameter {right.parameter} does not name {right.noun} `{name}` ({names})"


def on_stack() -> bool:
    """Return whether tools run on a stack."""
    return OWN in os.environ


def own(right: Right) -> frozenset[str]:
    """Return the names of the engine's own resources of this type, including this function."""
    if not right.own or not on_stack():
        return frozenset()
    listed = _own(os.environ[OWN])
    names = listed.get(right.own, frozenset())
    if right is BUCKETS:
        names |= listed.get("inbox", frozenset())
    variables = (*ENGINE.get(right.own, ()), *(("AWS_LAMBDA_FUNCTION_NAME",) if right is FUNCTIONS else ()))
    return names | {name for variable in variables if (name := os.environ.get(variable))}


@lru_cache(maxsize=2)
def _own(listed: str) -> Mapping[str, frozenset[str]]:
    return {sort: frozenset(names) for sort, names in json.loads(listed).items()}


@lru_cache(maxsize=256)
def _pattern(written: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in written.split("*")), re.DOTALL)


def _matches(pattern: str, name: str) -> bool:
    return _pattern(pattern).fullmatch(name) is not None
