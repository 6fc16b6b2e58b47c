"""Backfill: each occurrence of the past once, by an execution that is seen, resumed and cancelled as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from noetl_core.control.admit import register
from noetl_core.control.catalog import versions
from noetl_core.control.catalog.versions import Deleted
from noetl_core.control.lifecycle.backfill import BACKFILL_PATH, Backfill, BadBackfill, plan, start_backfill
from noetl_core.control.lifecycle.operate import cancel
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.dsl.parse import check
from noetl_core.engine.redrive.plan import Redrive
from noetl_core.log.history import load_state
from noetl_core.ports import NotFound, PortError
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from tests.sim.ports import Crash, Faults
from tests.sim.world import World
from tests.unit.control.local_api import Asker

REPORT = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: report, path: team/report }}
executor:
  spec:
    triggers:
      - {{ schedule: "0 2 * * *", timezone: Europe/Berlin, payload: {{ day: "{{{{ trigger.scheduled_at }}}}" }} }}
workload: {{ day: null }}
workflow:
  - step: start
    tool: {tool}
"""
SHOW = '{ kind: noop, result: "{{ [workload.day, trigger.kind, trigger.name, trigger.previous_at] }}" }'
NIGHTS = Backfill("team/report", "2026-03-28", "2026-03-31")


def text(tool: str = SHOW) -> str:
    return REPORT.format(tool=tool)


@pytest.fixture
def local() -> Iterator[LocalWiring]:
    with closing(LocalWiring()) as local:
        register(local.control, text())
        yield local


def ran(local: LocalWiring, asked: Backfill) -> dict[str, Any]:
    started = start_backfill(local.control, asked, plan(local.control, asked))
    local.runner.adopt(started.execution_id)
    assert local.run(started.execution_id, timeout_s=30)
    return executions.summary(local.control, started.execution_id)


def children(local: LocalWiring) -> list[Any]:
    heads = local.control.index.heads(path="team/report")
    return sorted((executions.summary(local.control, head.execution_id)["result"] for head in heads), key=str)


def test_each_occurrence_runs_with_its_own_time(local: LocalWiring) -> None:
    summary = ran(local, NIGHTS)
    assert summary["status"] == "completed", summary["error"]
    assert summary["result"] == {"occurrences": 3, "failed": 0}
    assert children(local) == [
        ["2026-03-28T01:00:00Z", "backfill", "schedule", "2026-03-27T01:00:00Z"],
        ["2026-03-29T01:00:00Z", "backfill", "schedule", "2026-03-28T01:00:00Z"],
        ["2026-03-30T00:00:00Z", "backfill", "schedule", "2026-03-29T01:00:00Z"],
    ]
    (head, *_) = local.control.index.heads(where={"path": "team/report"})
    assert (head.execution_id, head.path, head.version) == (summary["execution_id"], BACKFILL_PATH, 0)


def test_a_backfill_that_is_started_twice_is_one_execution(local: LocalWiring) -> None:
    first = ran(local, NIGHTS)
    again = start_backfill(local.control, NIGHTS, plan(local.control, NIGHTS))
    assert (again.created, again.execution_id) == (False, first["execution_id"])
    faster = Backfill("team/report", "2026-03-28", "2026-03-31", parallel=3)
    assert not start_backfill(local.control, faster, plan(local.control, faster)).created
    assert len(children(local)) == 3
    same = Backfill("team/report", "2026-03-28T00:00+01:00", "2026-03-30T22:00:00Z")
    assert start_backfill(local.control, same, plan(local.control, same)).execution_id == first["execution_id"]
    meant = Backfill("team/report", "2026-03-28", "2026-03-31", again="two")
    assert ran(local, meant)["execution_id"] != first["execution_id"]
    assert len(children(local)) == 6


def test_a_backfill_started_by_an_earlier_version_is_recognized(local: LocalWiring) -> None:
    planned = plan(local.control, NIGHTS)
    before = start_backfill(local.control, NIGHTS, replace(planned, period=(NIGHTS.begin, NIGHTS.end)))
    assert before.created
    again = start_backfill(local.control, NIGHTS, planned)
    assert (again.created, again.execution_id) == (False, before.execution_id)


