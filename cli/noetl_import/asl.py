"""Imports a definition: text in, playbooks and findings out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from noetl_import.findings import Finding
from noetl_import.machine import Playbook, Translation
from noetl_import.names import Machine
from noetl_import.reading import definition_of
from noetl_import.text import text_of


@dataclass(frozen=True)
class Imported:
    """The playbooks of a definition: their texts by path, the one of the definition itself first."""

    playbooks: Mapping[str, str]
    findings: tuple[Finding, ...]
    places: Mapping[str, tuple[str, str]]
    """By JSON pointer of a state, the path of its playbook and its task there: STEP or STEP.TASK."""


def import_asl(text: str, name: str, path: str = "", values: Mapping[str, str] | None = None) -> Imported:
    """Import a definition. `path` is that of the playbook (default `imported/NAME`), `values` those of its `${PLACEHOLDERS}`.
    Raises `UnusableDefinition`."""
    definition = definition_of(text, values or {})
    path = path or f"imported/{name}"
    folder = path.rpartition("/")[0]

    def path_of(arn: str) -> str:
        machine = re.sub(r"\W+", "_", re.sub(r"^\$\{(\w+)\}$", r"\1", arn.rpartition(":")[2] if arn.startswith("arn:") else arn))
        return f"{folder}/{machine}" if folder else machine

    translation = Translation()
    Playbook(Machine(name, path, definition.get("QueryLanguage", "JSONPath")), translation, path_of).translated(definition, "")
    playbooks = dict(sorted(translation.playbooks.items(), key=lambda item: item[0] != path))
    findings = [finding for written in playbooks.values() for notes in written.notes.values() for finding in notes]
    return Imported({key: text_of(each) for key, each in playbooks.items()}, tuple(dict.fromkeys(findings)), translation.places)
