"""Plays a case under faults, and finds the calls that are made twice and the ends that differ.

The engine records each outcome in a commit. A worker that dies between the answer of a tool and that commit leaves no record, so
another worker calls the tool again, with the same idempotency key (docs/failures.md). Queues and streams deliver at least once,
in any order. So a case is played with the worker killed after each call, with everything delivered and called twice, and in
several orders of arrival (`races` compares them).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Final

from noetl_core.dsl.kinds import KINDS
from noetl_core.testing.files import Case
from noetl_core.testing.play import play
from noetl_core.testing.races import Ending, Race, differences_of, ending_of, races
from noetl_core.testing.registry import Call

KILLS: Final = 200
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


@dataclass(frozen=True)
class Faults:
    """The faults to try: at most `kills` of a case, everything `twice`, and `orders` of arrival, by the seeds from `seed` on.
    `until` is when to stop (`time.monotonic`)."""

    kills: int = KILLS
    twice: bool = True
    orders: int = 10
    seed: int = 1
    until: float = inf


@dataclass
class Simulation:
    """The faults of one case: `repeats` by task, `differs`, the differences at the end, each with its fault, and `races`, the
    differences by the order of arrival. `left` is the number of plays that there was no time for; `broken` is the reason why the
    case cannot be simulated."""

    case: str
    kills: int = 0
    orders: int = 0
    repeats: list[Repeat] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    races: list[Race] = field(default_factory=list)
    left: int = 0
    broken: str = ""

    @property
    def ends_alike(self) -> bool:
        """True if the case ends in the same way under all faults."""
        return not (self.broken or self.differs or self.races)


def simulate(case: Case, faults: Faults) -> Simulation:
    """Play a case undisturbed, then once for each fault. If it does not end in the same way without faults, no fault is tried."""
    found = Simulation(case.name)
    with closing(play(case.scene)) as played:
        if played.unanswered:
            missing = played.unanswered[0]
            found.broken = f"task {missing.task}: {missing.why}"
            return found
        plain, calls = ending_of(played), len(played.calls)
    with closing(play(case.scene)) as played:
        found.differs = [f"without any fault: {each}" for each in differences_of(plain, ending_of(played))]
    if found.differs:
        return found
    ends = _in_orders(case, faults, found)
    found.races = races(plain, ends)
    known = {plain.fingerprint, *(ending.fingerprint for ending in ends.values())}  # caused by another order, not by a fault
    if faults.twice and _has_time(faults, found):
        with closing(play(replace(case.scene, arrives_twice=True, calls_twice=True))) as played:
            if (ending := ending_of(played)).fingerprint not in known:
                found.differs += [f"everything twice: {each}" for each in differences_of(plain, ending)]
    _kill(case, faults, found, calls, plain, known)
    return found


def _in_orders(case: Case, faults: Faults, found: Simulation) -> dict[int, Ending]:
    """Return the ends by the seeds of their orders. In every second one, everything arrives twice."""
    ends: dict[int, Ending] = {}
    for seed in range(faults.seed, faults.seed + faults.orders):
        if _has_time(faults, found):
            with closing(play(replace(case.scene, seed=seed, arrives_twice=faults.twice and seed % 2 == 0))) as played:
                ends[seed] = ending_of(played)
    found.orders = len(ends)
    return ends


def _kill(case: Case, faults: Faults, found: Simulation, calls: int, plain: Ending, known: set[str]) -> None:
    """Play the case with the worker killed after the answer of each call."""
    repeated: dict[str, list[Call]] = {}
    for number in _chosen(calls, faults.kills):
        if not _has_time(faults, found):
            continue
        found.kills += 1
        with closing(play(replace(case.scene, dies_after=number))) as killed:
            call, ending = killed.calls[number - 1], ending_of(killed)
        if sum(each.key == call.key and each.attempt == call.attempt for each in killed.calls) > 1:
            repeated.setdefault(call.task, []).append(call)
        if ending.fingerprint not in known:
            found.differs += [f"killed after {_place_of(call)}: {each}" for each in differences_of(plain, ending)]
    found.repeats = [
        Repeat(task, some[0].kind, len(some), some[0].inputs, some[0].key, remedy_for(some[0]))
        for task, some in repeated.items()
        if not _inside(some[0])
    ]


def _has_time(faults: Faults, found: Simulation) -> bool:
    """Return whether there is time for one more play; count it otherwise."""
    if time.monotonic() < faults.until:
        return True
    found.left += 1
    return False


def _chosen(calls: int, most: int) -> Iterator[int]:
    """Yield the calls after which the worker is killed."""
    if calls <= most:
        yield from range(1, calls + 1)
    elif most > 0:
        yield from sorted({1 + index * (calls - 1) // max(1, most - 1) for index in range(most)})


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
        f"{method} sends the same Idempotency-Key again: make sure that the service honours the key, or ask the service"
        " (GET) whether the first request arrived"
    )


def _sql(inputs: Mapping[str, Any]) -> str:
    copied = inputs.get("copy")
    if isinstance(copied, Mapping):
        if "into" in copied and copied.get("mode", "append") == "append":
            return "rows are appended twice: write mode: upsert with keys, or mode: replace; kind: transfer appends once"
        return SAFE
    text = (
        inputs.get("command") or inputs.get("query") or inputs.get("sql") or inputs.get("commands") or inputs.get("queries") or ""
    )
    for each in text if isinstance(text, list) else [text]:
        sql = str(each.get("command", "") if isinstance(each, Mapping) else each)
        if _READS.match(sql) or _REPEATABLE.search(sql):
            continue
        if _INSERTS.search(sql):
            return f"rows are inserted twice: add ON CONFLICT ... DO NOTHING or DO UPDATE, with a unique key such as {_KEY}"
        return f"the statement runs twice: write it so that the second time changes nothing, or guard it by {_KEY}"
    return SAFE


def _once(inputs: Mapping[str, Any]) -> str:
    return SAFE


def _sends(inputs: Mapping[str, Any]) -> str:
    fifo = str(inputs.get("queue", inputs.get("topic", ""))).endswith(".fifo")
    return SAFE if fifo else "it is sent twice: the receiver must recognize it by the key, or the queue or topic must be FIFO"


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