def test_it_goes_on_after_a_failure_and_says_so(local: LocalWiring) -> None:
    register(local.control, text("{ kind: noop, result: \"{{ 1 / (0 if '03-29' in workload.day else 1) }}\" }"))
    summary = ran(local, Backfill("team/report", "2026-03-28", "2026-03-31", parallel=2))
    assert (summary["status"], summary["error"]["message"]) == ("failed", "1 of 3 occurrences failed")
    assert len(children(local)) == 3
    (again,) = redrive(local.control, summary["execution_id"], Redrive()).description["again"]
    assert (again["step"], again["iterations"], again["kept_iterations"]) == ("backfill", ["1"], 2)
    local.runner.adopt(summary["execution_id"])
    assert local.run(summary["execution_id"], timeout_s=30)
    assert executions.summary(local.control, summary["execution_id"])["error"]["message"] == "1 of 3 occurrences failed"
    assert len(children(local)) == 4, "the one that failed, once more"


def test_cancelling_a_backfill_cancels_its_running_children(local: LocalWiring) -> None:
    register(local.control, text("{ kind: callback, signal: go }"))
    asked = Backfill("team/report", "2026-03-28", "2026-03-31", parallel=2)
    started = start_backfill(local.control, asked, plan(local.control, asked))
    local.runner.adopt(started.execution_id)
    while len(local.control.index.heads(path="team/report")) < 2:
        local.run(started.execution_id, timeout_s=0.2)
    cancel(local.control, started.execution_id)
    assert [h.status for h in local.control.index.heads(path="team/report")] == ["cancelled"] * 2
    assert local.control.load(started.execution_id).status == "cancelled"


@pytest.mark.nightly
def test_hundreds_are_cancelled_in_the_middle_and_go_on(local: LocalWiring, monkeypatch: pytest.MonkeyPatch) -> None:
    register(local.control, text().replace("0 2 * * *", "* * * * *"))
    asked = Backfill("team/report", "2026-01-01T00:00", "2026-01-01T10:00", parallel=20)
    started = start_backfill(local.control, asked, plan(local.control, asked))
    local.runner.adopt(started.execution_id)
    heads = partial(local.control.index.heads, path="team/report", limit=5_000)
    while len(heads(status="completed")) < 150:
        assert not local.run(started.execution_id, timeout_s=0.2)
    cancel(local.control, started.execution_id)
    local.run(started.execution_id, timeout_s=60)
    assert {head.status for head in heads()} == {"completed", "cancelled"}
    assert len(heads()) < 600
    counting = Mock(wraps=load_state)
    monkeypatch.setattr("noetl_core.worker.values.execution_view.load_state", counting)
    redrive(local.control, started.execution_id, Redrive())
    local.runner.adopt(started.execution_id)
    assert local.run(started.execution_id, timeout_s=120)
    assert executions.summary(local.control, started.execution_id)["result"] == {"occurrences": 600, "failed": 0}
    days = Counter(local.control.load(head.execution_id).payload["day"] for head in heads(status="completed"))
    assert len(days) == 600
    assert sum(days.values()) <= 600 + asked.parallel, "what had ended is kept, but for what the cancellation cut off"
    assert counting.call_count <= asked.parallel, "a loop's chunks read its log once, and not each"


@pytest.mark.nightly
def test_an_invalid_backfill_is_refused(local: LocalWiring) -> None:
    register(
        local.control, text().replace("team/report", "team/none").replace('schedule: "0 2 * * *", ', 'schedule: "0 2 29 2 *", ')
    )
    two = (
        text().replace("team/report", "team/two").replace("      - {", '      - { schedule: "0 3 * * *", name: late }\n      - {')
    )
    register(local.control, two)
    register(local.control, text().replace("team/report", "team/off").replace("    triggers:\n", "    x-triggers:\n"))
    for wrong, why in (
        (Backfill("team/report", "2026-03-31", "2026-03-28"), "is not before"),
        (Backfill("team/report", "soon", "2026-03-28"), "from is not an instant"),
        (Backfill("team/report", "2026-03-28", "2026-03-28T00:30"), "has no occurrence"),
        (Backfill("team/report", "1990-01-01", "2026-03-28"), "more than 10,000"),
        (Backfill("team/report", "2026-03-28", "2026-03-31", parallel=0), "parallel must be a number"),
        (Backfill("team/report", "2026-03-28", "2026-03-31", trigger="shedule"), "did you mean"),
        (Backfill("team/two", "2026-03-28", "2026-03-31"), r"several schedules \(late, schedule\)"),
        (Backfill("team/none", "2026-01-01", "2026-12-31"), "has no occurrence"),
    ):
        with pytest.raises(BadBackfill, match=why):
            plan(local.control, wrong)
    with pytest.raises(NotFound):
        plan(local.control, Backfill("team/nowhere", "2026-03-28", "2026-03-31"))
    assert plan(local.control, Backfill("team/two", "2026-03-28", "2026-03-29", trigger="late")).trigger == "late"
    versions.delete(local.control, "team/report")
    with pytest.raises(Deleted):
        plan(local.control, NIGHTS)


