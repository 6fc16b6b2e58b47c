"""Size never changes meaning: every case gives the same with an inline limit of a few bytes (resolution 22), also when what is stored
has an outline, by which templates read parts of it."""

from __future__ import annotations

import pytest

from noetl_core.outlines import building
from tests.conformance.cases import Case, all_cases
from tests.conformance.wirings import limits_compared

CASES = pytest.mark.parametrize("case", [c for c in all_cases() if c.runs], ids=lambda case: case.id)


@CASES
def test_the_case_gives_the_same_with_an_inline_limit_of_64_bytes(case: Case) -> None:
    wrong = limits_compared(case)
    assert not wrong, f"{case.file}\n" + "\n".join(wrong)


@CASES
def test_the_case_gives_the_same_where_all_that_is_stored_is_read_in_parts(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "OUTLINED", 0)
    monkeypatch.setattr(building, "BLOCK", 16)
    wrong = limits_compared(case)
    assert not wrong, f"{case.file}\n" + "\n".join(wrong)
