"""A hundred thousand iterations and a loop's limit, seen from outside: exact, flat in memory, never above the limit (`make scale`)."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bench.meter import FUNCTIONS

from noetl_infra.stack import Stack
from tests.e2e.ledger import ledger
from tests.e2e.support import Api, function_processes

pytestmark = [
    pytest.mark.scale,
    pytest.mark.skipif("NOETL_E2E_ENDPOINT" in os.environ, reason="reads the memory of the embedded stack's processes"),
]

SIZES = (1_000, 10_000, 100_000)
FLAT_MB = 32
"""Megabytes that a function may hold more after a hundred times as many iterations."""
FLAT_TIME = 2.5
"""The factor by which an iteration may be slower, on a machine that others use too."""

LOOP = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: scale_{exec}, path: scale/{exec}}}
executor: {{spec: {{result: {{sum: "{{{{ ctx.sum }}}}", highest: "{{{{ ctx.highest }}}}", loop: "{{{{ steps.check.result }}}}"}}}}}}
workflow:
  - step: work
    loop:
      in: "{{{{ range({items}) | list }}}}"
      iterator: n
      spec:
        mode: parallel
        max_in_flight: 8
        policy: {{exec: {exec}, reducers: {{sum: sum, highest: max}}}}
    tool:
      - {{name: double, kind: noop, result: "{{{{ iter.n * 2 }}}}"}}
      - name: keep
        kind: noop
        result: {{n: "{{{{ iter.n }}}}", double: "{{{{ double }}}}", text: "{{{{ 'x' * 40 }}}}"}}
        set_ctx: {{sum: "{{{{ double }}}}", highest: "{{{{ iter.n }}}}"}}
    next: {{arcs: [{{step: check, args: {{loop: "{{{{ event.loop }}}}"}}}}]}}
  - step: check
    tool: {{kind: noop, result: "{{{{ args.loop }}}}"}}
"""

CALLS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: limited, path: scale/limited}
workload: {url: "", items: 1000}
workflow:
  - step: work
    loop:
      in: "{{ range(workload.items) | list }}"
      iterator: n
      spec: {mode: parallel, max_in_flight: 7, policy: {exec: distributed}}
    tool: {name: call, kind: http, method: POST, url: "{{ workload.url }}/", params: {delay: 0.3}, json: "{{ iter.n }}"}
"""


def _resident_mb(process: int) -> float:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS")), 0.0)


@contextmanager
def watched(stack: Stack) -> Iterator[dict[str, float]]:
    """The largest resident size (MB) of a process of each function, while the block runs."""
    peaks = dict.fromkeys(FUNCTIONS, 0.0)
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.25):
            for short, output in FUNCTIONS.items():
                sizes = map(_resident_mb, function_processes(stack, stack.outputs[output]))
                peaks[short] = max(peaks[short], *sizes, 0.0)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        over.set()
        thread.join()


def _events(api: Api, execution_id: str, name: str) -> list[Any]:
    """All events of a name: a page says when it looked long enough."""
    found: list[Any] = []
    path = f"/api/executions/{execution_id}/events?name={name}&limit=1000"
    after = ""
    while True:
        status, page = api.call("GET", path + after)
        assert status == 200, page
        found += page["events"]
        if not page["more"]:
            return found
        after = f"&after={page['cursor']}"


@pytest.mark.parametrize("kind", ["local", "distributed"])
def test_a_hundred_thousand_iterations_are_exact_and_flat(stack: Stack, api: Api, kind: str) -> None:
    cost: dict[int, float] = {}
    peak: dict[int, dict[str, float]] = {}
    for items in SIZES:
        with watched(stack) as peaks:
            began = time.monotonic()
            summary = api.run(LOOP.format(items=items, exec=kind), timeout_s=900)
            cost[items] = (time.monotonic() - began) / items * 1e6
        peak[items] = dict(peaks)
        sizes = ", ".join(f"{name} {mb:.0f} MB" for name, mb in peaks.items())
        sys.stderr.write(f"\n{kind}, {items:>7,} iterations: {cost[items]:6.0f} us each; peaks: {sizes}\n")
        assert summary["status"] == "completed", summary["error"]
        counts = {"total": items, "succeeded": items, "failed": 0}
        assert summary["result"] == {"sum": items * (items - 1), "highest": items - 1, "loop": counts}
        assert summary["steps"]["work"]["loop"] == counts
        assert len(_events(api, summary["execution_id"], "LoopDone")) == 1
    for name in FUNCTIONS:
        ran = [peak[n][name] for n in SIZES if peak[n][name]]  # the sweeper comes once a minute
        grown = ran[-1] - ran[0] if ran else 0
        assert grown < FLAT_MB, f"{name} holds {grown:.0f} MB more for {SIZES[-1]:,} iterations than for {SIZES[0]:,}"
    assert cost[SIZES[-1]] < FLAT_TIME * cost[SIZES[1]], cost


def test_a_loop_of_a_thousand_calls_stays_at_its_limit(api: Api, tmp_path: Path) -> None:
    """Measured by the service that is called: never more than seven at once, and seven most of the time."""
    with ledger(tmp_path / "first") as book:
        api.run(CALLS, {"url": book.url, "items": 70})  # workers start
    with ledger(tmp_path / "calls") as book:
        summary = api.run(CALLS, {"url": book.url}, timeout_s=600)
        observed, bodies = dict(book.observed), [body for _, body in book.calls()]
    sys.stderr.write(f"\ncalls that began while so many were being served: {sorted(observed.items())}\n")
    assert summary["status"] == "completed", summary["error"]
    assert sorted(bodies) == list(range(1_000))
    assert max(observed) == 7
    assert max(observed, key=lambda n: observed[n]) == 7, "the limit is not used"
