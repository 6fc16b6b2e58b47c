"""`noetl triggers` and `noetl serve`, over a local store."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from noetl_cli.errors import FAILED, USAGE, Exit
from noetl_core.adapters.clock import SteadyClock
from noetl_core.control.admit import StartRequest
from noetl_core.control.catalog.registration import register, set_due
from noetl_core.control.sweeping import reconcile
from noetl_core.engine.schedules.occurrences import name_of
from noetl_core.engine.schedules.schedules import ScheduleState
from noetl_core.runtime.local import LocalWiring
from noetl_core.values.instants import SECOND
from tests.commands import in_process
from tests.waiting import eventually

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: nightly, path: reports/nightly }
executor:
  spec:
    triggers:
      - { schedule: "0 2 * * *", payload: { day: "{{ trigger.scheduled_at[:10] }}" } }
      - { name: often, schedule: { rate: 90 }, enabled: false }
workload: { day: null, x-schema: { properties: { day: { type: [string, "null"], maxLength: 10 } } } }
workflow:
  - step: ask
    tool: [{ kind: wait, seconds: 0.01 }, { kind: noop, result: "the report of {{ workload.day }}" }]
"""


@pytest.fixture
def noetl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    (tmp_path / "p.yaml").write_text(PLAYBOOK)
    return lambda *arguments: in_process(*arguments)


def wrong(done: Any) -> Exit:
    assert isinstance(done.exception, Exit), done.output
    return done.exception


def test_triggers_are_listed_switched_and_fired(noetl: Any) -> None:
    assert noetl("register", "p.yaml", "--on", "local").exit_code == 0
    listed = noetl("triggers", "ls").output
    assert "every 90s" in listed and "0 2 * * * UTC" in listed
    assert "is on, next at" in noetl("triggers", "enable", "reports/nightly", "often").output
    assert noetl("triggers", "disable", "reports/nightly", "often").output == "reports/nightly often is off\n"
    fired = noetl("triggers", "fire", "reports/nightly", "schedule", "--at", "2026-11-22T02:00Z", "--output", "json")
    assert json.loads(fired.stdout)["result"] == "the report of 2026-11-22"
    shown = json.loads(noetl("triggers", "show", "reports/nightly", "schedule", "--output", "json").stdout)
    assert [f["id"] for f in shown["firings"]] == ["2026-11-22T02:00:00Z"]
    assert json.loads(noetl("ls", "--output", "json").stdout)[0]["trigger"] == {"kind": "schedule", "name": "schedule"}
    assert "schedule schedule" in noetl("ls").output
    shown = noetl("show", json.loads(noetl("ls", "--output", "json").stdout)[0]["execution_id"]).output
    assert "started by schedule schedule: 2026-11-22T02:00:00Z" in shown


def test_a_refused_firing_is_listed_and_retried(noetl: Any, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PLAYBOOK.replace("[:10]", ""))
    noetl("register", "p.yaml", "--on", "local")
    end = wrong(noetl("triggers", "fire", "reports/nightly", "schedule", "--at", "2026-11-22T02:00Z"))
    assert (end.code, "2026-11-22T02:00:00Z is refused: " in str(end)) == (FAILED, True)
    (refused,) = json.loads(noetl("triggers", "refused", "--output", "json").stdout)
    assert str(end).splitlines()[1] == f"once the cause is mended: noetl triggers retry {refused['id']}"
    again = wrong(noetl("triggers", "retry", refused["id"]))
    assert (again.code, str(again)) == (FAILED, str(end))
    assert refused["id"] in noetl("triggers", "show", "reports/nightly", "schedule").output
    assert refused["id"] in noetl("triggers", "refused", "reports/nightly").output
    (tmp_path / "p.yaml").write_text(PLAYBOOK)
    noetl("register", "p.yaml", "--on", "local")
    assert "the report of 2026-11-22" in noetl("triggers", "retry", refused["id"]).output
    assert wrong(noetl("triggers", "forget", refused["id"])).code == USAGE


def test_an_unknown_trigger_is_reported_with_the_existing_ones(noetl: Any) -> None:
    noetl("register", "p.yaml", "--on", "local")
    assert "it has: often, schedule" in str(wrong(noetl("triggers", "show", "reports/nightly", "scheduel")))


def test_a_store_in_memory_is_not_served(noetl: Any) -> None:
    assert wrong(noetl("serve", "--store", "memory")).code == USAGE


def test_serve_starts_due_occurrences_and_continues_abandoned_executions(tmp_path: Path) -> None:
    """One occurrence is due, and another process left an execution unstarted for longer than the grace period."""
    store = tmp_path / "runs.db"
    other = LocalWiring(store, clock=SteadyClock(lambda: time.time_ns() // 1000 - 2 * reconcile.GRACE_S * SECOND))
    left = other.start(_request())
    other.close()
    local = LocalWiring(store)
    register(local.control, PLAYBOOK)
    record = local.triggers.trigger("reports/nightly", "schedule")
    assert record is not None
    now = local.clock.now()
    due = replace(record, state=ScheduleState(next_at=now // 1_000_000 * 1_000_000).plain(), revision="due")
    local.triggers.put_trigger(due, record.revision)
    set_due(local.control, due)
    local.index.set_due(left.execution_id, now)
    serving = threading.Thread(target=local.runner.serve)
    serving.start()
    try:
        eventually(lambda: {h.status for h in local.index.heads(path="reports/nightly")} == {"completed"})
        eventually(lambda: _status(local, left.execution_id) == "completed")
    finally:
        local.runner.leave("test")
        serving.join(10)
    (firing,) = local.triggers.firings("reports/nightly", "schedule", 0, 5)
    assert (firing.occurrence, firing.result) == (name_of(now), "started")
    local.close()


def _status(local: LocalWiring, execution_id: str) -> str:
    head = local.index.head(execution_id)
    return "" if head is None else head.status


def _request() -> StartRequest:
    source = PLAYBOOK.replace("reports/nightly", "reports/other")
    return StartRequest(playbook=source)
