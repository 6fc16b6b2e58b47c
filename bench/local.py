"""The local runner's figures: durable SQLite file, one process, each sample on a fresh store."""

from __future__ import annotations

import cProfile
import gc
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from figures import Figure, repeat
from playbooks import chain, map_over, python, python_of_its_own

from noetl_cli.main import YOUNG_OBJECTS
from noetl_core.control.admit import StartRequest
from noetl_core.control.fence import boundary_of
from noetl_core.engine.decide import decide
from noetl_core.engine.fold.control_stream import fold_commits
from noetl_core.engine.records import StreamId
from noetl_core.engine.state import State
from noetl_core.runtime.local import LocalWiring

Durable = Literal["process", "power"]
ROOT = Path(__file__).parents[1]
NOETL = Path(sys.executable).parent / "noetl"


@contextmanager
def wiring(durable: Durable = "process") -> Iterator[LocalWiring]:
    """A fresh durable store, as `noetl run` keeps it."""
    with tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder:
        local = LocalWiring(Path(folder) / "log.sqlite", durable)
        try:
            yield local
        finally:
            local.close()


def timed_run(source: str, executions: int = 1, durable: Durable = "process") -> float:
    """Seconds from the first request until all have completed."""
    with wiring(durable) as local:
        began = time.perf_counter()
        started = [local.start(StartRequest(playbook=source)).execution_id for _ in range(executions)]
        local.run(*started)
        seconds = time.perf_counter() - began
        states = {local.control.load(execution_id).status for execution_id in started}
    if states != {"completed"}:
        raise RuntimeError(f"the measured playbook ended {states}")
    return seconds


def process_seconds(*arguments: str) -> float:
    """Wall time of one `noetl` process."""
    began = time.perf_counter()
    subprocess.run([NOETL, *arguments], check=True, capture_output=True, cwd=ROOT)
    return time.perf_counter() - began


def peak_kb() -> int:
    """Return the peak memory of this process. Reads Linux's own high-water mark where there is one: `ru_maxrss` starts at the
    parent's size after a fork."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size // 1024 if sys.platform == "darwin" else size


def print_profile() -> None:
    """The functions in which the two step figures spend their own time."""
    for title, source, executions in (("chain of 50", chain(50), 1), ("100 runs of 5 steps", chain(5), 100)):
        profile = cProfile.Profile()
        profile.runcall(timed_run, source, executions)
        print(f"\n{title}, by own time")
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)


def figures(times: int) -> list[Figure]:
    """All local figures; about half a minute with `times` 5."""
    gc.set_threshold(YOUNG_OBJECTS)  # as in `noetl run`
    timed_run(chain(5))  # imports and compiles

    def per_step(what: str, source: str, budget: float, note: str = "", **settings: Any) -> Figure:
        return Figure(
            f"chain of 50, per {what}", "ms", repeat(times, lambda: timed_run(source, **settings) / 50 * 1e3), budget, note=note
        )

    out = [
        per_step("durable step", chain(50), 0.3),
        per_step("step that survives a power cut", chain(50), 1.0, "synced", durable="power"),
        per_step("python step", chain(50, python), 1.0, "includes the start of Python"),
        per_step("python step with code of its own", chain(50, python_of_its_own), 3.0, "a process for each"),
        Figure(
            "map of 1,000 noop items", "items/s", repeat(times, lambda: 1000 / timed_run(map_over(1000, "noop"))), 4500, "higher"
        ),
        Figure(
            "map of 1,000 python items",
            "items/s",
            repeat(times, lambda: 1000 / timed_run(map_over(1000, "python"))),
            2000,
            "higher",
        ),
        Figure("map of 5,000 python items", "s", repeat(times, lambda: timed_run(map_over(5000, "python"))), 0.5),
        Figure(
            "100 concurrent runs of 5 steps", "steps/s", repeat(times, lambda: 500 / timed_run(chain(5), 100)), 3500, "higher"
        ),
        Figure(
            "hello-world: process start to result",
            "s",
            repeat(times, lambda: process_seconds("run", "examples/hello/playbook.yaml", "--output", "json")),
            0.25,
        ),
    ]
    out.append(Figure("a routing decision", "ms", repeat(times, _decision_ms), 0.5, note="pure: boundary in, commit out"))
    return out


def _decision_ms() -> float:
    """One `decide` in the middle of a chain of 50, on a state folded for it."""
    with wiring() as local:
        execution_id = local.start(StartRequest(playbook=chain(50))).execution_id
        local.run(execution_id)
        commits = local.store.read(StreamId(execution_id))[:25]
        state = fold_commits(State(execution_id), commits)
        (run,) = state.runs.values()
        last = local.store.last(StreamId(execution_id, run.id))
        playbook = local.control.playbook(state.digest)
    assert last is not None
    boundary = boundary_of(last)
    assert boundary is not None
    values = {("boundary", boundary.run_id, boundary.seq): boundary.event.data}
    spent = 0.0
    for _ in range(200):
        state = fold_commits(State(execution_id), commits)
        began = time.perf_counter()
        decide(playbook, state, [boundary], [], last.ts, values)
        spent += time.perf_counter() - began
    return spent / 200 * 1e3
