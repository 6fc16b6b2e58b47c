"""The table of the kit: every statement, its cases, and how they came out on either wiring."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.conformance.cases import Case
from tests.conformance.statements import Statement

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
HEAD = """# Conformance

This page lists the statements of the language's specification, and the cases that test them. `make conformance` runs all cases on the local runner
and on the stack, and writes this page; a test keeps it complete. [tests/conformance](../tests/conformance/README.md) has the cases with all their expectations.

The first column gives the id of a statement and its strength. `field` names a field or a value of the language, `default` states what holds if it is left out, and
`defined` gives a meaning. `MUST`, `MUST NOT`, `SHOULD` and `MAY` are the words of the specification.
"""
HOLDS, FAILS, NONE = "holds", "FAILS", "-"
Outcome = Mapping[str, tuple[bool, bool]]
"""By case id: whether it holds on the local runner, and on the stack."""


def page(statements: Mapping[str, Statement], cases: tuple[Case, ...], outcome: Outcome) -> str:
    """docs/conformance.md."""
    by_statement: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        for statement in case.covers:
            by_statement[statement].append(case)
    held = sum(all(outcome[c.id]) for c in cases)
    counts = f"{len(statements)} statements, {len(cases)} cases; {held} cases hold both on the local runner and on the stack.\n"
    parts = [HEAD, counts]
    source = section = ""
    for s in statements.values():
        if s.source != source:
            source, section = s.source, ""
            parts.append(f"\n## {source}\n")
        if s.section != section:
            section = s.section
            parts.append(f"\n### {section}\n\n| statement | | case | local | stack |\n|---|---|---|---|---|")
        parts.append(_row(s, by_statement[s.id], outcome))
    return "\n".join(parts) + "\n"


def _row(s: Statement, cases: list[Case], outcome: Outcome) -> str:
    text = s.text.replace("|", "\\|")
    names = "<br>".join(_link(c) for c in cases) or NONE
    local, stack = (NONE if not cases else HOLDS if all(outcome[c.id][wiring] for c in cases) else FAILS for wiring in (0, 1))
    return f"| **{s.id}** {s.strength} | {text} | {names} | {local} | {stack} |"


def _link(case: Case) -> str:
    return f"[{case.id}](../tests/conformance/cases/{case.file})"


def lines(statements: Mapping[str, Statement], cases: tuple[Case, ...], outcome: Outcome) -> Iterator[str]:
    """The table for a terminal: a line for each statement."""
    words = {True: HOLDS, False: FAILS}
    for s in statements.values():
        for case in (c for c in cases if s.id in c.covers):
            local, stack = outcome[case.id]
            yield f"{s.id:<12} {s.strength:<9} {words[local]:<6} {words[stack]:<6} {case.id}"
