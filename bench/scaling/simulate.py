"""`python -m bench.scaling.simulate SHARE [ITEMS]`: the simulator with the services' limits in force, for docs/scaling.md.

The real engine - admission, worker, router, sweeper - under 10,000 starts a second for a virtual minute, at a share of the load
and of everything that is wide (partitions, pollers, invocations, the API's rate); what one partition takes and what a call
lasts stay what they are. SHARE 1 is all of it. Then one loop of a million iterations, whole. Writes charts and a table.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.figures import write_between
from bench.scaling.plot import chart
from bench.scaling.tables import PAGE, marks
from tests.sim.limited_ports import Limits
from tests.sim.limits_world import LimitedWorld

CHARTS = PAGE.parent / "scaling"
RATE, SECONDS = 10_000, 60
TASK_S, ITERATION_S = 0.005, 0.005
ONE = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: one, path: scaling/one}
workflow:
  - {step: start, tool: {kind: noop}}
"""
LOOP = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: loop, path: scaling/loop}
workflow:
  - {step: make, tool: {kind: noop}, next: {arcs: [{step: each}]}}
  - step: each
    loop:
      in: "{{ steps.make.result }}"
      iterator: n
      spec: {mode: parallel, max_in_flight: 1000, chunk_size: 1000, policy: {exec: distributed}}
    tool: {kind: noop, result: "{{ iter.n }}"}
"""
HEAD = (
    "load",
    "asked for",
    "ended",
    "tasks called",
    "writes refused",
    "requests repeated",
    "splits",
    "most commands waiting",
    "longest lag",
    "last end",
)
RAISED = Limits(log_partitions=16)
BY_DEFAULT = replace(RAISED, index_partitions=8, worker_concurrency=50, stream_parallel=4)


@dataclass(frozen=True, slots=True)
class Case:
    """A load and the world that it meets."""

    name: str
    title: str
    asked: int
    tasks: int
    make: Callable[[], LimitedWorld]


def started(limits: Limits, share: float) -> LimitedWorld:
    """A virtual minute of starts."""
    world = LimitedWorld(limits.share(share), ONE, task_s=TASK_S)
    world.start_many(round(RATE * share), SECONDS)
    return world


def looped(items: int) -> LimitedWorld:
    """Run one execution of `items` iterations."""
    world = LimitedWorld(RAISED, LOOP, task_s=ITERATION_S, whole_every=1 << 70)
    world.items = items
    world.start_many(1, 1)
    return world


def cases(share: float, items: int) -> list[Case]:
    many = round(RATE * share) * SECONDS
    part = "" if share == 1 else f", {share:g} of the scale"
    return [
        Case("raised", f"10,000 starts/s for a minute, parameters raised{part}", many, many, lambda: started(RAISED, share)),
        Case(
            "default", f"the same load, default parameters except ApiRate{part}", many, many, lambda: started(BY_DEFAULT, share)
        ),
        Case("loop", f"one loop of {items:,} iterations of 5 ms", 1, items + 1, lambda: looped(items)),
    ]


def run(case: Case, charts: Path = CHARTS) -> str:
    """Run a case, write its charts, and return its row of the table."""
    world = case.make()
    cpu = time.process_time()
    world.run(limit_s=4 * 3600)
    cpu = time.process_time() - cpu
    called = world.checked["tasks called"] == case.tasks
    if world.asked or world.checked["completed"] != case.asked or not called or world.stream.disorder:
        raise SystemExit(f"{case.name}: {len(world.asked)} of {case.asked} did not end: {world.checked}, {world.stream.disorder}")
    _draw(case, world, charts)
    ended = max(world.seen.ended)
    row = (
        f"{case.name}: {case.title}",
        f"{case.asked:,}",
        f"{world.checked['completed']:,}",
        f"{world.checked['tasks called']:,}",
        f"{sum(world.throughput.refused.values()):,}",
        f"{sum(world.tried_again.values()):,}",
        f"{world.stream.splits}",
        f"{max(world.seen.waiting.values()):,}",
        f"{max(world.stream.lags.values()):.1f} s",
        f"{ended:,} s",
    )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{case.name}: {cpu:.0f} s of processor time, {memory} MB, units {world.store.units:,}", flush=True)
    print(f"  refused {dict(world.throughput.refused)}, gave up {world.throughput.gave_up}, again {dict(world.tried_again)}")
    print(f"  {world.swept}, {dict(world.checked)}, partitions {len(world.partitions.names)}", flush=True)
    return "| " + " | ".join(row) + " |"


def _draw(case: Case, world: LimitedWorld, charts: Path) -> None:
    charts.mkdir(exist_ok=True)
    seen = world.seen
    began = world.began // 1_000_000
    lags = {second - began: lag for second, lag in world.stream.lags.items()}
    rates = {"admitted": seen.admitted, "ended": seen.ended}
    (charts / f"{case.name}-rates.svg").write_text(chart(case.title, "executions/s", rates))
    backlog = {"commands in the queue or running": seen.waiting, "boundaries not routed": seen.unrouted}
    (charts / f"{case.name}-backlog.svg").write_text(chart(case.title, "waiting", backlog))
    (charts / f"{case.name}-lag.svg").write_text(chart(case.title, "s from commit to routed", {"longest": lags}))


def main(share: float, items: int, only: list[str]) -> None:
    """Run the cases, or those of `only`, and put their rows into the page's table."""
    for case in cases(share, items):
        if not only or case.name in only:
            row = run(case)
            print(row, flush=True)
            write_row(case.name, row, PAGE)


def write_row(name: str, row: str, page: Path) -> None:
    """Put the row of a case into the table of `page`, in place of the one that is there."""
    first, last = marks("simulated")
    there = page.read_text().partition(first)[2].partition(last)[0].splitlines()[2:]
    names = [case.name for case in cases(1, 1)]
    rows = {_name_of(line, names): line for line in there} | {name: row}
    head = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    write_between((first, last), "\n".join([*head, *(rows[one] for one in names if one in rows)]) + "\n", page)


def _name_of(row: str, names: list[str]) -> str:
    return next((name for name in names if row.startswith(f"| {name}: ")), "")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000, sys.argv[3:])
