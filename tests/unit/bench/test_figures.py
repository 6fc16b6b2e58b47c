"""The benchmark's tables: verdicts, and the part of the docs that it writes."""

from __future__ import annotations

from pathlib import Path

from bench.figures import DOCS_MARKS, Figure, write_docs

KEPT = Figure("chain", "ms", (0.3, 0.5, 0.4), 0.5)
MISSED = Figure("  map", "items/s", (100.0,), 4500, "higher", "one commit")
SEEN = Figure("memory", "MB", (41.0,))


def test_a_verdict_is_the_medians() -> None:
    assert [f.ok for f in (KEPT, MISSED, SEEN)] == [True, False, None]


def test_the_docs_table_is_replaced_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    first, last = DOCS_MARKS
    page.write_text(f"before\n{first}| old |\n{last}after\n")
    write_docs([KEPT, MISSED, SEEN], page)
    assert page.read_text() == (
        f"before\n{first}"
        "| figure | budget | measured (median of n) | n | | what it is |\n|---|---|---|---|---|---|\n"
        "| chain | <= 0.5 ms | 0.4 ms | 3 | ok |  |\n"
        "| map | >= 4,500 items/s | 100 items/s | 1 | miss | one commit |\n"
        f"{last}after\n"
    )


def test_the_page_of_performance_has_the_marks() -> None:
    text = (Path(__file__).parents[3] / "docs" / "performance.md").read_text()
    assert all(text.count(mark) == 1 for mark in DOCS_MARKS)
