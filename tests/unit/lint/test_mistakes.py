"""tests/mistakes: every mistake is found by what its entry says, in its words, and none is silent in a strict execution."""

from __future__ import annotations

import pytest

from noetl_core.dsl.lint import rules
from noetl_core.dsl.lint.programs import OF_ENGINE
from noetl_core.engine.outcome import ERROR_KINDS
from noetl_core.tools.sandbox.libraries import LIBRARIES
from tests.mistakes.cases import BY_PART, PAGE, Case, cases, findings, outcome, page
from tests.unit.docs.language import completed

CASES = cases()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.mistake)
def test_a_mistake_is_found_as_its_entry_says(case: Case) -> None:
    found = findings(case.play)
    if case.found_by in ("validate", "lint"):
        wanted = "error" if case.found_by == "validate" else "warning"
        first = next(d for d in found if d.severity == wanted)
        assert (first.code, first.message + (f" ({first.hint})" if first.hint else "")) == (case.code, case.says)
        if case.found_by == "lint":
            assert all(d.severity == "warning" for d in found)
            assert outcome(case.play, strict=True)[0] == ("completed" if case.passes else "failed"), case.passes
        return
    assert [str(d) for d in found] == []
    status, message = outcome(case.play, strict=case.found_by == "strict")
    assert (status, message.partition("\n")[0]) == ("failed", case.says)
    if case.found_by == "strict":
        assert outcome(case.play, strict=False)[0] == "completed"


def test_there_are_sixty_of_them_at_least_and_none_twice() -> None:
    assert len({case.mistake for case in CASES}) == len(CASES) >= 60
    assert {case.found_by for case in CASES} == {"validate", "lint", "run", "strict"}


def test_a_hundred_mistakes_over_all_parts_are_found_at_their_places() -> None:
    """One test for all, so that it costs little. The few that are found when they run are run."""
    by_part = cases(BY_PART)
    wrong = []
    for case in by_part:
        if case.found_by == "run":
            assert case.why and findings(case.play) == [], case.mistake
            found = outcome(case.play, strict=False)
            seen: tuple[str, ...] = (found[0], found[1].partition("\n")[0])
            wanted: tuple[str, ...] = ("failed", case.says)
        else:
            severity = "error" if case.found_by == "validate" else "warning"
            first = next((d for d in findings(case.play) if d.severity == severity), None)
            assert first is not None, case.mistake
            place = completed(case.play).splitlines()[first.line - 1][first.col - 1 :]
            seen = (first.code, first.message + (f" ({first.hint})" if first.hint else ""), place[: len(case.at)])
            wanted = (case.code, case.says, case.at)
        if seen != wanted:
            wrong.append((case.mistake, seen, wanted))
    assert wrong == []
    assert len({case.mistake for case in (*CASES, *by_part)}) == len(CASES) + len(by_part)
    assert len(by_part) >= 100 and sum(case.found_by == "run" for case in by_part) <= 5


def test_the_page_is_made_from_the_file() -> None:
    """`python -m tests.mistakes.cases` writes it."""
    assert PAGE.read_text() == page()


def test_lint_knows_the_kinds_of_errors_and_the_libraries_of_the_engine() -> None:
    assert rules.ERROR_KINDS == ERROR_KINDS
    assert {name for names in LIBRARIES.values() for name in names if name[0] != "_"} <= OF_ENGINE | {"adbc_driver_duckdb"}
