"""Summaries and histories of executions, as the API and the command line give them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl_core.api.refused import BadCursor
from noetl_core.control.admit import StartRequest
from noetl_core.engine.state import State
from noetl_core.ports import NotFound
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from noetl_core.views.reading.cursor import Position
from tests.running import events_of, run_text

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: fan, path: test/fan }
workflow:
  - step: start
    tool: { kind: noop, result: 1, spec: { policy: { rules: [{ else: { then: { do: continue, set_ctx: { seen: 1 } } } }] } } }
    next: { spec: { mode: inclusive }, arcs: [{ step: left }, { step: right }, { step: map }] }
  - step: left
    tool: { kind: noop, result: left }
  - step: right
    tool: { kind: noop, result: right }
  - step: map
    loop: { in: "{{ range(5) | list }}", iterator: n, spec: { mode: parallel } }
    tool: { kind: noop, result: "{{ iter.n }}" }
    next: { arcs: [{ step: end }] }
  - step: end
    tool: { kind: noop, result: { all: "{{ steps.map.result }}" } }
"""


@pytest.fixture
def ran() -> Iterator[tuple[LocalWiring, State]]:
    local, state = run_text(PLAYBOOK)
    yield local, state
    local.close()


def test_a_summary_has_the_fields_of_the_contract(ran: tuple[LocalWiring, State]) -> None:
    local, state = ran
    found = executions.summary(local.control, state.execution_id)
    assert found["status"] == "completed"
    assert found["result"] == {"all": [0, 1, 2, 3, 4]}
    assert found["ctx"] == {"seen": 1}
    assert found["error"] is None
    assert found["playbook"] == {"path": "test/fan", "version": 1, "digest": state.digest}
    assert found["steps"]["map"] == {
        "status": "ok",
        "runs": 1,
        "result": [0, 1, 2, 3, 4],
        "loop": {"total": 5, "succeeded": 5, "failed": 0},
    }
    assert list(found["steps"]) == ["start", "left", "right", "map", "end"]
    assert found["events"] == len(events_of(local.control, state.execution_id)[0])
    assert found["duration_ms"] >= 0
    assert found["started_at"] < found["finished_at"]


def test_a_failed_execution_names_step_and_task() -> None:
    local, state = run_text(PLAYBOOK.replace("result: right", 'result: "{{ 1 / 0 }}"'))
    found = executions.summary(local.control, state.execution_id)
    local.close()
    assert found["status"] == "failed"
    assert found["result"] is None
    assert found["error"]["kind"] == "template"
    assert found["error"]["step"] == "right"
    assert found["error"]["task"] == "right_task"
    assert found["steps"]["right"]["status"] == "error"


def test_an_unknown_execution_is_not_found(ran: tuple[LocalWiring, State]) -> None:
    with pytest.raises(NotFound, match="there is no execution 1"):
        executions.summary(ran[0].control, "1")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_pages_together_are_the_whole_history_in_order(ran: tuple[LocalWiring, State], size: int) -> None:
    local, state = ran
    whole, _ = events_of(local.control, state.execution_id)
    found: list[dict[str, Any]] = []
    after: str | None = None
    while True:
        page, after = events_of(local.control, state.execution_id, after=after, limit=size, key=b"k")
        found += page
        if after is None:
            break
    assert found == whole


def test_a_reader_that_follows_misses_nothing_and_sees_nothing_twice() -> None:
    """At every commit of a running execution, a reader takes what is new."""
    local = LocalWiring()
    one_at_a_time = threading.Lock()
    seen: list[str] = []
    cursor: str | None = None

    def look(*_: object) -> None:
        nonlocal cursor
        with one_at_a_time:
            if seen and cursor is None:
                return  # the last commits share a transaction: the first of them has shown the end
            page, cursor = events_of(local.control, started.execution_id, after=cursor, key=b"k")
            seen.extend(e["event_id"] for e in page)

    started = local.start(StartRequest(playbook=PLAYBOOK))
    local.observe(look)
    assert local.run(started.execution_id)
    local.observe(None)
    whole = [e["event_id"] for e in events_of(local.control, started.execution_id)[0]]
    local.close()
    assert sorted(seen) == sorted(whole)
    assert len(seen) == len(whole)


def test_a_cursor_stays_small_however_many_runs_have_ended(ran: tuple[LocalWiring, State]) -> None:
    local, state = ran
    _, cursor = events_of(local.control, state.execution_id, limit=40, key=b"k")
    assert cursor is not None
    assert len(Position.open(cursor, state.execution_id, b"k").runs) <= 3


