"""The state of a run's stream, and the parts that a redriven run carries over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from noetl_core.engine.records import AnyEvent, Commit, Event, StreamId
from noetl_core.events.redrives import Rerun
from noetl_core.expr import LOST, MASK, Secret
from noetl_core.log.carry_over import carried_over
from noetl_core.log.run_history import RunHistory, fold_run_history
from noetl_core.ports import EventStore


def _events(*events: tuple[str, dict[str, Any]]) -> tuple[AnyEvent, ...]:
    return cast("tuple[AnyEvent, ...]", tuple(Event(name, n, data) for n, (name, data) in enumerate(events)))


def _task(name: str, path: Sequence[int] = (), do: str = "continue", **more: Any) -> tuple[str, dict[str, Any]]:
    outcome = {"status": "error" if do in ("fail", "retry") else "ok"}
    data = {"task": name, "run": f"{name}{list(path)}", "visit": 1, "attempt": 1, "outcome": outcome, "directive": {"do": do}}
    return "TaskProcessed", {**data, **({"path": list(path)} if path else {}), **more}


def _done(*path: int, status: str = "ok", **more: Any) -> tuple[str, dict[str, Any]]:
    return "LoopIterationCompleted", {"path": list(path), "status": status, **more}


def _started(**more: Any) -> tuple[str, dict[str, Any]]:
    return "StepStarted", {"worker": "w", "as_of": 3, **more}


def _history(*events: tuple[str, dict[str, Any]]) -> RunHistory:
    return fold_run_history([Commit(StreamId("1", "r"), 0, 0, "w", _events(*events))])


class Streams:
    """Run streams of one commit each."""

    def __init__(self, streams: dict[str, tuple[AnyEvent, ...]]) -> None:
        self._streams = streams

    def read(self, stream: StreamId, *, after: int = -1, limit: int | None = None) -> list[Commit]:
        assert stream.run_id is not None
        return [] if after >= 0 else [Commit(stream, 0, 0, "w", self._streams[stream.run_id])]


def _carried(streams: dict[str, tuple[AnyEvent, ...]], *runs: tuple[str, Rerun]) -> RunHistory:
    return carried_over(cast(EventStore, Streams(streams)), "1", {"runs": list(runs)})


def test_a_finished_iteration_replaces_the_history_of_its_inner_parts() -> None:
    inner = [_task("get", (0, 1)), _done(0, 1), _task("get", (0, 2)), _done(0, 2)]
    assert set(_history(*inner).finished) == {(0,)}
    history = _history(*inner, _done(0), _task("get", (1, 0)))
    assert (set(history.finished), set(history.finished[()]), set(history.tasks)) == ({()}, {0}, {(1, 0)})


def test_an_outcome_resets_the_count_of_takeovers_without_progress() -> None:
    history = _history(_started(), _started(takeover=1), _started(takeover=2), _task("a"), _started(takeover=3))
    assert (history.takeovers, history.takeovers_without_progress, history.as_of) == (3, 1, 3)


def test_a_value_masked_in_the_log_is_read_as_lost() -> None:
    history = _history(_task("a", masked=True, set_ctx={"token": MASK, "n": 1}))
    assert history.masked
    assert history.tasks[()][0].data.get("set_ctx") == {"token": Secret(LOST), "n": 1}


@pytest.mark.parametrize(
    ("rerun", "finished", "tasks"),
    [
        pytest.param({"failed": True}, {0, 2}, {}, id="what failed is forgotten"),
        pytest.param({"path": [2]}, {0, 1}, {}, id="the named iteration is forgotten"),
        pytest.param({"path": [2], "task": "put"}, {0, 1}, {(2,): ["get"]}, id="the named iteration keeps the tasks before"),
        pytest.param({"path": [], "task": "put"}, set(), {(n,): ["get"] for n in range(3)}, id="each goes on at the task"),
    ],
)
def test_a_redrive_carries_over_the_finished_iterations_of_a_loop(
    rerun: Rerun, finished: set[int], tasks: dict[tuple[int, ...], list[str]]
) -> None:
    ended = [
        _task("get", (0,)),
        _task("put", (0,)),
        _done(0),
        _task("get", (1,)),
        _task("put", (1,), "fail"),
        _done(1, status="error"),
    ]
    events = _events(*ended, _task("get", (2,)), _task("put", (2,)), _done(2))
    history = _carried({"r": events}, ("r", rerun))
    assert set(history.finished.get((), ())) == finished
    if "task" in rerun:
        assert {path: [e.data["task"] for e in events] for path, events in history.tasks.items() if events} == tasks


def test_a_redrive_drops_the_iterations_it_names_from_all_earlier_runs() -> None:
    first = _events(*(_done(n) for n in range(3)))
    history = _carried({"r": first, "s": _events(_done(1))}, ("r", {"path": [1]}), ("s", {"path": [2]}))
    assert set(history.finished[()]) == {0, 1}
