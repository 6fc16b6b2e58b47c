"""Timeline and cost of a long execution read a bounded number of commits, however long its log is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.control.cached_states import SNAPSHOT_EVERY
from noetl_core.engine.fold.ended_runs import MOST
from noetl_core.observe.cost import Meter
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.explain import cost as metering
from noetl_core.views.explain import timelines
from noetl_core.views.reading.cursor import history
from tests.unit.control.decode_counts import Decoded
from tests.unit.control.long_playbooks import LAPS, WITH_START, laps
from tests.unit.control.workflows import source


@pytest.fixture(scope="module")
def long() -> Iterator[tuple[LocalWiring, str]]:
    local = LocalWiring()
    execution_id = local.start(StartRequest(playbook=source(laps()))).execution_id
    assert local.run(execution_id)
    state = local.control.load(execution_id)
    assert (state.status, state.steps["b"].runs) == ("completed", LAPS), state.failure
    yield local, execution_id
    local.close()


@pytest.fixture
def get(long: tuple[LocalWiring, str], monkeypatch: pytest.MonkeyPatch) -> Decoded:
    return Decoded(*long, monkeypatch)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("query", [{"rows": "500"}, {"rows": "2000"}, {"step": "a"}, {"begin": "0"}, {"end": "9999999"}])
def test_a_timeline_of_a_long_execution_reads_no_more_than_its_bound(get: Decoded, query: dict[str, str]) -> None:
    line = get("timeline", **query)
    assert get.count <= timelines.READ + 200
    assert get.bytes < 60_000
    assert line["rows"]["total"] == (LAPS if "step" in query else WITH_START)
    assert line["rows"]["shown"] <= 2 * MOST


def test_a_bounded_timeline_keeps_failed_and_slowest_runs_and_counts_the_others(get: Decoded) -> None:
    line = get("timeline", rows="500")
    failed = [span for span in line["spans"] if span["status"] == "error"]
    assert [span["step"] for span in failed] == ["b"]
    slow = [span for span in line["spans"] if span["duration_ms"] > 400]
    assert "a" in {span["step"] for span in slow}
    assert line["rows"]["kept"] == MOST + 1
    cells = line["ended"]["cells"]
    assert sum(ended for _, ended, *_ in cells) == WITH_START
    assert sum(failed for _, _, failed, *_ in cells) == 1
    assert max(longest for *_, longest in cells) == max(span["duration_ms"] for span in slow)
    assert len(cells) <= 128


def test_a_time_range_of_the_timeline_has_every_run(get: Decoded) -> None:
    slow = max(get("timeline", rows="500")["spans"], key=lambda span: span["duration_ms"])
    begin, end = slow["offset_ms"], slow["offset_ms"] + slow["duration_ms"]
    line = get("timeline", begin=str(int(begin)), end=str(int(end)))
    assert "kept" not in line["rows"]
    assert get.count <= timelines.READ + 400
    runs = {span["step_run_id"] for span in line["spans"] if span["kind"] == "run"}
    assert slow["step_run_id"] in runs
    assert line["rows"] == {"total": len(runs), "shown": len(runs)}
    assert {"attempt", "task"} <= {span["kind"] for span in line["spans"]}


def test_cost_reads_a_sample_and_says_so(get: Decoded, long: tuple[LocalWiring, str]) -> None:
    cost = get("cost")
    assert get.count <= metering.READ + 200
    local, execution_id = long
    exact = Meter(execution_id)
    exact.observe(history(local.store, execution_id))
    whole = exact.as_dict()
    assert cost["estimated"]["commits"] > cost["estimated"]["read"] > 0
    assert {name: step["runs"] for name, step in cost["steps"].items()} == {
        name: step["runs"] for name, step in whole["steps"].items()
    }
    assert cost["total"]["cost"] == pytest.approx(whole["total"]["cost"], rel=0.1)
    for unit in ("dynamodb_write_units", "sqs_requests", "lambda_invocations"):
        assert cost["total"]["units"][unit] == pytest.approx(whole["total"]["units"][unit], rel=0.05), unit
    assert cost["steps"]["b"]["cost"] == pytest.approx(whole["steps"]["b"]["cost"], rel=0.2)


@pytest.mark.nightly
def test_a_log_with_older_snapshots_is_counted_from_its_beginning(long: tuple[LocalWiring, str], get: Decoded) -> None:
    """Snapshots of the previous reducer have no counts: other views continue from them, these two fold the whole log."""
    local, execution_id = long
    expected = {view: get(view) for view in ("timeline", "cost")}
    for (seq,) in local.database.rows("SELECT seq FROM snapshots WHERE execution_id=?", (execution_id,)):
        kept = local.store.load_snapshot(execution_id, seq)
        assert kept is not None and kept.seq == seq
        state: dict[str, Any] = {key: value for key, value in kept.state.items() if key != "ended"}
        counts = ("opened", "commits")
        state["steps"] = {n: {k: v for k, v in s.items() if k not in counts} for n, s in state["steps"].items()}
        state["runs"] = {n: {k: v for k, v in r.items() if k != "began_at"} for n, r in state["runs"].items()}
        local.store.save_snapshot(replace(kept, reducer=8, state=state))
        assert local.store.load_snapshot(execution_id, seq) == replace(kept, reducer=8, state=state)
    get("state")
    assert get.count <= 2 * SNAPSHOT_EVERY
    assert local.control.load(execution_id).ended.since > 0
    assert {view: get(view) for view in expected} == expected
    assert get.count > 2 * LAPS
