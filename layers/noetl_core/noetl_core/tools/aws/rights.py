"""What tools may reach in AWS: what the parameters of the stack name (docs/access.md).

A stack grants its workers what its parameters name (`ToolBuckets=reports,raw-*`) and tells them the same words, because an
emulator enforces no roles, and because a refusal can then say what to do. The engine's own resources are never granted, and
refused here whatever the parameters say. The local runner has no parameters: what the caller's own profile may, tools may.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from noetl_core.ports import Forbidden
from noetl_core.result_refs import is_plain

OWN: Final = "STACK_RESOURCES"
"""The environment variable that lists what the stack itself consists of. Where it is set, tools run on a stack."""

ACCOUNT: Final = "NOETL_ACCOUNT_ID"
"""The environment variable that has the account of the stack."""

UPLOADS: Final = "triggers/"
"""Where the inbox has the objects that start playbooks."""


@dataclass(frozen=True, slots=True)
class Right:
    """What one parameter of the stack grants."""

    parameter: str
    variable: str
    noun: str
    own: str = ""
    """Under which key `STACK_RESOURCES` lists what of this sort is the engine's own."""
    names: str = r"[A-Za-z0-9._-]+"
    """`*` in a parameter stands for a name, not for whatever a service takes in a name's place: an ARN of an access point, a
    path."""


BUCKETS: Final = Right("ToolBuckets", "NOETL_TOOL_BUCKETS", "bucket", "buckets")
QUEUES: Final = Right("ToolQueues", "NOETL_TOOL_QUEUES", "queue", "queues")
TABLES: Final = Right("ToolTables", "NOETL_TOOL_TABLES", "table", "tables")
FUNCTIONS: Final = Right("ToolFunctions", "NOETL_TOOL_FUNCTIONS", "function", "functions")
TOPICS: Final = Right("ToolTopics", "NOETL_TOOL_TOPICS", "topic")
EVENT_BUSES: Final = Right("ToolEventBuses", "NOETL_TOOL_EVENT_BUSES", "event bus")
SENDERS: Final = Right("ToolSenders", "NOETL_TOOL_SENDERS", "sender", names=r"[A-Za-z0-9._%+=@-]+")
APIS: Final = Right("ToolApis", "NOETL_TOOL_APIS", "API", "apis")
RIGHTS: Final = (BUCKETS, QUEUES, TABLES, FUNCTIONS, TOPICS, EVENT_BUSES, SENDERS, APIS)


def check(right: Right, name: str) -> None:
    """Raise `Forbidden`, which says what to do, unless tools may reach the resource `name` (a name, no ARN and no URL).

    `invoke` makes an outcome of kind `auth` of it, which is not retryable.
    """
    if name in own(right):
        raise Forbidden(f"{right.noun} `{name}` is the engine's own: no parameter opens it to tools")
    said = granted(right)
    if said is not None and not re.fullmatch(right.names, name):
        raise Forbidden(f"{right.noun} `{name[:200]}`: the stack's parameter {right.parameter} opens names, no ARNs and no paths")
    if said is not None and not any(_matches(pattern, name) for pattern in said):
        raise Forbidden(missing(right, name))


def check_reading(bucket: str, key: str) -> None:
    """As `check`, of an object that is read: uploads in the stack's inbox (docs/operating.md) are open to tools, too."""
    upload = key.startswith(UPLOADS) and is_plain(key)
    if not (upload and bucket in _own(os.environ.get(OWN, "{}")).get("inbox", ())):
        check(BUCKETS, bucket)


def granted(right: Right) -> tuple[str, ...] | None:
    """Return the names and patterns that the parameter lists; None where whatever the caller's profile may is allowed."""
    said = os.environ.get(right.variable)
    if said is None and not on_stack():
        return None
    return tuple(name for each in (said or "").split(",") if (name := each.strip()))


def missing(right: Right, name: str) -> str:
    """Return what a refusal says: the parameter and what it names now."""
    said = granted(right)
    if said is None:
        return f"the caller's AWS profile may not use {right.noun} `{name}`"
    names = f"it names: {', '.join(said)}" if said else "it names none"
    return f"the stack's parameter {right.parameter} does not name {right.noun} `{name}` ({names})"


def on_stack() -> bool:
    """Return whether tools run on a stack."""
    return OWN in os.environ


def own(right: Right) -> frozenset[str]:
    """Return the names of what is the engine's own, of this sort; this function among them."""
    names = _own(os.environ.get(OWN, "{}")).get(right.own, frozenset())
    this = os.environ.get("AWS_LAMBDA_FUNCTION_NAME")
    return names | {this} if right is FUNCTIONS and this else names


@lru_cache(maxsize=2)
def _own(listed: str) -> Mapping[str, frozenset[str]]:
    return {sort: frozenset(names) for sort, names in json.loads(listed).items()}


@lru_cache(maxsize=256)
def _pattern(written: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in written.split("*")), re.DOTALL)


def _matches(pattern: str, name: str) -> bool:
    return _pattern(pattern).fullmatch(name) is not None
