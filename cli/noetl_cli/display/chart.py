"""A timeline drawn with characters: a line for every step run, time from left to right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from noetl_cli import terminal

MARKS = {"limit": "╌", "queued": "·", "attempt": "█", "wait": "┄", "task": "▪", "iteration": "▬"}
"""The states of a run's moments in the chart."""
PAINTED = ("limit", "wait", "queued", "attempt")
"""States by precedence: if one column has several, the last in this order is drawn, so that short work in a long wait remains
visible."""
STATUS = {"ok": "✓", "error": "✗", "running": "▶"}
RUNS = ("run", "chunk", "undo")
WIDEST_NAME, NARROWEST = 32, 20


def draw(timeline: Mapping[str, Any], *, tasks: bool = False, width: int | None = None) -> Iterator[str]:
    """Return lines `name ··███┄┄┄██ ✓ 1.2 s`; with `tasks`, also a line for each task and iteration below its run."""
    spans = timeline["spans"]
    whole = max(timeline["duration_ms"], 0.001)
    shown = [s for s in spans if s["kind"] in RUNS or _waits(s) or (tasks and s["kind"] in ("task", "iteration"))]
    names = {s["id"]: _name(s) for s in shown}
    width = width or terminal.columns(100)
    left = min(WIDEST_NAME, max(width - NARROWEST - 16, 8), max((len(n) for n in names.values()), default=0))
    columns = max(NARROWEST, width - left - 16)
    under: dict[int | None, list[Mapping[str, Any]]] = {}
    for span in spans:
        under.setdefault(span["parent"], []).append(span)
    yield f"{'':{left}} 0{_seconds(whole):>{columns - 1}}"
    order = [s for s in shown if s["kind"] in ("run", "undo") or _waits(s)]
    while order:
        span = order.pop(0)
        inner = under.get(span["id"], [])
        bar = [" "] * columns
        parts = (
            sorted((p for p in inner if p["kind"] in PAINTED), key=lambda p: PAINTED.index(p["kind"]))
            if span["kind"] in RUNS
            else [span]
        )
        for part in parts or [span]:
            end = timeline["duration_ms"] if part["duration_ms"] is None else part["offset_ms"] + part["duration_ms"]
            first = min(columns - 1, int(part["offset_ms"] / whole * columns))
            last = min(columns - 1, max(first, int(end / whole * columns - 1e-9)))
            for column in range(first, last + 1):
                bar[column] = MARKS.get(part["kind"], "█")
        took = "" if span["duration_ms"] is None else f" {_seconds(span['duration_ms'])}"
        yield f"{terminal.shortened(names[span['id']], left):{left}} {''.join(bar)} {STATUS.get(span['status'], '✗')}{took}"
        order = sorted((s for s in inner if s["id"] in names), key=_first) + order
    yield f"{timeline['status']}, {timeline['lanes']} lane{'s' if timeline['lanes'] != 1 else ''} at most side by side"
    rows = timeline.get("rows")
    if rows is not None:
        yield f"{rows['shown']:,} of {rows['total']:,} runs are shown: those that failed, are open or took longest"
        yield "iterations of long loops are not shown: `noetl show ID STEP --failed` has those that failed"
    if tasks and timeline["omitted"]:
        yield f"{timeline['omitted']:,} tasks and iterations are not shown: `noetl show ID STEP --failed` has those that failed"
    limited = any(s["kind"] == "limit" for s in spans)
    yield "· queued  █ working  ┄ waiting" + ("  ╌ waiting for a place in a limit" if limited else "")


def _waits(span: Mapping[str, Any]) -> bool:
    """Return whether a span is a wait for a place in a limit, granted or not; that of a run is part of the run's line."""
    return span["kind"] == "limit" and span["parent"] is None


def _first(span: Mapping[str, Any]) -> tuple[bool, float]:
    """Return the sort key: failed tasks and iterations first, then the slowest; runs and chunks keep their order."""
    if span["kind"] in RUNS:
        return False, 0.0
    return span["status"] in ("ok", "running"), -(span["duration_ms"] or 0.0)


def _name(span: Mapping[str, Any]) -> str:
    if span["kind"] == "run":
        return str(span["step"])
    if span["kind"] == "limit":
        return str(span["step"] or span["name"])
    if span["kind"] == "undo":
        return f"undo {span['step']}"
    if span["kind"] == "chunk":
        return f"  chunk {span.get('chunk')}"
    depth = "    " if span["kind"] == "task" and span.get("iteration") else "  "
    attempt = f" ({span['attempt']})" if span.get("attempt", 1) > 1 else ""
    return f"{depth}{span['name']}{attempt}"


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.1f} ms"
