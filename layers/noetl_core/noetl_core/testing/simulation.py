"""Kills the worker after each call of a tool, and finds the calls that are made twice and the ends that differ.

The engine records each outcome in a commit. A worker that dies between the answer of a tool and that commit leaves no record, so
another worker calls the tool again, with the same idempotency key (docs/failures.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from noetl_core.dsl.kinds import KINDS
from noetl_core.testing.files import Case
from noetl_core.testing.match import differences
from noetl_core.testing.play import Played, play
from noetl_core.testing.registry import Call

MOST: Final = 200
"""The most kills of a case; if it makes more calls, this number of them is tried, evenly spread."""
SAFE: Final = ""
"""A repeated call has no further effect."""
_READS: Final = re.compile(r"\s*(?:--[^\n]*\n\s*)*(?:SELECT|SHOW|EXPLAIN|VALUES|TABLE)\b", re.IGNORECASE)
_REPEATABLE: Final = re.compile(
    r"\bON\s+CONFLICT\b|\bMERGE\b|noetl\.task_run_id|\bIF\s+NOT\s+EXISTS\b|\bCREATE\s+OR\s+REPLACE\b|\bTRUNCATE\b", re.IGNORECASE
)
_KEY: Final = "current_setting('noetl.task_run_id')"
_INSERTS: Final = re.compile(r"\b(?:INSERT|COPY)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Repeat:
    """A task whose calls may be made twice: their number, an example of its inputs and its key, and the change to make (empty:
    none)."""

    task: str
    kind: str
    calls: int
    inputs: Mapping[str, Any]
    key: str
    remedy: str


@dataclass
class Simulation:
    """The kills of one case: `repeats` by task, and `differs`, the differences at the end, each with the call after which the
    worker was killed. `broken` is the reason why the case cannot be simulated."""

    case: str
    kills: int = 0
    repeats: list[Repeat] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    broken: str = ""


def simulate(case: Case) -> Simulation:
    """Play a case once undisturbed, then once for each call of a tool, with the worker killed after the answer."""
    found = Simulation(case.name)
    plain = _played(case, 0)
    if plain.unanswered:
        missing = plain.unanswered[0]
        found.broken = f"task {missing.task}: {missing.why}"
        return found
    calls: dict[str, list[Call]] = {}
    for number in _chosen(len(plain.calls)):
        found.kills += 1
        killed = _played(case, number)
        call = killed.calls[number - 1]
        if sum(each.key == call.key and each.attempt == call.attempt for each in killed.calls) > 1:
            calls.setdefault(call.task, []).append(call)
        found.differs += [f"killed after {_place_of(call)}: {each}" for each in _differences(plain, killed)]
    found.repeats = [
        Repeat(task, some[0].kind, len(some), some[0].inputs, some[0].key, remedy_for(some[0]))
        for task, some in calls.items()
        if not _inside(some[0])
    ]
    return found


def _played(case: Case, dies_after: int) -> Played:
    played = play(replace(case.scene, dies_after=dies_after))
    _ = played.result, played.ctx, played.path  # they are read from its store
    played.close()
    return played


def _chosen(calls: int) -> Iterator[int]:
    """Yield the calls after which the worker is killed."""
    if calls <= MOST:
        yield from range(1, calls + 1)
    else:
        yield from sorted({1 + index * (calls - 1) // (MOST - 1) for index in range(MOST)})


def _differences(plain: Played, killed: Played) -> Iterator[str]:
    for name in ("status", "result", "ctx", "path"):
        yield from differences(getattr(plain, name), getattr(killed, name), name)


def _place_of(call: Call) -> str:
    index = f"@{'.'.join(map(str, call.path))}" if call.path else ""
    return call.task + index + (f" (attempt {call.attempt})" if call.attempt > 1 else "")


def _inside(call: Call) -> bool:
    known = KINDS.get(call.kind)
    return known is not None and known.inside(call.inputs)


# --- advice -------------------------------------------------------------------------------------------------------------


def remedy_for(call: Call) -> str:
    """Return the change with which a repeated call does no harm; an empty text if it is harmless."""
    return _REMEDIES.get(call.kind, _other)(call.inputs)


def _http(inputs: Mapping[str, Any]) -> str:
    method = str(inputs.get("method") or ("POST" if "json" in inputs or "form" in inputs else "GET")).upper()
    if method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE"):
        return SAFE
    return (
        f"{method} sends the same Idempotency-Key again: make sure that the service honours it, or ask it (GET) whether the first"
        " request arrived"
    )


def _sql(inputs: Mapping[str, Any]) -> str:
    copied = inputs.get("copy")
    if isinstance(copied, Mapping):
        if "into" in copied and copied.get("mode", "append") == "append":
            return "rows are appended twice: mode: upsert with keys, or mode: replace; kind: transfer appends once"
        return SAFE
    text = (
        inputs.get("command") or inputs.get("query") or inputs.get("sql") or inputs.get("commands") or inputs.get("queries") or ""
    )
    for each in text if isinstance(text, list) else [text]:
        sql = str(each.get("command", "") if isinstance(each, Mapping) else each)
        if _READS.match(sql) or _REPEATABLE.search(sql):
            continue
        if _INSERTS.search(sql):
            return f"rows are inserted twice: ON CONFLICT ... DO NOTHING or DO UPDATE, by a unique key such as {_KEY}"
        return f"the statement runs twice: write it so that the second time changes nothing, or guard it by {_KEY}"
    return SAFE


def _once(inputs: Mapping[str, Any]) -> str:
    return SAFE


def _sends(inputs: Mapping[str, Any]) -> str:
    fifo = str(inputs.get("queue", inputs.get("topic", ""))).endswith(".fifo")
    return SAFE if fifo else "it is sent twice: the receiver must tell by the key, or the queue or topic must be FIFO"


def _asks(inputs: Mapping[str, Any]) -> str:
    return "it is called, and billed, twice, and may answer differently"


def _other(inputs: Mapping[str, Any]) -> str:
    return "it is called twice with the same key: make sure that the second call changes nothing"


_REMEDIES: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "http": _http,
    "postgres": _sql,
    "snowflake": _sql,
    "duckdb": _sql,
    "s3": _once,
    "store": _once,
    "artifact": _once,
    "transfer": _once,
    "secrets": _once,
    "sqs": _sends,
    "sns": _sends,
    "eventbridge": _sends,
    "email": _sends,
    "llm": _asks,
}
