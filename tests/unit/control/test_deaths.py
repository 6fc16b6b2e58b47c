"""Templates that end the process which evaluates them: nothing that ends an execution evaluates them, and after three deaths it is
stuck."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl_core.adapters.marks import SLOTS, FileMarks
from noetl_core.control.admit import StartRequest
from noetl_core.control.cached_states import CachedStates
from noetl_core.control.lifecycle import operate
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.control.recorded_deaths import record_deaths
from noetl_core.control.sweeping.sweep import Swept, reconcile_safely
from noetl_core.engine.redrive.plan import Redrive
from noetl_core.engine.routing import search_attributes
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.explain.replay import replay
from tests.commands import ENV
from tests.unit.control.deaths import POISONED, Deadly, Died, Kept


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch) -> Deadly:
    return Deadly(monkeypatch)


@pytest.fixture
def local() -> Iterator[LocalWiring]:
    wiring = LocalWiring()
    wiring.control.marks = Kept()
    yield wiring
    wiring.close()


def died_once(local: LocalWiring) -> str:
    """Return an execution whose process ended at the arcs of its first step, continued in a new process."""
    execution_id = local.start(StartRequest(playbook=POISONED)).execution_id
    with pytest.raises(Died):
        local.run(execution_id)
    restarted(local)
    return execution_id


def restarted(local: LocalWiring) -> None:
    assert local.control.marks is not None
    record_deaths(local.control, local.control.marks.left_behind())
    local.control.states = CachedStates(local.store)


@pytest.mark.parametrize("compensate", [False, True])
@pytest.mark.parametrize("deaths", [0, 1])
def test_cancel_evaluates_nothing(
    local: LocalWiring, deadly: Deadly, monkeypatch: pytest.MonkeyPatch, deaths: int, compensate: bool
) -> None:
    execution_id = local.start(StartRequest(playbook=POISONED)).execution_id
    if deaths:
        with pytest.raises(Died):
            local.run(execution_id)
        restarted(local)
    monkeypatch.setattr(search_attributes, "render", lambda *_, **__: pytest.fail("an attribute was evaluated"))
    before = len(deadly.died)
    operate.cancel(local.control, execution_id, compensate=compensate)
    assert local.control.load(execution_id).status == "cancelled"
    assert len(deadly.died) == before
    monkeypatch.undo()
    assert not replay(local.control, execution_id).differences


def test_after_three_deaths_it_is_stuck_and_costs_nothing(local: LocalWiring, deadly: Deadly) -> None:
    execution_id = died_once(local)
    for _ in range(2):
        with pytest.raises(Died):
            reconcile_safely(local.control, execution_id, Swept())
        restarted(local)
    reconcile_safely(local.control, execution_id, Swept())
    state = local.control.load(execution_id)
    assert (state.status, len(deadly.died)) == ("stuck", 3)
    assert "3 processes in a row ended" in (state.stuck or "")
    for _ in range(3):
        reconcile_safely(local.control, execution_id, Swept())
        local.control.route(execution_id)
    assert len(deadly.died) == 3
    assert [due.execution_id for due in local.index.due(2**60)] == []
    operate.resume(local.control, execution_id)
    assert len(deadly.died) == 3, "the operator's own process evaluates nothing"
    with pytest.raises(Died):
        reconcile_safely(local.control, execution_id, Swept())
    reconcile_safely(local.control, execution_id, Swept())
    assert (local.control.load(execution_id).status, len(deadly.died)) == ("stuck", 4), "a resume tries once"
    operate.cancel(local.control, execution_id)
    assert (local.control.load(execution_id).status, len(deadly.died)) == ("cancelled", 4)


def test_an_attempt_that_goes_well_takes_the_mark_off(local: LocalWiring, deadly: Deadly) -> None:
    execution_id = died_once(local)
    assert local.control.load(execution_id).attempts == 1
    deadly.armed = False
    local.runner.adopt(execution_id)
    local.run(execution_id)
    state = local.control.load(execution_id)
    assert (state.status, state.attempts) == ("completed", 0)
    assert not replay(local.control, execution_id).differences


def test_risky_work_is_left_to_a_wake_where_others_would_die_too(local: LocalWiring, deadly: Deadly) -> None:
    execution_id = died_once(local)
    local.control.risked = set()
    while local.queue.receive() is not None:
        pass
    state = operate.signal(local.control, execution_id, "hello", 1)
    assert [s["name"] for s in state.signals] == ["hello"], "what is acknowledged is in the log"
    assert len(deadly.died) == 1
    woken = local.queue.receive()
    assert woken is not None
    assert woken.execution_id == execution_id
    postponed: list[str] = []
    local.control.postponed = postponed.append
    reconcile_safely(local.control, execution_id, Swept())
    assert postponed == [execution_id]
    local.control.risked.add(execution_id)
    with pytest.raises(Died):
        reconcile_safely(local.control, execution_id, Swept())


def test_a_redrive_of_a_cancelled_one_evaluates_the_arcs_that_were_left(local: LocalWiring, deadly: Deadly) -> None:
    execution_id = died_once(local)
    operate.cancel(local.control, execution_id)
    deadly.armed = False
    redrive(local.control, execution_id, Redrive())
    local.run(execution_id)
    state = local.control.load(execution_id)
    assert state.status == "completed"
    assert state.steps["end"].status == "ok"


def test_marks_of_a_process_that_lives_are_its_own(tmp_path: Path) -> None:
    marks = FileMarks(tmp_path)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        with FileMarks(tmp_path).mark("7"), FileMarks(tmp_path).mark("message:8"):
            os.write(write, b"x")
            os.read(read, 0)
            os._exit(139)
    os.waitpid(child, 0)
    with marks.mark("9"):
        assert sorted(marks.left_behind()) == ["7", "message:8"]
        assert marks.left_behind() == [], "each once"
        assert FileMarks(tmp_path).left_behind() == []
    marks.close()
    assert not list(tmp_path.iterdir())


def test_marks_reuse_their_open_file_and_those_beyond_the_slots_are_dropped(tmp_path: Path) -> None:
    marks = FileMarks(tmp_path)
    with marks.mark("first"):
        pass
    (file,) = tmp_path.iterdir()
    file.unlink()
    for _ in range(3 * SLOTS):
        with marks.mark("12"):
            pass
    opened = [marks.mark(str(n)) for n in range(SLOTS + 1)]
    for mark in opened:
        mark.__enter__()
    for mark in opened:
        mark.__exit__(None, None, None)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_takes_no_files_marks_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    marks = FileMarks(tmp_path / "file")
    with marks.mark("1"):
        pass
    assert marks.left_behind() == []


COMMAND = """
import os, sys
from noetl_core.engine.routing import rules
rules.truthy = lambda *_: os._exit(139)
from noetl_cli.main import main
sys.argv = ["noetl", *sys.argv[1:]]
sys.exit(main())
"""


def test_a_command_that_dies_is_known_to_the_next_and_cancel_works(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(POISONED)
    env = {**ENV, "NOETL_HOME": str(tmp_path / "home")}

    def noetl(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", COMMAND, *args], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )

    run = noetl("run", "p.yaml")
    assert run.returncode == 139
    execution_id = next(word for word in run.stderr.split() if word.isdecimal())
    cancelled = noetl("cancel", execution_id)
    assert (cancelled.returncode, cancelled.stdout) == (0, f"{execution_id} cancelled\n"), cancelled.stderr
    assert "a process died while it evaluated templates" in cancelled.stderr
