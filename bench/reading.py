"""Reading a long history: the command that prints it; pages and summaries from a process that has read nothing before."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from figures import Figure
from playbooks import chunks_of, cycle, map_over

from noetl_core.control.admit import StartRequest
from noetl_core.control.core import Control
from noetl_core.runtime.local import LocalWiring
from noetl_core.views import changes
from noetl_core.views.executions import executions
from noetl_core.views.explain import timelines
from noetl_core.views.explain.diff import diff
from noetl_core.views.explain.why import why
from noetl_core.views.history import event_pages, pages
from noetl_core.views.reading.cursor import Position
from noetl_core.views.steps.iterations import iteration, iterations
from noetl_core.views.steps.summary import step_summary

NOETL = Path(sys.executable).parent / "noetl"
SIZES = ((10_000, 1.0), (100_000, 8.0))
"""Iterations of the loop whose history is read, and the seconds that `noetl events --output json` may take."""
ROUTED = 20_000
"""Steps of the control stream whose places are read: as many as two steps may be visited."""
PAGE_MS = 50
SUMMARY_MS = 10
SEEK_MS = 300
DIFF_MS = 1_000
CHUNKS = 5_000
"""Chunks of one item each: as many commits of the control stream, and a large state while the loop is in progress."""
POLL_MS = 5
EVERY = event_pages.Filter()
FILTERS = (None, "LoopIterationCompleted", "LoopDone", "TaskRetried")
"""All events; half of a loop's; one of the control stream; none at all."""


def figures(times: int) -> list[Figure]:
    """All figures of reading; about a minute with `times` 5."""
    out: list[Figure] = []
    for items, budget in SIZES:
        with tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder:
            out += _of(items, budget, Path(folder), times)
    return out + _routed(times) + _chunked(times)


def _routed(times: int) -> list[Figure]:
    """Any place of a long control stream: medians over places drawn at random."""
    with tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder:
        store = Path(folder) / "runs.db"
        local = LocalWiring(store)
        try:
            execution_id = local.start(StartRequest(playbook=cycle(ROUTED))).execution_id
            local.run(execution_id)
            last = local.control.load(execution_id).events - 1
            chosen = Random(7)
            places = [chosen.randrange(last) for _ in range(times)]
            ids = [
                event_pages.page(local.control, execution_id, b"key", EVERY, at=str(place), limit=1).events[0]["event_id"]
                for place in places
            ]
        finally:
            local.close()
        name = f"{ROUTED:,} routed steps"
        out = []
        for title, asks in (
            ("events from a number", [_events_at(str(place)) for place in places]),
            ("events from an event", [_events_at(event) for event in ids]),
            ("reading the state just after an event", [_state_at(event) for event in ids]),
        ):
            asked = tuple(_fresh_ms(store, execution_id, ask) for ask in asks)
            out.append(Figure(f"  {name}: {title}", "ms", asked, SEEK_MS, note="processor time"))
        return out + _explained(store, execution_id, "b", ids[0], name, times)


def _chunked(times: int) -> list[Figure]:
    """Return the figures of explaining and comparing a loop of many chunks."""
    with tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder:
        store = Path(folder) / "runs.db"
        local = LocalWiring(store)
        try:
            execution_id = local.start(StartRequest(playbook=chunks_of(CHUNKS))).execution_id
            local.run(execution_id)
            middle = f"{execution_id}.control.{local.control.load(execution_id).seq // 2}.0"
        finally:
            local.close()
        return _explained(store, execution_id, "map", middle, f"{CHUNKS:,} chunks", times)


def _explained(store: Path, execution_id: str, step: str, event: str, name: str, times: int) -> list[Figure]:
    """Return the figures of explaining why an execution ended and a step ran, now and at an event; and of comparing the execution
    with itself."""
    out = []
    for title, budget_ms, ask in (
        ("why it ended as it did", SEEK_MS, why),
        ("why a step ran", SEEK_MS, lambda c, e: why(c, e, step)),
        ("why a step ran, by the decisions up to an event", SEEK_MS, lambda c, e: why(c, e, step, event)),
        ("how it differs", DIFF_MS, lambda c, e: diff(c, e, e)),
    ):
        asked = tuple(_fresh_ms(store, execution_id, ask) for _ in range(times))
        out.append(Figure(f"  {name}: {title}", "ms", asked, budget_ms, note="processor time"))
    return out


def _events_at(place: str) -> Callable[[Control, str], object]:
    return lambda control, id: event_pages.page(control, id, b"key", EVERY, at=place, limit=100)


def _state_at(event: str) -> Callable[[Control, str], object]:
    return lambda control, id: executions.state_at(control, id, event)


