"""Two lists of events compared field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

from noetl_core.observe.diff import fields, shortened_json

SHOWN: Final = 160
"""The most characters of a value that are shown."""
DERIVED: Final = ("token", "run", "tokens")
"""Derived ids, which differ whenever other fields differ."""


def differing(recorded: Sequence[Mapping[str, Any]], decided: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield lines: an event in only one list with `-` (recorded) or `+` (decided), a differing field as
    `name: path: recorded -> decided`."""
    names = [event["name"] for event in recorded], [event["name"] for event in decided]
    for word, a, b, c, d in SequenceMatcher(None, *names, autojunk=False).get_opcodes():
        if word == "equal":
            for one, other in zip(recorded[a:b], decided[c:d], strict=True):
                for path, before, after in fields(one["data"], other["data"]):
                    if path.rpartition(".")[2].partition("[")[0] not in DERIVED:
                        yield f"  {one['name']}: {path}: {shortened_json(before, SHOWN)} -> {shortened_json(after, SHOWN)}"
            continue
        yield from (f"- {_event(event)}" for event in recorded[a:b])
        yield from (f"+ {_event(event)}" for event in decided[c:d])


def _event(event: Mapping[str, Any]) -> str:
    data = {key: each for key, each in event["data"].items() if key not in DERIVED}
    return f"{event['name']} {shortened_json(data, SHOWN)}"