def test_filters_take_either_form_of_a_name(ran: tuple[LocalWiring, State]) -> None:
    local, state = ran
    one, _ = events_of(local.control, state.execution_id, name="StepDone")
    other, _ = events_of(local.control, state.execution_id, name="step.done")
    assert one == other
    assert {e["step"] for e in one} == {"start", "left", "right", "end"}


def test_after_takes_an_event_id_too(ran: tuple[LocalWiring, State]) -> None:
    local, state = ran
    whole, _ = events_of(local.control, state.execution_id)
    for place, event in enumerate(whole):
        rest, _ = events_of(local.control, state.execution_id, after=event["event_id"])
        assert rest == whole[place + 1 :]


@pytest.mark.parametrize("name", ["9.control.0.0", "{id}.control.0", "{id}.control.99.0", "{id}.control.0.99", "{id}.r9.0.0"])
def test_after_an_event_that_does_not_exist_is_refused(ran: tuple[LocalWiring, State], name: str) -> None:
    local, state = ran
    with pytest.raises(BadCursor):
        events_of(local.control, state.execution_id, after=name.format(id=state.execution_id))


def test_after_an_event_of_a_run_that_is_open(ran: tuple[LocalWiring, State]) -> None:
    """The log as it was before its last control commits: three runs are open, and their commits come last."""
    local, state = ran
    local.database.write("DELETE FROM commits WHERE execution_id=? AND run_id='' AND seq>1", (state.execution_id,))
    local.database.write("DELETE FROM snapshots", ())
    whole, _ = events_of(local.control, state.execution_id)
    assert len({e["event_id"].split(".")[1] for e in whole}) > 3
    for place, event in enumerate(whole):
        rest, _ = events_of(local.control, state.execution_id, after=event["event_id"])
        assert rest == whole[place + 1 :]


@pytest.mark.parametrize("change", ["c!!!", "", "x", "cAAAA", "é"])
def test_a_cursor_that_was_not_made_here_is_refused(ran: tuple[LocalWiring, State], change: str) -> None:
    with pytest.raises(BadCursor):
        events_of(ran[0].control, ran[1].execution_id, after=change, key=b"k")


def test_a_changed_cursor_and_one_of_another_execution_are_refused(ran: tuple[LocalWiring, State]) -> None:
    local, state = ran
    _, cursor = events_of(local.control, state.execution_id, limit=3, key=b"k")
    assert cursor is not None
    with pytest.raises(BadCursor, match="not signed by this deployment"):
        events_of(local.control, state.execution_id, after=cursor, key=b"other")
    with pytest.raises(BadCursor, match="not signed by this deployment"):
        events_of(local.control, state.execution_id, after=cursor[:-2] + ("AA" if cursor[-2:] != "AA" else "BB"), key=b"k")
    with pytest.raises(BadCursor, match="another execution"):
        Position.open(Position().sign("1", b"k"), "2", b"k")


def test_state_at_an_event_is_the_fold_up_to_it(ran: tuple[LocalWiring, State]) -> None:
    local, state = ran
    whole, _ = events_of(local.control, state.execution_id)
    first = next(e for e in whole if e["name"] == "StepScheduled")
    then = executions.state_at(local.control, state.execution_id, first["event_id"])
    assert then["status"] == "running"
    assert [r["step"] for r in then["runs"]] == ["start"]
    assert then["ctx"] == {}
    now = executions.state_at(local.control, state.execution_id)
    assert now["status"] == "completed"
    assert now["ctx"] == {"seen": 1}
    assert now["runs"] == []


FAILS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: fails, path: test/fails }
workload: { n: 1 }
workflow:
  - step: start
    tool:
      kind: noop
      spec:
        policy:
          rules: [{ else: { then: { do: fail, error: { message: "no rows", details: { seen: "{{ 'x' * workload.n }}" } } } } }]
"""


@pytest.mark.parametrize("n", [10, 100_000])
def test_an_error_shows_its_details_or_their_beginning_and_where_the_rest_is(n: int) -> None:
    local, state = run_text(FAILS, {"n": n})
    details = executions.summary(local.control, state.execution_id)["error"]["details"]
    if n == 10:
        assert details == {"seen": "x" * 10}
    else:
        assert details["beginning"] == '{"seen":"' + "x" * 1_991
        assert details["size"] == 100_011
        assert Path(details["all"]).stat().st_size == 100_011
