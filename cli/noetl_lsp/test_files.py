"""The names of steps and tasks in test files (`*.test.yaml`) of a playbook, which a renaming changes, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from noetl_lsp.navigation import Edit
from noetl_lsp.outline import Spot, chunks
from noetl_lsp.symbols import Symbol, content

SUFFIX: Final = ".test.yaml"
MOST: Final = 20
"""Test files of one folder that are read."""
LONGEST: Final = 1 << 20
"""Bytes of a test file that is read."""
_KEYED: Final = frozenset({"tools", "calls", "steps", "count"})
"""Keys below which steps and tasks are keys."""
_LISTED: Final = frozenset({"path", "events", "never"})
"""Keys below which they are texts of a list."""
_NAMED: Final = frozenset({"step", "callback"})
"""Keys whose text is one."""
_ADDRESS: Final = re.compile(r"(?:(?P<before>.*[#\s])|)(?P<step>[^#\s.]+)(?:\.(?P<task>[^#\s]+))?\Z")


def of_playbook(file: Path) -> Iterator[Path]:
    """Yield the test files of a playbook's file that are beside it: by their name, or by `playbook` in them."""
    stem = file.name.removesuffix(file.suffix)
    for beside in sorted(file.parent.glob(f"*{SUFFIX}"))[:MOST]:
        own = beside.name.removesuffix(SUFFIX)
        if beside.stat().st_size > LONGEST:
            continue
        named = re.search(r"^playbook:\s*['\"]?([\w./-]+)", beside.read_text("utf-8", "replace"), re.MULTILINE)
        if Path(named[1]).name == file.name if named else own == stem or file.stem == "playbook":
            yield beside


def renamed(text: str, symbol: Symbol, name: str) -> list[Edit]:
    """Return the edits of a test file for a step or task of its playbook that gets another name."""
    edits = []
    for chunk in chunks(text):
        for spot in chunk.tree.spots:
            if _names_a_step(spot) and (at := _place(spot.name, symbol)) is not None:
                start = chunk.start + _start(chunk.text, spot) + at
                if text.startswith(symbol.name, start):
                    edits.append(Edit((start, start + len(symbol.name)), name))
    return edits


def _start(text: str, spot: Spot) -> int:
    return spot.start + (1 if text[spot.start] in "'\"" else 0) if spot.role == "key" else content(spot)[0]


def _names_a_step(spot: Spot) -> bool:
    above = [part for part in spot.path[:-1] if isinstance(part, str)]
    if spot.role == "key":
        return above[-1:] in [[key] for key in _KEYED]
    return (spot.path[-1] in _NAMED and above[-1:] in (["error"], ["acts"])) or (
        isinstance(spot.path[-1], int) and above[-1:] in [[k] for k in _LISTED]
    )


def _place(text: str, symbol: Symbol) -> int | None:
    """Return where the name of a step or task is in an address of a test file, such as `STEP.TASK` or `Event step.task`."""
    found = _ADDRESS.match(text)
    if found is None:
        return None
    if symbol.kind == "step":
        return found.start("step") if found["step"] == symbol.name else None
    return found.start("task") if found["task"] == symbol.name and found["step"] == symbol.owner else None