def _of(items: int, budget: float, home: Path, times: int) -> list[Figure]:
    store = home / "runs.db"
    local = LocalWiring(store)
    try:
        execution_id = local.start(StartRequest(playbook=map_over(items, "noop"))).execution_id
        local.run(execution_id)
    finally:
        local.close()
    name = f"a map of {items:,}"
    printed = [_printed(home, execution_id) for _ in range(times)]
    out = [
        Figure(
            f"noetl events --output json, {name}",
            "s",
            tuple(seconds for seconds, _ in printed),
            budget,
            note=f"{statistics.median(cpu for _, cpu in printed):.3g} s of processor, with the start of the process",
        )
    ]
    cursors = _cursors(store, execution_id)
    for where, after in zip(("first", "middle", "last"), cursors, strict=True):
        by_filter = [tuple(_page_ms(store, execution_id, after, wanted) for _ in range(times)) for wanted in FILTERS]
        slowest = max(by_filter, key=statistics.median)
        note = f"processor time, slowest of {len(FILTERS)} filters"
        out.append(Figure(f"  {name}: {where} page", "ms", slowest, PAGE_MS, note=note))
    for title, budget_ms, ask in (
        ("summary of the execution", SUMMARY_MS, executions.summary),
        ("summary of the step, with its iterations grouped into cells", SUMMARY_MS, _step),
        ("the first page of the iterations", PAGE_MS, lambda c, e: iterations(c, e, "map", b"key")),
        ("the failed iterations", PAGE_MS, lambda c, e: iterations(c, e, "map", b"key", status="error")),
        ("a page from the middle of the iterations", SEEK_MS, lambda c, e: iterations(c, e, "map", b"key", first=items // 2)),
        ("one iteration", SEEK_MS, lambda c, e: iteration(c, e, "map", (items * 2 // 3,))),
        ("events from the middle", SEEK_MS, lambda c, e: event_pages.page(c, e, b"key", EVERY, at=str(2 * items), limit=100)),
        ("the last events", PAGE_MS, lambda c, e: event_pages.page(c, e, b"key", EVERY, tail=100)),
        ("timeline of 500 rows", PAGE_MS, lambda c, e: timelines.timeline(c, e, rows=500)),
        ("the state in the middle", SEEK_MS, _in_the_middle(store, execution_id, 2 * items)),
        ("a poll when nothing has changed", POLL_MS, _poll(store, execution_id)),
    ):
        asked = tuple(_fresh_ms(store, execution_id, ask) for _ in range(times))
        out.append(Figure(f"  {name}: {title}", "ms", asked, budget_ms, note="processor time"))
    return out


def _printed(home: Path, execution_id: str) -> tuple[float, float]:
    """Seconds, and processor seconds, of one process that prints the whole history."""
    began, before = time.perf_counter(), os.times()
    with Path(os.devnull).open("w") as nowhere:
        subprocess.run(
            [NOETL, "events", execution_id, "--output", "json"],
            check=True,
            stdout=nowhere,
            env=os.environ | {"NOETL_HOME": str(home)},
        )
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return time.perf_counter() - began, cpu


def _cursors(store: Path, execution_id: str) -> Sequence[str | None]:
    """Cursors before the first, a middle and the last page."""
    local = LocalWiring(store)
    found: list[str | None] = [None]
    try:
        position = Position()
        reading = pages.since(local.control, execution_id, None, b"key", bounded=False)
        for number, _ in enumerate(reading.envelopes, 1):
            if number % pages.MAX_PAGE == 0:
                position = reading.position
                found.append(position.sign(execution_id, b"key"))
    finally:
        local.close()
    return found[0], found[len(found) // 2], found[-1]


def _page_ms(store: Path, execution_id: str, after: str | None, name: str | None) -> float:
    def ask(control: Control, execution_id: str) -> object:
        shown = event_pages.Filter(names=pages.event_names(name))
        return event_pages.page(control, execution_id, b"key", shown, after=after, limit=pages.MAX_PAGE)

    return _fresh_ms(store, execution_id, ask)


def _step(control: Control, execution_id: str) -> object:
    return step_summary(control, execution_id, "map", 256)


def _in_the_middle(store: Path, execution_id: str, number: int) -> Callable[[Control, str], object]:
    """Return a function that requests the state just after the event with that number."""
    local = LocalWiring(store)
    try:
        found = event_pages.page(local.control, execution_id, b"key", EVERY, at=str(number), limit=1).events
    finally:
        local.close()
    return _state_at(found[0]["event_id"])


def _poll(store: Path, execution_id: str) -> Callable[[Control, str], object]:
    """Return a function that asks for changes after the end."""
    local = LocalWiring(store)
    try:
        cursor = changes.changes(local.control, execution_id, b"key", limit=0)["cursor"]
    finally:
        local.close()
    return lambda control, id: changes.unchanged(control, id, cursor, b"key")


def _fresh_ms(store: Path, execution_id: str, ask: Callable[[Control, str], object]) -> float:
    """Milliseconds of processor for one question to a control plane that has read nothing of the log before."""
    local = LocalWiring(store)
    try:
        local.control.playbook(local.control.load(execution_id).digest)  # parsed once per process, whatever the request
        began = time.process_time()
        ask(local.control, execution_id)
        return (time.process_time() - began) * 1e3
    finally:
        local.close()
