"""docs/tools/matrix.md says what the cases show, and the cases show every kind there is."""

from __future__ import annotations

import re

import pytest

from noetl_core.dsl.kinds import PLUGINS
from noetl_core.engine.outcome import ERROR_KINDS
from noetl_core.tools.registry import BUILT_IN
from tests.matrix.cases import COLUMNS, TOOL_KINDS, cases_of, module_of, modules
from tests.matrix.table import PAGE, page

REMEDY = "`make matrix` runs the cases and writes the page; `python -m tests.matrix --page` writes the page alone"


def test_the_page_has_a_row_for_every_kind_and_is_current() -> None:
    text = PAGE.read_text()
    assert re.findall(r"^\| `(\w+)`", text, re.MULTILINE) == list(TOOL_KINDS), REMEDY
    assert text == page(), REMEDY


def test_every_kind_that_is_installed_has_a_row() -> None:
    remedy = "a kind has its fields (dsl/fields/kinds), and its tool (BUILT_IN in tools/registry.py, or PLUGINS in dsl/kinds.py)"
    assert set(TOOL_KINDS) == {*BUILT_IN, *PLUGINS}, remedy


def test_every_kind_has_cases() -> None:
    assert set(modules()) == set(TOOL_KINDS), "write tests/matrix/kinds/KIND.py (tests/matrix/README.md)"


@pytest.mark.parametrize("kind", modules())
def test_the_cases_of_a_kind_are_whole(kind: str) -> None:
    """Each column has a case, or the module says why not; no two cases have a name; errors are kinds of errors."""
    cases, left_out = cases_of(kind), getattr(module_of(kind), "leaves_out", {})
    assert len({case.name for case in cases}) == len(cases)
    shown = {case.column for case in cases}
    assert shown | set(left_out) == set(COLUMNS)
    assert shown & set(left_out) == set()
    assert {case.fails for case in cases} - {""} <= ERROR_KINDS
