"""Compares the recorded events of a commit with those that would be decided, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final

from noetl_core.observe.diff import fields, shortened_json

if TYPE_CHECKING:
    from noetl_core.api.shapes.views import EventChange

DERIVED: Final = ("token", "run", "tokens")
"""Derived ids, which differ whenever other fields differ."""

ALIGNED: Final = 400
"""Events of both lists that are aligned, which takes time by their cube. Longer lists differ from their first difference on."""


def event_changes(recorded: Sequence[Mapping[str, Any]], decided: Sequence[Mapping[str, Any]]) -> Iterator[EventChange]:
    """Yield each event that only one of the lists has, and each field in which events of both differ."""
    names = [event["name"] for event in recorded], [event["name"] for event in decided]
    for word, a, b, c, d in _alignment(*names):
        if word == "equal":
            for one, other in zip(recorded[a:b], decided[c:d], strict=True):
                for path, before, after in fields(one["data"], other["data"]):
                    if path.rpartition(".")[2].partition("[")[0] not in DERIVED:
                        values = shortened_json(before), shortened_json(after)
                        yield {"event": one["name"], "path": path, "recorded": values[0], "decided": values[1]}
            continue
        for event in recorded[a:b]:
            yield {"event": event["name"], "recorded": _data(event)}
        for event in decided[c:d]:
            yield {"event": event["name"], "decided": _data(event)}


def _alignment(one: list[str], other: list[str]) -> list[tuple[str, int, int, int, int]]:
    """Return how to make the second list of the first, as `SequenceMatcher.get_opcodes` does."""
    if len(one) + len(other) <= ALIGNED:
        return [*SequenceMatcher(None, one, other, autojunk=False).get_opcodes()]
    shorter = min(len(one), len(other))
    same = next((n for n in range(shorter) if one[n] != other[n]), shorter)
    return [("equal", 0, same, 0, same), ("replace", same, len(one), same, len(other))]


def _data(event: Mapping[str, Any]) -> str:
    return shortened_json({key: each for key, each in event["data"].items() if key not in DERIVED})
