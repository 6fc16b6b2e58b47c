"""Compares two executions, or two values, field by field (docs/looking.md, "Two executions").

Executions are aligned by step and visit; results of loops by index. Ids of the executions themselves, and the locations of stored
values, are not differences: stored values are compared by their checksum.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from noetl_core.dsl.model import Playbook
from noetl_core.engine.state import StepState
from noetl_core.expr import is_reference
from noetl_core.observe.account import RunAccount
from noetl_core.values.frozen import frozen

if TYPE_CHECKING:
    from noetl_core.api.shapes.why import Apart, StepTotals

SHOWN: Final = 300
"""Maximum number of characters of a value that are shown."""


class _Absent:
    """Represents a missing value."""

    def __repr__(self) -> str:
        return "(nothing)"


ABSENT: Final = _Absent()


def fields(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield every path at which two values differ, with both values."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys([*one, *other]):
            yield from fields(one.get(key, ABSENT), other.get(key, ABSENT), f"{path}.{key}" if path else str(key))
    elif isinstance(one, list) and isinstance(other, list):
        for place in range(max(len(one), len(other))):
            a, b = (each[place] if place < len(each) else ABSENT for each in (one, other))
            yield from fields(a, b, f"{path}[{place}]")
    elif one != other:
        yield path, one, other


def shortened_json(found: Any, most: int = SHOWN) -> str:
    """Return a value as JSON, shortened."""
    if found is ABSENT:
        return repr(ABSENT)
    text = json.dumps(found, ensure_ascii=False, default=str)
    return text if len(text) <= most else text[: most - 1] + "…"


@frozen
class Visit:
    """One visit of a step, in the form in which it is compared."""

    status: str
    duration_ms: float | None
    facts: Mapping[str, Any]


@frozen
class Side:
    """One of the two executions.

    `runs` are those to be compared, by step and by the number of the visit, from 1. `counts` are the numbers of visits, `results`
    those of runs, by their id.
    """

    execution_id: str
    playbook: Playbook
    runs: Mapping[str, Mapping[int, RunAccount]]
    counts: Mapping[str, int]
    facts: Mapping[str, Any]
    results: Mapping[str, Any] = field(default_factory=dict)

    def visits(self, step: str) -> Mapping[int, Visit]:
        return {number: self._visit(run) for number, run in self.runs.get(step, {}).items()}

    def count(self, step: str) -> int:
        return self.counts.get(step, 0)

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
        """Return a value without parts that differ between any two executions."""
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
    """Yield the differences between two executions: first of the executions themselves, then step by step, in the order of the
    playbooks."""
    for path, a, b in fields(one.plain(one.facts), other.plain(other.facts)):
        yield {"field": path, "a": shortened_json(a), "b": shortened_json(b)}
    for step in steps_of(one, other):
        if one.count(step) != other.count(step):
            yield {"step": step, "field": "runs", "a": str(one.count(step)), "b": str(other.count(step))}
        yield from _visits(step, one.visits(step), other.visits(step))


def durations(one: Side, other: Side) -> Iterator[tuple[str, int, float | None, float | None]]:
    """Yield the durations of each visit in both."""
    for step in steps_of(one, other):
        a, b = one.visits(step), other.visits(step)
        for visit in sorted({*a, *b}):
            known = all(visit in visits or visit > side.count(step) for visits, side in ((a, one), (b, other)))
            before, after = (visits[visit].duration_ms if visit in visits else None for visits in (a, b))
            if known:
                yield step, visit, before, after


def steps_of(one: Side, other: Side) -> Iterable[str]:
    """Return the steps of both playbooks, in their order."""
    return dict.fromkeys([*one.playbook.by_name, *other.playbook.by_name])


def _visits(step: str, a: Mapping[int, Visit], b: Mapping[int, Visit]) -> Iterator[Apart]:
    for visit in sorted({*a} & {*b}):
        one, other = a[visit], b[visit]
        if one.status != other.status:
            yield {"step": step, "visit": visit, "field": "status", "a": one.status, "b": other.status}
        for path, before, after in fields(one.facts, other.facts):
            yield {"step": step, "visit": visit, "field": path, "a": shortened_json(before), "b": shortened_json(after)}


@frozen
class Totals:
    """The outcomes of all visits of a step in both executions, as far as their states count them; `compared` of them were
    compared one by one. `went_to` is how often each arc fired, by its target."""

    step: str
    compared: int
    a: StepTotals
    b: StepTotals
    went_to: tuple[Mapping[str, int], Mapping[str, int]]


def totals_of(one: Side, a: Mapping[str, StepState], other: Side, b: Mapping[str, StepState]) -> Iterator[Totals]:
    """Yield the totals of every step that was visited in one of the executions."""
    for step in steps_of(one, other):
        if one.count(step) or other.count(step):
            of_a, of_b = a.get(step) or StepState(), b.get(step) or StepState()
            arcs = _went_to(one.playbook, step, of_a), _went_to(other.playbook, step, of_b)
            both = {*one.runs.get(step, {})} & {*other.runs.get(step, {})}
            yield Totals(step, len(both), _step_totals(of_a), _step_totals(of_b), arcs)


def counted(totals: Iterable[Totals]) -> Iterator[Apart]:
    """Yield the counted differences of visits that were not compared one by one."""
    for each in totals:
        if each.compared == min(each.a["visits"], each.b["visits"]):
            continue
        if each.a["failed"] != each.b["failed"]:
            yield {"step": each.step, "field": "failed runs", "a": str(each.a["failed"]), "b": str(each.b["failed"])}
        for path, before, after in fields(*each.went_to):
            yield {
                "step": each.step,
                "field": f"how often it went to {path}",
                "a": shortened_json(before),
                "b": shortened_json(after),
            }


def _step_totals(known: StepState) -> StepTotals:
    took = known.took or {}
    ended = sum(took.get("us", {}).values())
    return {
        "visits": known.visits,
        "failed": took.get("others", 0) + sum(group["count"] for group in took.get("errors", ())),
        "mean_ms": round(took.get("total_us", 0) / ended / 1000, 3) if ended else None,
        "max_ms": round(took.get("max_us", 0) / 1000, 3) if ended else None,
    }


def _went_to(playbook: Playbook, name: str, known: StepState) -> Mapping[str, int]:
    step = playbook.by_name.get(name)
    found: dict[str, int] = {}
    for arc in step.router.arcs if step is not None and step.router is not None else ():
        if (count := known.fired.get(str(arc.index), 0)) > 0:
            found[arc.step] = found.get(arc.step, 0) + count
    return found
