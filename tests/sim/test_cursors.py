"""Cursor loops under faults: whatever dies, every row is done, no row is claimed while it is claimed, and the log is whole."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import StreamId
from noetl_core.tools.base import ToolCall
from noetl_core.views.explain.replay import replay
from tests.properties import CRASHES_IN, some
from tests.sim import invariants
from tests.sim.cursor_table import ClaimedRow, ClaimedTable
from tests.sim.ports import Crash, Faults
from tests.sim.world import World

ROWS = 23
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: cursor, path: sim/cursor }
workflow:
  - step: start
    loop:
      cursor: { kind: postgres, auth: pg, table: items, where: "state = 'ready'", done: { state: done }, lease_s: 600 }
      iterator: row
      spec: { mode: parallel, max_in_flight: 4, frame: 5, policy: { failure: { mode: best_effort } } }
    tool: { kind: noop, result: "{{ iter.row.id }}" }
"""


def world_of(faults: Faults, work: Any = None, **more: Any) -> tuple[World, ClaimedTable]:
    table = ClaimedTable([ClaimedRow(n) for n in range(1, ROWS + 1)], work or (lambda call: Outcome.ok(call.inputs["result"])))
    world = World(faults, tool=table, **more)
    table.world = world
    return world, table


def finished_rows(world: World, execution_id: str) -> Counter[str]:
    """Return the number of successful ends of each row, by the log."""
    keys: list[str] = []
    done: Counter[str] = Counter()
    for stream, commits in world.store.streams.items():
        if stream.execution_id == execution_id and stream.run_id is not None:
            for event in (e for commit in commits for e in commit.events):
                if event.name == "LoopFrameClaimed":
                    keys += event.data["keys"]
                elif event.name == "LoopIterationCompleted" and event.data["status"] == "success":
                    done[keys[event.data["path"][0]]] += 1
    return done


@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(12), 4))
def test_every_row_is_done_once_by_the_log_under_random_faults(seed: int) -> None:
    world, table = world_of(Faults(seed=seed, crash=0.08, throttle=0.05, lost_answer=0.05, duplicate=0.2, delay=0.3))
    started = world.start(PLAYBOOK)
    state = world.run(started.execution_id)
    assert state.status == "completed"
    invariants.faults_happened(world)
    world.faults.quiet = True
    world.drain()
    invariants.check(world, started.execution_id)
    assert not replay(world.controls[0], started.execution_id).differences
    assert [row.state for row in table.rows] == ["done"] * ROWS and not table.stolen
    assert finished_rows(world, started.execution_id) == Counter({str(n): 1 for n in range(1, ROWS + 1)})


@pytest.mark.sized
@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_every_port_call_of_the_execution(after: bool) -> None:
    point = CRASHES_IN // 2 if after else 1
    while True:
        world, table = world_of(Faults(crash_at=point, crash_after=after))
        started = world.start(PLAYBOOK)
        state = world.run(started.execution_id)
        if not world.faults.seen["crash"]:
            break
        assert state.status == "completed", point
        assert [row.state for row in table.rows] == ["done"] * ROWS and not table.stolen, point
        assert finished_rows(world, started.execution_id) == Counter({str(n): 1 for n in range(1, ROWS + 1)}), point
        invariants.check(world, started.execution_id)
        point += CRASHES_IN
    assert point > 30


@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(6), 3))
def test_two_executions_claim_from_one_table(seed: int) -> None:
    """Tasks take their time, workers run at once and die: rows that a dead worker has are its successor's."""
    deaths = 0

    def work(call: ToolCall) -> Outcome:
        nonlocal deaths
        world.take(7)
        if deaths < 6 and (world.random.random() < 0.1 or (table.ran.total() == 9 and not deaths)):
            deaths += 1
            raise Crash
        return Outcome.ok(call.inputs["result"])

    world, table = world_of(Faults(seed=seed, duplicate=0.1, delay=0.2), work, concurrency=3)
    started = [world.start(PLAYBOOK, idempotency_key=f"key {n}") for n in range(2)]
    for one in started:
        assert world.run(one.execution_id).status == "completed"
    world.faults.quiet = True
    world.drain()
    done: Counter[str] = Counter()
    for one in started:
        invariants.check(world, one.execution_id)
        done += finished_rows(world, one.execution_id)
    assert [row.state for row in table.rows] == ["done"] * ROWS and not table.stolen
    assert done == Counter({str(n): 1 for n in range(1, ROWS + 1)}) and deaths


def test_the_control_stream_does_not_grow_with_the_rows() -> None:
    """Frames are in the stream of the run: the control stream has as many commits for ten times the rows."""
    lengths = []
    for factor in (1, 10):
        world, table = world_of(Faults())
        table.rows = [ClaimedRow(n) for n in range(1, ROWS * factor + 1)]
        started = world.start(PLAYBOOK)
        world.run(started.execution_id)
        assert all(row.state == "done" for row in table.rows)
        lengths.append(len(world.store.streams[StreamId(started.execution_id)]))
    assert lengths[0] == lengths[1]
