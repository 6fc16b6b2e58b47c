"""Measures loops of many chunks of one item: the cost of a decision inside such a loop, the size of its state, and the time until
a place in it is visible. `python bench/chunks.py [--chunks 100000]`, or `python bench/run.py --only chunks`.

No worker takes part: boundaries as workers write them are routed one by one, on a store on disk.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figure, print_table
from playbooks import written

from noetl_core.control.admit import StartRequest
from noetl_core.control.core import Control
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.engine.decide import decide
from noetl_core.engine.records import Boundary, Commit, StreamId, Tally
from noetl_core.engine.redrive.plan import From, Redrive
from noetl_core.engine.snapshots import restore, snapshot
from noetl_core.events import runs
from noetl_core.events.event import new
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from noetl_core.views.history import event_pages

SIZES = (1_000, 10_000, 100_000)
WINDOW = 100
SEEK_MS = 300
DECIDE_US = 1_000
EVERY = event_pages.Filter()


def loop(chunks: int) -> str:
    """A distributed loop of one item a chunk."""
    policy = {"exec": "distributed", "failure": {"mode": "best_effort"}}
    spec = {"mode": "parallel", "max_in_flight": WINDOW, "chunk_size": 1, "policy": policy}
    items = {"in": f"{{{{ range({chunks}) | list }}}}", "iterator": "n", "spec": spec}
    return written(f"chunks_{chunks}", {"workflow": [{"step": "items", "loop": items, "tool": {"kind": "noop"}}]})


class Routed:
    """An execution whose loop is handed over, and whose chunks end when told."""

    def __init__(self, store: Path, chunks: int, execution_id: str | None = None) -> None:
        self.chunks, self.local, self.chance = chunks, LocalWiring(store), Random(7)
        if execution_id is not None:
            self.execution_id = execution_id
            return
        self.execution_id = self.local.start(StartRequest(playbook=loop(chunks))).execution_id
        (lead,) = self.state.runs
        plan = {"total": chunks, "chunk_size": 1, "chunks": chunks, "window": WINDOW, "per_chunk": 1}
        self._end(lead, new(runs.StepSuspended, self.control.clock.now(), waits=[], loop=plan, events=2))

    @property
    def control(self) -> Control:
        return self.local.control

    @property
    def state(self) -> Any:
        return self.control.latest(self.execution_id)

    def _end(self, run: str, event: Any) -> None:
        now = self.control.clock.now()
        stream = StreamId(self.execution_id, run)
        begun = new(runs.StepStarted, now, step="items", worker="w", as_of=0)
        for seq, one in enumerate((begun, event)):
            self.control.store.append(Commit(stream, seq, now, self.control.clock.nonce(), (one,), tally=Tally(seq + 1)))
        self.control.route(self.execution_id, [Boundary(run, 1, event)])

    def boundary(self, run: str, index: int) -> Boundary:
        """Return the boundary of a chunk. One in a thousand fails."""
        bad = int(index % 1_000 == 617)
        aggregates = {
            "us": {"12": 1},
            "total_us": 3_000,
            "max_us": 3_000,
            "cells": {"bits": 0, "at": {str(index): [1, bad, 3_000, 3_000]}},
        }
        if bad:
            aggregates |= {
                "failed": [[index, index, 1]],
                "errors": [{"kind": "python", "message": "division by zero", "count": 1, "first": [index]}],
            }
        done: Any = {
            "total": 1,
            "succeeded": 1 - bad,
            "failed": bad,
            "result": [None if bad else index * 2],
            "events": 2,
            "aggregates": aggregates,
        }
        return Boundary(run, 1, new(runs.LoopChunkDone, self.control.clock.now(), **done))

    def advance(self, ends: int) -> None:
        """Let `ends` open chunks end, whichever."""
        for _ in range(ends):
            chunks = [run for run in self.state.runs.values() if run.chunk is not None]
            run = self.chance.choice(chunks)
            self._end(run.id, self.boundary(run.id, run.chunk).event)


def measured(chunks: int, times: int) -> list[Figure]:
    """Figures of one size; the log ends shortly before the loop does."""
    with tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder:
        store = Path(folder) / "runs.db"
        routed = Routed(store, chunks)
        try:
            began = time.process_time()
            routed.advance(chunks - WINDOW // 2 - 1)
            whole = (time.process_time() - began) / chunks * 1e6
            out = _state(routed, whole, times)
        finally:
            routed.local.close()
        out += _places(store, routed.execution_id, chunks, times)
        again = Routed(store, chunks, routed.execution_id)
        try:
            return out + _redriven(again)
        finally:
            again.local.close()


def _redriven(routed: Routed) -> list[Figure]:
    """The last chunks end, and the execution with them; then one iteration runs again, while the others are kept."""
    name = f"{routed.chunks:,} chunks"
    while sum(run.chunk is not None for run in routed.state.runs.values()) > 1:
        routed.advance(1)
    began = time.process_time()
    routed.advance(1)
    closed = (time.process_time() - began) * 1e3
    began = time.process_time()
    redrive(routed.control, routed.execution_id, Redrive(From.parse("items@617"), {}, {}))
    planned = (time.process_time() - began) * 1e3
    text = json.dumps(snapshot(routed.state).state, separators=(",", ":"))
    began = time.process_time()
    routed.advance(1)
    decided = (time.process_time() - began) * 1e3
    assert routed.control.load(routed.execution_id).finished
    return [
        Figure(f"  the end of the loop decided, {name}", "ms", (closed,), note="processor time"),
        Figure(f"  one iteration redriven, {name}", "ms", (planned,), note="processor time"),
        Figure(f"  its end routed, {name}", "ms", (decided,), note="processor time"),
        Figure(f"  snapshot of the state meanwhile, {name}", "KB", (len(text) / 1024,), note="as JSON"),
    ]


def _state(routed: Routed, whole: float, times: int) -> list[Figure]:
    control, id, name = routed.control, routed.execution_id, f"{routed.chunks:,} chunks"
    kept = snapshot(control.load(id))
    text = json.dumps(kept.state, separators=(",", ":"))
    gc.collect()
    tracemalloc.start()
    state = control.load(id)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    playbook, decided = control.playbook(state.digest), []
    for _ in range(max(times, 20)):
        run = next(run for run in state.runs.values() if run.chunk is not None)
        end = routed.boundary(run.id, run.chunk)
        values: Any = {("boundary", end.run_id, end.seq): end.event.data}
        began = time.process_time()
        decision = decide(playbook, state, [end], [], control.clock.now(), values)
        decided.append((time.process_time() - began) * 1e6)
        assert decision.events
        state = decision.state
    loaded = []
    for _ in range(times):
        began = time.process_time()
        restore(replace(kept, state=json.loads(text)))
        loaded.append((time.process_time() - began) * 1e3)
    return [
        Figure(f"a chunk's end routed and committed, mean, {name}", "us", (whole,), note="processor time"),
        Figure(f"  one decision at the end of the loop, {name}", "us", tuple(decided), DECIDE_US, note="processor time"),
        Figure(f"  snapshot of the state, {name}", "KB", (len(text) / 1024,), note="as JSON"),
        Figure(f"  loading it, {name}", "ms", tuple(loaded), note="processor time, without the store"),
        Figure(f"  the state in memory, {name}", "MB", (held / 2**20,)),
    ]


def _places(store: Path, execution_id: str, chunks: int, times: int) -> list[Figure]:
    local = LocalWiring(store)
    try:
        count, chance = local.control.load(execution_id).events, Random(11)
        places = [chance.randrange(count // 20, count) for _ in range(times)]
        ids = [
            event_pages.page(local.control, execution_id, b"key", EVERY, at=str(p), limit=1).events[0]["event_id"] for p in places
        ]
    finally:
        local.close()
    name = f"{chunks:,} chunks"
    return [
        Figure(
            f"  {title}, {name}", "ms", tuple(_fresh_ms(store, execution_id, ask) for ask in asks), SEEK_MS, note="processor time"
        )
        for title, asks in (
            (
                "reading the state just after an event",
                [lambda c, event=event: executions.state_at(c, execution_id, event) for event in ids],
            ),
            (
                "events from a number",
                [lambda c, p=p: event_pages.page(c, execution_id, b"key", EVERY, at=str(p), limit=100) for p in places],
            ),
            ("the state now", [lambda c: c.load(execution_id)] * times),
        )
    ]


def _fresh_ms(store: Path, execution_id: str, ask: Any) -> float:
    """Milliseconds of processor for one question to a control plane that has read nothing of the log before."""
    local = LocalWiring(store)
    try:
        local.control.playbook(local.index.head(execution_id).digest)
        began = time.process_time()
        ask(local.control)
        return (time.process_time() - began) * 1e3
    finally:
        local.close()


def figures(times: int, sizes: Sequence[int] = SIZES) -> list[Figure]:
    """All figures; some minutes."""
    return [figure for chunks in sizes for figure in measured(chunks, times)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, action="append")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    print_table("Loops of many chunks (local store)", figures(options.times, options.chunks or SIZES))


if __name__ == "__main__":
    main()
