"""Compares the ends of one case in several orders of arrival, and explains the differences.

Steps that nothing orders may end in any order. If the end of the execution depends on it, several of them write the same key of
ctx, one of them reads what another writes, or one counts on coming first.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any, Final

from noetl_core.testing.match import differences
from noetl_core.testing.play import Played
from noetl_core.testing.registry import Call

ORDERED: Final = "order them (an arc from one to the other)"
SHOWN: Final = 300
"""Characters of a call's inputs in a message."""


@dataclass(frozen=True)
class Ending:
    """The end of a played case: `calls` without repeated ones, `writes` of ctx in their order (key, step, value), and `marks`, in
    the order in which steps began and ended."""

    status: str
    result: Any
    ctx: Mapping[str, Any]
    path: list[str]
    calls: list[Call]
    writes: list[tuple[str, str, Any]]
    marks: list[str]

    @cached_property
    def fingerprint(self) -> str:
        """A text that only equal ends have, whatever the order of their steps."""
        made = sorted(_calls(self).items())
        return json.dumps([self.status, self.result, self.ctx, sorted(self.path), made], sort_keys=True, default=str)


@dataclass(frozen=True)
class Race:
    """Orders in which a case ends otherwise: their seeds, the differences, the cause and the change to make."""

    seeds: tuple[int, ...]
    differs: tuple[str, ...]
    cause: str
    remedy: str


def ending_of(played: Played) -> Ending:
    """Return the end of a played case, which may be closed then."""
    writes: list[tuple[str, str, Any]] = []
    marks: list[str] = []
    for event in played.events():
        match event["name"]:
            case "CtxPatched":
                writes += [(key, event.get("step") or "", value) for key, value in event["data"]["patch"].items()]
            case "StepScheduled":
                marks.append(f"the start of {event['step']}")
            case "BoundaryRouted" if event["data"]["name"] in ("StepDone", "StepFailed"):
                marks.append(f"the end of {event['step']}")
    calls = {(call.key, call.attempt): call for call in played.calls}
    return Ending(played.status, played.result, played.ctx, played.path, [*calls.values()], writes, marks)


def differences_of(plain: Ending, other: Ending) -> Iterator[str]:
    """Yield the differences of `other`. The order of its steps and calls does not count."""
    for name in ("status", "result", "ctx"):
        yield from differences(getattr(plain, name), getattr(other, name), name)
    before, after = Counter(plain.path), Counter(other.path)
    for step in sorted(before.keys() | after.keys()):
        if before[step] != after[step]:
            yield f"step {step} runs {_times(after[step])}, expected {_times(before[step])}"
    expected, made = _calls(plain), _calls(other)
    for task, inputs in made - expected:
        instead = next((each for name, each in expected - made if name == task), None)
        if instead is None:
            yield f"{task} is called with {inputs[:SHOWN]}"
        else:
            yield from differences(json.loads(instead), json.loads(inputs), f"inputs of {task}")


def races(plain: Ending, found: Mapping[int, Ending]) -> list[Race]:
    """Return the ends that differ from the plain one, each once, with the seeds of the orders that lead there."""
    by_end: dict[str, list[int]] = {}
    for seed, ending in found.items():
        by_end.setdefault(ending.fingerprint, []).append(seed)
    by_end.pop(plain.fingerprint, None)
    return [
        Race(tuple(seeds), tuple(differences_of(plain, found[seeds[0]])), *_cause(plain, found, found[seeds[0]]))
        for seeds in by_end.values()
    ]


def _cause(plain: Ending, found: Mapping[int, Ending], other: Ending) -> tuple[str, str]:
    """Return the cause of the difference, and what to change."""
    for key in sorted({key for key, *_ in (*plain.writes, *other.writes)}):
        before, after = ([(step, value) for name, step, value in each.writes if name == key] for each in (plain, other))
        writers = sorted({step for step, _ in (*before, *after)})
        if before != after and plain.ctx.get(key) != other.ctx.get(key) and len(before + after) > 2:
            who = f"steps {', '.join(writers)} write" if len(writers) > 1 else f"several runs of step {writers[0]} write"
            return (
                f"{who} ctx.{key}, and the last one wins",
                f"let each write a key of its own, and a step after a join (spec.join: all) combine them, or {ORDERED}",
            )
    for one, two in _decisive(plain, found, other):
        return (
            f"it depends on which comes first: {one} or {two}",
            f"let the step that needs the other wait for it: a join (spec.join: all), a guard of its admission, or {ORDERED}",
        )
    return (
        "it depends on the order in which steps end",
        "compare both executions: let steps that need others wait for them (a join)",
    )


def _decisive(plain: Ending, found: Mapping[int, Ending], other: Ending) -> Iterator[tuple[str, str]]:
    """Yield pairs of marks that stand in one order in all ends like the plain one, and in the other in all that differ as `other`
    does; those of two steps, the latest ones first."""
    same = [each for each in (plain, *found.values()) if each.fingerprint == plain.fingerprint]
    different = [each for each in found.values() if each.fingerprint == other.fingerprint]
    first = {mark: plain.marks.index(mark) for mark in dict.fromkeys(plain.marks)}
    pairs = [(one, two) for one, two in permutations(first, 2) if first[one] < first[two] and one.split()[-1] != two.split()[-1]]
    for one, two in sorted(pairs, key=lambda pair: (first[pair[1]], first[pair[0]]), reverse=True):
        if all(_before(each, one, two) for each in same) and all(_before(each, two, one) for each in different):
            yield one, two


def _before(ending: Ending, one: str, two: str) -> bool:
    """Return whether a mark comes before another one, which may not come at all."""
    if one not in ending.marks:
        return False
    return two not in ending.marks or ending.marks.index(one) < ending.marks.index(two)


def _calls(ending: Ending) -> Counter[tuple[str, str]]:
    return Counter((call.task, json.dumps(call.inputs, sort_keys=True, default=str)) for call in ending.calls)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
