"""Warnings of an execution: failures that a policy let pass, iterations that failed without failing their loop, and undefined
names that counted as empty. Pure, and bounded: groups of equal warnings, and the count of all.

A worker's warnings are part of the aggregates of its run; the control plane's are in its own events. The fold adds both to their
step, so that they follow from the log alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from noetl_core.engine.state import State
from noetl_core.events.aggregates import Aggregates, ErrorGroup, WarningCode, WarningGroup, Warnings
from noetl_core.events.runs import TaskProcessed
from noetl_core.events.shapes import Blank, Failure

if TYPE_CHECKING:
    from noetl_core.expr.scope import Blanks

MAX_GROUPS: Final = 10
"""Groups of a run or a step that are kept; the warnings of all others are counted."""
SHOWN: Final = 20
"""Groups of an execution that are shown."""
MESSAGE: Final = 200
"""Characters of a message."""
LET_PASS: Final = ("continue", "break")
"""Actions of a policy that let an error pass. A jump is not among them: it leads to tasks that handle the error."""

_NUMBERS: Final = re.compile(r"\d+")


def blanks_of(blanks: Blanks) -> list[Blank]:
    """Return recorded blanks as events have them."""
    return [{"name": name, "template": template} for name, template in blanks]


def of_task(d: TaskProcessed) -> Iterator[WarningGroup]:
    """Yield the warnings of a task's outcome."""
    if d["directive"]["do"] == "retry":
        return
    if d["outcome"]["status"] == "error" and d["directive"]["do"] in LET_PASS:
        error: Failure = d["outcome"].get("error") or {"kind": "unknown", "message": "the task failed"}
        yield _placed(_of_error("error_passed", error), d)
    for blank in d.get("undefined", ()):
        yield _placed(of_blank(blank), d)


def of_blank(blank: Blank) -> WarningGroup:
    """Return the warning about an undefined name."""
    name = f"{blank['name']} is undefined" if blank["name"] else "something is undefined"
    return {"code": "undefined", "message": f"{name} in {blank['template']}"[:MESSAGE], "count": 1}


def of_run(aggregates: Aggregates | None, *, failed: bool) -> Warnings | None:
    """Return the warnings of an ended run: its own, and of a loop that succeeded its failed iterations."""
    if aggregates is None:
        return None
    found = aggregates.get("warnings")
    if failed or "errors" not in aggregates:
        return found
    iterations = Warnings(count=aggregates.get("others", 0), groups=[])
    for group in aggregates["errors"]:
        failures = _of_error("iteration_failed", group)
        failures["count"] = group["count"]
        if "task" in group:
            failures["task"] = group["task"]
        if "first" in group:
            failures["iteration"] = group["first"]
        add(iterations, failures)
    return merged(found, iterations)


def add(known: Warnings, group: WarningGroup) -> None:
    """Add a group: to the one that is equal except for numbers, or as a new one while there is room."""
    known["count"] += group["count"]
    key = _key(group)
    for other in known["groups"]:
        if _key(other) == key:
            other["count"] += group["count"]
            return
    if len(known["groups"]) < MAX_GROUPS:
        known["groups"].append({**group})


def added(known: Warnings | None, groups: Iterable[WarningGroup]) -> Warnings | None:
    """Return `known`, which is changed, with these groups."""
    for group in groups:
        known = known or Warnings(count=0, groups=[])
        add(known, group)
    return known


def merged(one: Warnings | None, other: Warnings | None) -> Warnings | None:
    """Return both together, as a new value."""
    parts = [part for part in (one, other) if part is not None]
    if not parts:
        return None
    found = Warnings(count=0, groups=[])
    for part in parts:
        for group in part["groups"]:
            add(found, group)
        found["count"] += part["count"] - sum(group["count"] for group in part["groups"])
    return found


def count_of(state: State) -> int:
    """Return the number of warnings of an execution."""
    return sum(each["count"] for _, each in _all(state))


def warnings_of(state: State) -> Warnings:
    """Return the warnings of an execution, by step; as many groups as are shown."""
    groups: list[WarningGroup] = []
    for step, each in _all(state):
        for group in each["groups"][: SHOWN - len(groups)]:
            entry: WarningGroup = {**group}
            if step:
                entry["step"] = step
            groups.append(entry)
    return {"count": count_of(state), "groups": groups}


def failure_of(warnings: Warnings) -> Failure:
    """Return the warnings of a completed execution in the form that recipients of failures read."""
    first = warnings["groups"][0]
    count = f"{warnings['count']} warning{'' if warnings['count'] == 1 else 's'}"
    error: Failure = {"kind": "warnings", "message": f"completed with {count}, the first: {first['message']}"}
    if "step" in first:
        error["step"] = first["step"]
    if "task" in first:
        error["task"] = first["task"]
    return error


def _all(state: State) -> Iterator[tuple[str, Warnings]]:
    if state.warnings is not None:
        yield "", state.warnings
    for name, step in state.steps.items():
        if step.warnings is not None:
            yield name, step.warnings


def _key(group: WarningGroup) -> tuple[Any, ...]:
    return group["code"], group.get("kind"), group.get("task"), _NUMBERS.sub("#", group["message"])


def _of_error(code: WarningCode, error: Failure | ErrorGroup) -> WarningGroup:
    group: WarningGroup = {
        "code": code,
        "message": str(error.get("message", ""))[:MESSAGE],
        "count": 1,
        "kind": str(error["kind"]),
    }
    if "code" in error:
        group["error_code"] = error["code"]
    return group


def _placed(group: WarningGroup, d: TaskProcessed) -> WarningGroup:
    group["task"] = d["task"]
    if "path" in d:
        group["iteration"] = d["path"]
    return group
