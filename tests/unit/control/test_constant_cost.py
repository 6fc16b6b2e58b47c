"""The cost of one more step or chunk does not grow with the history."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.control.cached_states import LARGE_STATE, RULE, SNAPSHOT_EVERY, CachedStates, SnapshotRule
from noetl_core.control.core import MAX_ROUNDS
from noetl_core.engine.records import Commit, Snapshot, StreamId
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.history import pages
from tests.running import events_of, page_of_events
from tests.unit.control.api_client import hurry

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"


def _source(*workflow: dict[str, Any], result: Any = None) -> str:
    executor = "" if result is None else f"executor: {json.dumps({'spec': {'result': result}})}\n"
    return f"{HEAD}{executor}workflow: {json.dumps(workflow)}\n"


@contextmanager
def _run(source: str, rule: SnapshotRule = RULE) -> Iterator[tuple[LocalWiring, Any, Counter[str]]]:
    """A finished run: its wiring, its state, and how often the control plane read and kept what."""
    local = LocalWiring()
    local.control.states.rule = rule
    counts: Counter[str] = Counter()
    read, save = local.store.read, local.store.save_snapshot

    def counted_read(stream: StreamId, after: int = -1, limit: int | None = None) -> Any:
        counts["folds" if stream.run_id is None else "values"] += 1
        return read(stream, after, limit)

    def counted_save(snapshot: Snapshot) -> int:
        counts["snapshots"] += 1
        return save(snapshot)

    local.store.read, local.store.save_snapshot = counted_read, counted_save  # type: ignore[method-assign]
    try:
        execution_id = local.start(StartRequest(playbook=source)).execution_id
        local.run(execution_id)
        counted = Counter(counts)
        yield local, local.control.load(execution_id), counted
    finally:
        local.close()


def _chain(steps: int, **more: Any) -> list[dict[str, Any]]:
    def step(i: int) -> dict[str, Any]:
        arcs = [{"step": f"s{i + 1}", **more}] if i + 1 < steps else []
        return {"step": f"s{i}", "tool": {"kind": "noop", "result": i}, "next": {"arcs": arcs}}

    return [step(i) for i in range(steps)]


@pytest.mark.parametrize("steps", [20, 320])
def test_a_plain_step_reads_nothing_and_keeps_a_snapshot_now_and_then(steps: int) -> None:
    with _run(_source(*_chain(steps))) as (_, state, counts):
        assert state.status == "completed"
        assert counts["folds"] <= 2 and counts["values"] == 0
        assert counts["snapshots"] <= steps // 100


@pytest.mark.nightly
def test_a_router_that_starts_anew_keeps_no_snapshot_before_the_log_has_outgrown_the_last_one() -> None:
    """Each routing is the first of a process, as on Lambda after a pause."""
    local = LocalWiring()

    def forget(commit: Commit) -> None:
        if commit.stream.run_id is not None:
            local.control.states = CachedStates(local.store)

    local.observe(forget)
    try:
        execution_id = local.start(StartRequest(playbook=_source(*_chain(320)))).execution_id
        local.run(execution_id)
        assert local.control.load(execution_id).status == "completed"
        saved = [seq for (seq,) in local.database.rows("SELECT seq FROM snapshots ORDER BY seq")]
        assert 2 <= len(saved) <= 3 and all(later - earlier >= SNAPSHOT_EVERY for earlier, later in pairwise(saved))
        kept, log = (
            local.database.rows(f"SELECT sum(length({column})) FROM {table}")[0][0]
            for table, column in (("snapshots", "state"), ("commits", "body"))
        )
        assert kept < log / 2
    finally:
        local.close()


def test_a_guard_that_reads_an_earlier_result_costs_no_fold() -> None:
    with _run(_source(*_chain(30, when="{{ steps.s0.result == 0 and event.result >= 0 }}"))) as (_, state, counts):
        assert state.status == "completed" and len(state.steps) == 30
        assert counts["folds"] <= 2


def test_the_results_that_the_executions_result_reads_are_fetched_in_one_round() -> None:
    result = {f"r{i}": f"{{{{ steps.s{i}.result }}}}" for i in range(20)}
    with _run(_source(*_chain(20), result=result)) as (_, state, counts):
        assert state.result == {"value": {f"r{i}": i for i in range(20)}}
        assert counts["folds"] <= 3


def _distributed(items: int, chunk_size: int, **task: Any) -> dict[str, Any]:
    policy: dict[str, Any] = {"exec": "distributed"}
    if "set_ctx" in task:
        policy["reducers"] = {"sum": "sum"}
    spec = {"mode": "parallel", "max_in_flight": 4, "chunk_size": chunk_size, "policy": policy}
    loop = {"in": f"{{{{ range({items}) | list }}}}", "iterator": "n", "spec": spec}
    return {"step": "map", "loop": loop, "tool": [{"name": "t", "kind": "noop", "result": "{{ 'x' * 100 }}", **task}]}


def test_a_large_result_of_a_distributed_loop_can_be_read_where_the_loop_ends() -> None:
    step = _distributed(200, 50)
    step["next"] = {"arcs": [{"step": "end", "when": "{{ event.result[199] | length == 100 }}"}]}
    end = {"step": "end", "tool": {"kind": "noop"}}
    with _run(_source(step, end, result="{{ steps.map.result | length }}")) as (_, state, _):
        assert state.status == "completed" and state.steps["end"].runs == 1
        assert state.result == {"value": 200}


@pytest.mark.nightly
def test_more_chunks_write_ctx_than_a_routing_has_rounds() -> None:
    chunks = MAX_ROUNDS + 10
    with _run(_source(_distributed(chunks, 1, set_ctx={"sum": "{{ iter.n }}"}))) as (_, state, _):
        assert state.status == "completed"
        assert state.ctx == {"sum": sum(range(chunks))}


def test_a_page_that_takes_too_long_stops_early_and_can_continue() -> None:
    with _run(_source(*_chain(100))) as (local, state, _):
        whole, _ = events_of(local.control, state.execution_id)
        hurry(local.control, pages.BUSY_S + 1)
        found: list[Any] = []
        asked, cursor, more = 0, None, True
        while more:
            page, cursor, more = page_of_events(
                local.control, state.execution_id, name="StepDone", after=cursor, limit=1_000, key=b"k"
            )
            found, asked = found + page, asked + 1
        assert found == [e for e in whole if e["name"] == "StepDone"] and len(found) == 100
        assert asked > 2 and cursor is None


@pytest.mark.one_in(2)
@pytest.mark.parametrize("large", [20_000, LARGE_STATE])
def test_an_execution_with_a_large_state_ends_with_a_snapshot(large: int) -> None:
    """Later readers load only the remaining state, not all chunks of its loop."""
    spec = {"mode": "parallel", "max_in_flight": 4, "policy": {"exec": "distributed", "chunk_size": 1}}
    tool = {"kind": "noop", "result": "{{ 'x' * 300 }}"}
    with _run(
        _source({"step": "map", "loop": {"in": "{{ range(150) | list }}", "iterator": "n", "spec": spec}, "tool": tool}),
        SnapshotRule(large=large),
    ) as (
        local,
        state,
        _,
    ):
        found = local.store.load_snapshot(state.execution_id)
        assert found is not None
        assert (found.seq == state.seq, found.size < large) == (large == 20_000, True)
        before = local.store.load_snapshot(state.execution_id, state.seq - 1)
        assert before is not None and before.size > 20_000
