"""The normative statements of the ruling texts: what there is to be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from tests.conformance import strict_yaml

FOLDER = Path(__file__).parent / "statements"
Strength = Literal["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "field", "default", "defined"]
"""`field`: a named field or value of the language; `default`: what holds when it is left out; `defined`: a meaning the text gives."""
BINDING = frozenset({"MUST", "MUST NOT", "SHOULD", "field", "default", "defined"})
"""Statements that need a case; `MAY` and `SHOULD NOT` may have one."""
ID = re.compile(r"[A-Z]-[0-9A-Za-z.]+-\d+[a-z]?\Z")


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence of a text. `text` quotes or paraphrases it."""

    id: str
    source: str
    section: str
    strength: Strength
    text: str


@cache
def catalogue() -> dict[str, Statement]:
    """All statements by id, in the order of the texts. Raises `ValueError`."""
    found: dict[str, Statement] = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        for document in strict_yaml.load(path):
            for section, entries in document["sections"].items():
                for id_, entry in entries.items():
                    if id_ in found:
                        raise ValueError(f"{path.name}: {id_} stands twice")
                    found[id_] = _statement(f"{path.name}: {id_}", id_, document["text"], str(section), entry)
    return found


def _statement(where: str, id_: str, source: str, section: str, entry: Any) -> Statement:
    if not ID.match(id_):
        raise ValueError(f"{where}: an id is like F-2.3-1")
    if not isinstance(entry, dict) or len(entry) != 1:
        raise ValueError(f"{where}: a statement is written `id: {{MUST: text}}`")
    ((strength, text),) = entry.items()
    if strength not in get_args(Strength):
        raise ValueError(f"{where}: {strength!r} is none of {', '.join(get_args(Strength))}")
    return Statement(id_, source, section, strength, " ".join(text.split()))
