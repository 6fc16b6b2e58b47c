"""Judges a played case: lists its differences from the expectations, each with its line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from noetl_core.dsl.reading.load import Node
from noetl_core.observe import sentences
from noetl_core.testing import match
from noetl_core.testing.files import Case
from noetl_core.testing.play import Played
from noetl_core.values.frozen import frozen

_STEPS: Final = re.compile(r"\.([^.\[\]\s]+)|\[(\d+)\]")
SHOWN: Final = 12
"""The last events that are shown of a history that differs."""
WARNINGS: Final = 3
"""The warnings that are shown of a failed case."""


@frozen
class Finding:
    """A difference, and the line of the test file at which the expectation stands (0: the case itself)."""

    line: int
    text: str


def judge(case: Case, played: Played) -> list[Finding]:
    """Return the differences, none if the case passes."""
    missing = list(dict.fromkeys((each.task, each.why, each.remedy) for each in played.unanswered))
    if missing:  # later differences are consequences of it
        return [
            Finding(_tool_line(case, task), f"task {task}: {why}\n{_indented(remedy)}".rstrip()) for task, why, remedy in missing
        ]
    ended = list(_ended(case, played))
    if ended:  # as above
        return [*ended, *_path(case, played), *_acts(played), *_warnings(case, played)]
    found = [*_compared(case, played), *_path(case, played), *_unused(case, played), *_acts(played)]
    return [*found, *_warnings(case, played)] if found else []


def _warnings(case: Case, played: Played) -> Iterator[Finding]:
    """Yield the warnings of a failed case, which often are the cause of its differences."""
    if "warnings" not in case.expect:
        for group in played.warnings[:WARNINGS]:
            yield Finding(case.line, f"warning: {sentences.warning(group)}")


def judge_refusal(case: Case, message: str) -> list[Finding]:
    """Return the differences of a case whose start is refused."""
    if "refused" in case.expect:
        return list(_differences(case, "refused", case.expect["refused"], message))
    return [Finding(case.line, f"the start is refused: {message}")]


def _ended(case: Case, played: Played) -> Iterator[Finding]:
    if "refused" in case.expect:
        yield Finding(_line(case, "expect.refused"), f"the start was not refused: the execution is {played.status}")
        return
    expected = case.expect.get("status", "failed" if "error" in case.expect else "completed")
    if played.status != expected:
        why = "" if played.error is None else f": {_failure(played.error)}"
        yield Finding(_line(case, "expect.status"), f"status is {played.status}, expected {expected}{why}")


def _compared(case: Case, played: Played) -> Iterator[Finding]:
    expect = case.expect
    for key in ("result", "ctx", "seconds"):
        if key in expect:
            yield from _differences(case, key, expect[key], getattr(played, key))
    if "error" in expect and played.error is not None:
        yield from _differences(case, "error", expect["error"], played.error, subset=True)
    if "steps" in expect:
        yield from _differences(case, "steps", expect["steps"], played.summary["steps"], subset=True)
    if "warnings" in expect:
        expected = expect["warnings"]
        seen = len(played.warnings) if isinstance(expected, int) else list(played.warnings)
        yield from _differences(case, "warnings", expected, seen, subset=True)
    for task, expected in expect.get("calls", {}).items():
        calls = played.calls_of(task)
        seen = len(calls) if isinstance(expected, int) else list(calls)
        yield from _differences(case, f"calls.{task}", expected, seen, subset=True)
    yield from _events(case, played)


def _path(case: Case, played: Played) -> Iterator[Finding]:
    expect = case.expect
    if "path" in expect:
        wrong = match.history(expect["path"], played.path, lambda name, step: bool(name in (step, match.ANY)), "step")
        if wrong is not None:
            yield Finding(_line(case, "expect.path"), f"the path is {', '.join(played.path)}; {wrong}")


def _events(case: Case, played: Played) -> Iterator[Finding]:
    expect = case.expect
    if not {"events", "never", "count"} & expect.keys():
        return
    events = played.events()
    if "events" in expect and (wrong := match.history(expect["events"], events)) is not None:
        yield Finding(_line(case, "expect.events"), f"{wrong}\n{_indented(event_lines(events[-SHOWN:]))}")
    for pattern in expect.get("never", []):
        if found := [event for event in events if match.is_event(pattern, event)]:
            yield Finding(_line(case, "expect.never"), f"there is an event {_text(pattern)}\n{_indented(event_lines(found[:1]))}")
    for pattern, number in expect.get("count", {}).items():
        count = sum(match.is_event(pattern, event) for event in events)
        if count != number:
            yield Finding(_line(case, "expect.count"), f"{count} events are {pattern}, expected {number}")


def _unused(case: Case, played: Played) -> Iterator[Finding]:
    """Yield the outcomes that answered no call."""
    for name, index, _ in played.unused():
        node = case.places.get(f"tools.{name}")
        of = len(node.value) if node is not None and node.kind == "list" else 1
        line = case.line if node is None else (node.value[index].line if node.kind == "list" else node.line)
        which = f"outcome {index + 1} of {of}" if of > 1 else "the outcome"
        yield Finding(line, f"{which} of {name} answered no call (optional: true allows that)")


def _acts(played: Played) -> Iterator[Finding]:
    for act, why in played.acts.refused:
        yield Finding(act.line, f"{act}: {why}")
    for act in played.acts.left:
        yield Finding(act.line, f"{act} never happened: {_waited(act.what)}")


def _waited(what: str) -> str:
    return {
        "signal": "nothing waited for it",
        "callback": "no such callback waited",
        "resume": "the execution was not paused",
    }.get(what, "the execution had ended, or did not have that status")


def _differences(case: Case, key: str, expected: Any, seen: Any, *, subset: bool = False) -> Iterator[Finding]:
    for text in match.differences(expected, seen, key, subset=subset):
        yield Finding(_line(case, f"expect.{key}", text.removeprefix(key).partition(" ")[0]), text)


def _line(case: Case, place: str, below: str = "") -> int:
    """Return the line of an expectation, or of the part of it that `below` names (`.rows[0].id`)."""
    node = case.places.get(place)
    if node is None and place.startswith("expect.calls."):
        calls = case.places["expect.calls"]
        node = calls.get(place.removeprefix("expect.calls."))
    if node is None:
        return case.line
    for name, index in _STEPS.findall(below):
        deeper = _part(node, name, index)
        if deeper is None:
            break
        node = deeper
    return node.line


def _part(node: Node, name: str, index: str) -> Node | None:
    if index:
        items: Any = node.value if node.kind == "list" else []
        return items[int(index)] if int(index) < len(items) else None
    return node.get(name)


def _tool_line(case: Case, task: str) -> int:
    node = case.places.get(f"tools.{task}") or case.places.get("tools")
    return case.line if node is None else node.line


def _failure(error: Mapping[str, Any]) -> str:
    place = ".".join(str(error[key]) for key in ("step", "task") if error.get(key))
    return f"{error.get('kind')} in {place}: {error.get('message')}" if place else f"{error.get('kind')}: {error.get('message')}"


def event_lines(events: Sequence[Mapping[str, Any]]) -> str:
    """Return a history, a line for each event."""
    lines = []
    for event in events:
        place = ".".join(str(event[key]) for key in ("step", "task") if key in event)
        more = "".join(f" {key} {event[key]}" for key in ("iteration", "attempt") if key in event)
        lines.append(f"{event['name']} {place}{more} {event['status']} {_text(event['data'])[:160]}".replace("  ", " "))
    return "\n".join(lines)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
