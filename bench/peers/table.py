"""The report of a session: two Markdown tables, with the figures and the engines, and the same as JSON."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from bench.figures import number
from bench.peers.cases import HELLO, Case
from bench.peers.session import Measured, Outcome
from bench.peers.sides import LOCAL, Side

MARKS = ("<!-- peers: written by `make peers` -->\n", "<!-- end of peers -->\n")


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of the other's time to ours, round by round: the median, the least and the most."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{number(self.median)} x ({number(self.least)}–{number(self.most)})"


def ratio(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Ratio | None:
    """Return the ratio of seconds by round. Rounds that both sides have count; if there are none, every pair of rounds counts."""
    if not ours or not theirs:
        return None
    common = sorted(ours.keys() & theirs.keys())
    pairs = [(ours[n], theirs[n]) for n in common] or [(a, b) for a in ours.values() for b in theirs.values()]
    single = [b / max(a, 1e-9) for a, b in pairs]
    return Ratio(statistics.median(single), min(single), max(single))


def figures_table(outcome: Outcome, sides: Sequence[Side], cases: Sequence[Case]) -> str:
    """A row for each case and side, whether or not there is a figure."""
    rows = ["| case | engine | median | least–most | n | NoETL is faster by | memory |", "|---|---|---|---|---|---|---|"]
    found = {(entry.case, entry.side): entry for entry in outcome.measured}
    there = [side for side in sides if side.name not in outcome.not_run]
    rows += [_row(case, side, found) for case in cases for side in there if side.on_stack or not case.stack_only]
    return "\n".join(rows) + "\n"


def _row(case: Case, side: Side, found: Mapping[tuple[str, str], Measured]) -> str:
    entry = found.get((case.name, side.name))
    if entry is None:
        why = side.no_hello if case.name == HELLO else "not asked"
        return f"| {case.title} | {side.name} | not run: {why} | | | | |"
    if not entry.rounds:
        return f"| {case.title} | {side.name} | not run: {one_line(entry.why)} | | | | |"
    values = sorted(case.value(seconds) for seconds in entry.rounds.values())
    ours = found.get((case.name, LOCAL if side.against and case.name == HELLO else side.against))
    faster = ratio(ours.rounds, entry.rounds) if ours is not None else None
    told = [
        case.title,
        side.name,
        f"{number(statistics.median(values))} {case.unit}",
        f"{number(values[0])}–{number(values[-1])}",
        str(len(values)),
        "" if faster is None else str(faster),
        f"{number(entry.memory_mb)} MB" if entry.memory_mb else "",
    ]
    return "| " + " | ".join(told) + " |"


def sides_table(outcome: Outcome, sides: Sequence[Side]) -> str:
    """Return the table of the compared engines: version, stored data, form of the work; or the reason why one was not run."""
    rows = ["| engine | version | what it keeps | what the work is | compared with |", "|---|---|---|---|---|"]
    for side in sides:
        if side.name in outcome.not_run:
            rows.append(f"| {side.name} | not run: {one_line(outcome.not_run[side.name])} | | | |")
        else:
            version = outcome.about.get(side.name, {}).get("version", "")
            rows.append(f"| {side.name} | {version} | {side.kept} | {side.work} | {side.against} |")
    return "\n".join(rows) + "\n"


def one_line(text: str) -> str:
    """Fit for a cell."""
    return " ".join(text.replace("|", "/").split())[:200]


def head(times: int, began: datetime, load: float) -> str:
    """Return the line that states date, machine and number of rounds."""
    return (
        f"Measured on {began:%Y-%m-%d} with `make peers`: {platform.system()} {platform.machine()}, {os.cpu_count()} processors, "
        f"Python {platform.python_version()}, load {load:.1f} at the beginning; {times} rounds after one for warming up.\n"
    )


def page(outcome: Outcome, sides: Sequence[Side], cases: Sequence[Case], times: int, began: datetime, load: float) -> str:
    """The text between the marks in docs/performance.md."""
    parts = (head(times, began, load), figures_table(outcome, sides, cases), sides_table(outcome, sides))
    return "\n" + "\n".join(parts) + "\n"


def as_json(outcome: Outcome, began: datetime, load: float) -> dict[str, Any]:
    """Everything, round by round."""
    return {
        "measured_at": began.astimezone(UTC).isoformat(timespec="seconds"),
        "machine": {"python": platform.python_version(), "cpus": os.cpu_count(), "load": load, "system": platform.system()},
        **asdict(outcome),
    }
