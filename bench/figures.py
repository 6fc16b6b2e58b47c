"""Defines the report of the benchmark: one figure per row, with its budget, its repetitions and a verdict."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table


class NotMeasured(Exception):
    """A part of the benchmark cannot be measured on this machine; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number. `budget` None: for information. `better` says which side of the budget is good. `note` describes the
    figure, where its name and the rules above the table (docs/performance.md) do not."""

    name: str
    unit: str
    samples: tuple[float, ...]
    budget: float | None = None
    better: Literal["lower", "higher"] = "lower"
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def ok(self) -> bool | None:
        """True if the median keeps the budget; None without a budget."""
        if self.budget is None:
            return None
        return self.median <= self.budget if self.better == "lower" else self.median >= self.budget


def repeat(times: int, measure: Callable[[], float]) -> tuple[float, ...]:
    """`times` measurements."""
    return tuple(measure() for _ in range(times))


def number(value: float) -> str:
    """Three significant digits, thousands separated."""
    if value and abs(value) < 100:
        return f"{value:.3g}"
    return f"{value:,.0f}"


def print_table(title: str, figures: Sequence[Figure]) -> None:
    table = Table(title=title, title_justify="left")
    numbers = ("budget", "measured", "n")
    for column in ("figure", *numbers, "", ""):
        table.add_column(column, justify="right" if column in numbers else "left")
    for f in figures:
        verdict = {None: "", True: "[green]ok[/]", False: "[red]miss[/]"}[f.ok]
        table.add_row(f.name, budget_of(f), f"{number(f.median)} {f.unit}", str(len(f.samples)), verdict, f.note)
    Console(width=150).print(table)


DOCS_MARKS = ("<!-- bench: written by `python bench/run.py --docs` -->\n", "<!-- end of bench -->\n")


def budget_of(figure: Figure) -> str:
    if figure.budget is None:
        return ""
    return f"{'<=' if figure.better == 'lower' else '>='} {number(figure.budget)} {figure.unit}"


def docs_table(figures: Sequence[Figure]) -> str:
    """The figures that have a budget, as Markdown."""
    rows = ["| figure | budget | measured (median of n) | n | | what it is |", "|---|---|---|---|---|---|"]
    for f in figures:
        if f.budget is not None:
            verdict = "ok" if f.ok else "miss"
            rows.append(
                f"| {f.name.strip()} | {budget_of(f)} | {number(f.median)} {f.unit} | {len(f.samples)} | {verdict} | {f.note} |"
            )
    return "\n".join(rows) + "\n"


def write_docs(figures: Sequence[Figure], path: Path) -> None:
    """Put `docs_table` between the marks of a page."""
    write_between(DOCS_MARKS, docs_table(figures), path)


def write_between(marks: tuple[str, str], text: str, path: Path) -> None:
    """Put `text` between two marks of a page, replacing the old content."""
    first, last = marks
    before, _, rest = path.read_text().partition(first)
    _, _, after = rest.partition(last)
    path.write_text(before + first + text + last + after)


def as_json(figures: Sequence[Figure], not_measured: Mapping[str, str]) -> dict[str, Any]:
    """Everything, for a file that a later run is compared with. `not_measured` has the reasons by part."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
            "load": os.getloadavg()[0],
            "system": platform.system(),
        },
        "figures": [asdict(f) | {"median": f.median, "ok": f.ok} for f in figures],
        "not_measured": dict(not_measured),
    }


def write_json(figures: Sequence[Figure], not_measured: Mapping[str, str], path: Path) -> None:
    path.write_text(json.dumps(as_json(figures, not_measured), indent=2) + "\n")