def test_its_playbook_has_no_findings() -> None:
    import json

    from noetl_core.control.lifecycle.backfill import PLAYBOOK

    playbook, found = check(json.dumps(PLAYBOOK))
    assert playbook is not None
    assert [d for d in found if d.code not in ("W404",)] == []


def test_over_the_api(tmp_path: Path) -> None:
    ask = Asker(tmp_path)
    register(ask.local.control, text())
    body = {"from": "2026-03-28", "to": "2026-03-31", "parallel": 2}
    preview = ask("POST", "playbooks/team/report/backfill", {**body, "preview": True})
    assert (preview.status, preview.body["occurrences"], "execution_id" in preview.body) == (202, 3, False)
    assert (preview.body["first"], preview.body["last"]) == ("2026-03-28T01:00:00Z", "2026-03-30T00:00:00Z")
    started = ask("POST", "playbooks/team/report/backfill", body)
    assert (started.status, started.body["created"]) == (202, True)
    assert not ask("POST", "playbooks/team/report/backfill", body).body["created"]
    wrong = ask("POST", "playbooks/team/report/backfill", {**body, "from": "x"})
    assert (wrong.status, wrong.body["error"]["code"]) == (422, "backfill")
    assert ask("POST", "playbooks/team/report/backfill", {"from": "2026-03-28"}).status == 400


@pytest.mark.parametrize(
    ("begin", "end", "cron"),
    [
        ("0001-01-01", "9999-12-31", "* * * * *"),
        ("0001-01-01", "0001-01-03", "0 0 * * *"),
        ("1969-12-31", "1970-01-02", "0 0 * * *"),
        ("9999-12-30", "9999-12-31T23:59:59Z", "0 0 * * *"),
    ],
)
def test_times_that_no_schedule_reaches_are_refused(local: LocalWiring, begin: str, end: str, cron: str) -> None:
    register(local.control, text().replace("0 2 * * *", cron).replace("Europe/Berlin", "UTC"))
    with pytest.raises(BadBackfill, match="must be between 1970 and 9000"):
        plan(local.control, Backfill("team/report", begin, end))


@pytest.mark.nightly
def test_a_rare_schedule_may_be_planned_up_to_the_last_year(local: LocalWiring) -> None:
    register(local.control, text().replace("0 2 * * *", "0 0 29 2 *"))
    planned = plan(local.control, Backfill("team/report", "1971-01-01", "8999-12-31"))
    assert len(planned.occurrences) == 1705


@pytest.mark.nightly
def test_each_occurrence_runs_once_despite_any_crash() -> None:
    """A process dies before, and after, each call that a backfill of two occurrences makes."""
    asked = Backfill("team/report", "2026-03-28", "2026-03-30", parallel=2)
    points = 0
    for crash_after in (False, True):
        crash_at = 0
        while True:
            crash_at += 1
            world = World(faults=Faults(crash_at=crash_at, crash_after=crash_after))
            while True:
                try:
                    control = world.controls[0]
                    if not world.catalog.versions("team/report"):
                        register(control, text())
                    id = start_backfill(control, asked, plan(control, asked)).execution_id
                    break
                except (Crash, PortError):
                    world.controls[0] = world.new_control()
            world.run(id)
            over = world.faults.calls < crash_at  # afterwards it is only looked at now and then
            world.drain()
            heads = [h for h in world.index.all_heads.values() if h.path == "team/report" and (h.parent or {}).get("run_id")]
            assert [h.status for h in heads] == ["completed"] * 2, crash_at
            assert world.state(id).status == "completed"
            assert len([h for h in world.index.all_heads.values() if h.path == BACKFILL_PATH]) == 1
            if over:
                break
            points += 1
    assert points >= 150
