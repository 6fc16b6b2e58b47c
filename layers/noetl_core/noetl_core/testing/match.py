"""Compares observed values with those that a case expects: wildcards, subsets, histories with gaps."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

REST = "..."
"""In a list of events: any events, or none. As a key of an expected mapping, it allows other keys."""
ANY = "*"


def differences(expected: Any, seen: Any, at: str = "", *, subset: bool = False) -> Iterator[str]:
    """Yield the places at which `seen` differs from the expected value. `"*"` is any value; other text with `*` in it is a
    pattern.
    A mapping must have the same keys, unless it has the key `...` or `subset` is set."""
    at = at or "it"
    if expected == ANY:
        return
    if isinstance(expected, Mapping):
        if not isinstance(seen, Mapping):
            yield f"{at} is {_short(seen)}, expected a mapping"
            return
        wanted = {k: v for k, v in expected.items() if k != REST}
        for key, value in wanted.items():
            if key not in seen:
                yield f"{at} has no {key}: {_short(seen)}"
            else:
                yield from differences(value, seen[key], f"{at}.{key}", subset=subset)
        extra = [k for k in seen if k not in wanted]
        if extra and not subset and REST not in expected:
            yield f"{at} has {', '.join(map(str, extra))} beside the expected keys: {_short(seen)}"
    elif isinstance(expected, list):
        if not isinstance(seen, list) or len(seen) != len(expected):
            yield f"{at} is {_short(seen)}, expected {_short(expected)}"
            return
        for i, (one, other) in enumerate(zip(expected, seen, strict=True)):
            yield from differences(one, other, f"{at}[{i}]", subset=subset)
    elif isinstance(expected, str) and "*" in expected:
        if not isinstance(seen, str) or not fnmatch.fnmatchcase(seen, expected.replace("[", "[[]")):
            yield f"{at} is {_short(seen)}, expected {expected!r}"
    elif isinstance(expected, bool) != isinstance(seen, bool) or expected != seen:
        yield f"{at} is {_short(seen)}, expected {_short(expected)}"


def is_event(pattern: Any, event: Mapping[str, Any]) -> bool:
    """Return whether an envelope matches a pattern: `Name`, `Name step`, `Name step.task`, or a mapping that its fields must
    have."""
    if isinstance(pattern, str):
        name, _, place = pattern.partition(" ")
        step, _, task = place.partition(".")
        pattern = {"name": name, **({"step": step} if step else {}), **({"task": task} if task else {})}
    return not any(differences(pattern, event, subset=True))


def history(
    patterns: Sequence[Any], events: Sequence[Any], fits: Callable[[Any, Any], bool] = is_event, what: str = "event"
) -> str | None:
    """Return None if the events are those of the patterns, in order; otherwise where they differ. `fits` compares one of them."""
    reached = {0}
    best = 0
    for event in [*events, None]:
        reached = _gaps(reached, patterns)
        best = max(best, *reached)
        if event is None:
            break
        reached = {
            p if patterns[p] == REST else p + 1
            for p in reached
            if p < len(patterns) and (patterns[p] == REST or fits(patterns[p], event))
        }
        if not reached:
            break
    if len(patterns) in reached:
        return None
    if best == len(patterns):
        return f"there are {what}s after the last one expected; a list that ends with ... allows them"
    return f"expected {what} {best + 1} does not come next: {_short(patterns[best])}"


def _gaps(reached: set[int], patterns: Sequence[Any]) -> set[int]:
    """A gap may be empty."""
    out = set(reached)
    for p in sorted(reached):
        while p < len(patterns) and patterns[p] == REST:
            p += 1
            out.add(p)
    return out


def _short(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)[:400]
