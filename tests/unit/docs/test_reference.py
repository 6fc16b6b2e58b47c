"""The tables of the reference and the JSON Schema are those that the table of fields makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.cases import subjects
from tests.unit.docs.masking import PAGE
from tests.unit.docs.reference import MARKED, generated

GENERATED = generated()


@pytest.mark.parametrize("path", sorted(GENERATED), ids=lambda path: path.name)
def test_each_generated_file_matches_the_table_of_fields(path: Path) -> None:
    assert path.read_text() == GENERATED[path](), f"write {path.name} by: python -m tests.unit.docs.reference"


def test_the_chapters_have_their_tables_from_the_table_of_fields() -> None:
    pages = {path.name for path in GENERATED if path.suffix == ".md" and MARKED.search(path.read_text())}
    assert pages == {"playbook.md", "steps.md", "tasks.md", "loops.md", "arcs.md", "policies.md", "waiting.md"}


def test_masking_survives_whatever_templates_call() -> None:
    cells = [
        row.split(" | ")[1].removesuffix(" |")
        for row in GENERATED[PAGE]().splitlines()
        if row.startswith("| ") and "---" not in row
    ][1:]
    assert len(cells) == len(subjects()) and set(cells) == {"yes"}
