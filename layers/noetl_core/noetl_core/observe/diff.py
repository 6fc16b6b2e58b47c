"""Two executions, or two values, told apart field by field (docs/looking.md, "Two executions").

Executions are aligned by step and visit; results of loops by index. Ids of the executions themselves, and the places of stored
values, are no difference: stored values are compared by their checksum.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from noetl_core.dsl.model import Playbook
from noetl_core.expr import is_reference
from noetl_core.observe.account import Account, RunAccount

if TYPE_CHECKING:
    from noetl_core.client.why_shapes import Apart

SHOWN: Final = 300
"""Characters of a value that are shown."""


class _Absent:
    """Stands for what is not there."""

    def __repr__(self) -> str:
        return "(nothing)"


ABSENT: Final = _Absent()


def fields(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield every place in which two values differ, with both values."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys([*one, *other]):
            yield from fields(one.get(key, ABSENT), other.get(key, ABSENT), f"{path}.{key}" if path else str(key))
    elif isinstance(one, list) and isinstance(other, list):
        for place in range(max(len(one), len(other))):
            a, b = (each[place] if place < len(each) else ABSENT for each in (one, other))
            yield from fields(a, b, f"{path}[{place}]")
    elif one != other:
        yield path, one, other


def shown(found: Any, most: int = SHOWN) -> str:
    """Return a value as JSON, shortened."""
    if found is ABSENT:
        return repr(ABSENT)
    text = json.dumps(found, ensure_ascii=False, default=str)
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit of a step, as it is compared."""

    status: str
    duration_ms: float | None
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two executions. `results` are those of runs, by their id."""

    execution_id: str
    playbook: Playbook
    account: Account
    facts: Mapping[str, Any]
    results: Mapping[str, Any] = field(default_factory=dict)

    def visits(self, step: str) -> list[Visit]:
        _, runs = self.account.of_step(step)
        return [self._visit(run) for run in runs]

    def _visit(self, run: RunAccount) -> Visit:
        step = self.playbook.by_name.get(run.step)
        arcs = {arc.index: arc.step for arc in step.router.arcs} if step is not None and step.router is not None else {}
        took = None if run.ended is None else (run.ended.ts - run.at.ts) / 1000
        facts: dict[str, Any] = {"args": run.args, "result": self.results.get(run.id)}
        if run.error is not None:
            facts["error"] = {key: run.error.get(key) for key in ("kind", "message", "task", "iteration") if key in run.error}
        if run.boundary is not None and "loop" in run.boundary:
            facts["loop"] = run.boundary["loop"]
        if run.next is not None:
            facts["went to"] = [arcs.get(arc, f"arc {arc}") for arc in run.selected]
        return Visit(run.status, took, self.plain(facts))

    def plain(self, value: Any) -> Any:
        """Return a value without what differs between any two executions."""
        if isinstance(value, str):
            return value.replace(self.execution_id, "(execution)")
        if isinstance(value, list):
            return [self.plain(each) for each in value]
        if isinstance(value, Mapping):
            if is_reference(value):
                return {"stored": value.get("checksum"), "size": value.get("size")}
            return {key: self.plain(each) for key, each in value.items()}
        return value


def apart(one: Side, other: Side) -> Iterator[Apart]:
    """Yield what two executions differ in: first as a whole, then step by step, in the order of the playbooks."""
    for path, a, b in fields(one.plain(one.facts), other.plain(other.facts)):
        yield {"field": path, "a": shown(a), "b": shown(b)}
    for step in dict.fromkeys([*one.playbook.by_name, *other.playbook.by_name]):
        yield from _step(step, one.visits(step), other.visits(step))


def durations(one: Side, other: Side) -> Iterator[tuple[str, int, float | None, float | None]]:
    """Yield how long each visit took in both."""
    for step in dict.fromkeys([*one.playbook.by_name, *other.playbook.by_name]):
        a, b = one.visits(step), other.visits(step)
        for visit in range(max(len(a), len(b))):
            before, after = (v[visit].duration_ms if visit < len(v) else None for v in (a, b))
            yield step, visit + 1, before, after


def _step(step: str, a: list[Visit], b: list[Visit]) -> Iterator[Apart]:
    if len(a) != len(b):
        yield {"step": step, "field": "runs", "a": str(len(a)), "b": str(len(b))}
    for visit, (one, other) in enumerate(zip(a, b, strict=False), 1):
        if one.status != other.status:
            yield {"step": step, "visit": visit, "field": "status", "a": one.status, "b": other.status}
        for path, before, after in fields(one.facts, other.facts):
            yield {"step": step, "visit": visit, "field": path, "a": shown(before), "b": shown(after)}
