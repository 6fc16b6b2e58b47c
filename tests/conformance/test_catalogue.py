"""The catalogue of statements and the cases fit together, and the format refuses what it does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl_core.testing import match
from tests.conformance import table
from tests.conformance.cases import BadCase, all_cases, read
from tests.conformance.checks import CHECKS
from tests.conformance.statements import BINDING, catalogue


def test_every_binding_statement_has_a_case() -> None:
    covered = {statement for case in all_cases() for statement in case.covers}
    assert [s.id for s in catalogue().values() if s.strength in BINDING and s.id not in covered] == []


def test_cases_name_statements_and_checks_that_exist() -> None:
    assert [(c.id, s) for c in all_cases() for s in c.covers if s not in catalogue()] == []
    assert [(c.id, name) for c in all_cases() for name in c.expect.get("check", []) if name not in CHECKS] == []


def test_the_page_shows_every_statement_with_its_cases_holding_on_both_wirings() -> None:
    every = {case.id: (True, True) for case in all_cases()}
    assert table.PAGE.read_text() == table.page(catalogue(), all_cases(), every), "`make conformance` writes it"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("case: x\ncovers: [F-1-1]\nplaybok: {}\n", "unknown key 'playbok'; did you mean playbook?"),
        ("case: x\ncovers: [F-1-1]\nplaybook: {workflow: []}\nexpect: {stauts: failed}\n", "did you mean status?"),
        ("case: x\ncovers: [F-1-1]\nexpect: {status: failed}\n", "playbook is missing"),
        ("case: x\ncase: y\n", "case stands twice"),
        (
            "case: x\ncovers: [F-1-1]\nplaybook: {workflow: [{step: a, tool: {kind: noop}}]}\ntools: {a.b: []}\nexpect: {status: x}\n",
            "no task is called a.b",
        ),
        ("case: x\ncovers: [F-1-1]\nplaybook: {a: 1}\nacts: [{signal: {}}]\nexpect: {status: failed}\n", "an act is at"),
        ("case: x\ncovers: [F-1-1]\nplaybook: {a: 1}\nrequest: {by: name}\nexpect: {status: failed}\n", "request.by is one of"),
        ("just text\n", "a case is a mapping"),
    ],
)
def test_a_case_out_of_format_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(BadCase, match=message.replace("?", r"\?")):
        read(path)


@pytest.mark.parametrize(
    ("patterns", "names", "fits"),
    [
        (["A", "B"], ["A", "B"], True),
        (["A"], ["A", "B"], False),
        (["A", "..."], ["A", "B"], True),
        (["...", "B"], ["A", "B"], True),
        (["...", "A", "..."], ["A"], True),
        (["...", "B", "...", "A", "..."], ["A", "B"], False),
        (["...", "A", "B", "..."], ["A", "A", "B", "C"], True),
        ([], ["A"], False),
    ],
)
def test_histories_with_gaps(patterns: list[str], names: list[str], fits: bool) -> None:
    assert (match.history(patterns, [{"name": n} for n in names]) is None) is fits


@pytest.mark.parametrize(
    ("expected", "seen", "fits"),
    [
        (1, 1, True),
        (1, True, False),
        (1, "1", False),
        ("*", None, True),
        ("a*c", "abc", True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1, "...": 0}, {"a": 1, "b": 2}, True),
        ([1, "*"], [1, {"x": 1}], True),
        ([1], [1, 2], False),
    ],
)
def test_values_with_wildcards(expected: object, seen: object, fits: bool) -> None:
    assert (not list(match.differences(expected, seen))) is fits
