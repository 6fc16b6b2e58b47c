"""`noetl dev`: after a change the playbook is validated, tested, and run again from what changed."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from noetl_cli.backends.opening import backend
from noetl_cli.commands.authoring.dev import Cycle
from noetl_cli.errors import Exit
from tests.commands import in_process
from tests.console.sample_store import DEV


@pytest.fixture
def cycle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cycle:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "playbook.yaml").write_text(DEV)
    return Cycle(tmp_path / "playbook.yaml")


def execution(cycle: Cycle) -> Any:
    with closing(backend("local", None)) as where:
        return where.api.execution(cycle.execution_id)


def test_only_the_changed_step_runs_again(cycle: Cycle, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cycle.turn()
    first = execution(cycle)
    assert first["result"] == 20
    cycle.turn()
    assert "no step that ran has changed" in capsys.readouterr().err
    (tmp_path / "playbook.yaml").write_text(DEV.replace("* 10", "* 100"))
    cycle.turn()
    assert "again from second" in capsys.readouterr().err
    again = execution(cycle)
    assert again["execution_id"] == first["execution_id"] and again["result"] == 200
    assert [again["steps"][name]["runs"] for name in ("first", "second")] == [1, 2]


def test_another_workload_is_another_execution(cycle: Cycle, tmp_path: Path) -> None:
    cycle.turn()
    first = cycle.execution_id
    (tmp_path / "playbook.yaml").write_text(DEV.replace("n: 2", "n: 3"))
    cycle.turn()
    assert cycle.execution_id != first and execution(cycle)["result"] == 30


def test_an_error_and_a_failed_test_stop_the_turn(cycle: Cycle, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "playbook.yaml").write_text(DEV.replace("kind: noop", "kind: nope", 1))
    cycle.turn()
    assert "nope" in capsys.readouterr().out and not cycle.execution_id
    (tmp_path / "playbook.yaml").write_text(DEV)
    (tmp_path / "playbook.test.yaml").write_text("test: wrong\nexpect: { result: 21 }\n")
    cycle.turn()
    assert "the playbook is not run before its tests pass" in capsys.readouterr().err and not cycle.execution_id


def test_a_failed_run_goes_on_with_the_mended_step(cycle: Cycle, tmp_path: Path) -> None:
    broken = DEV.replace("steps.first.result * 10", "steps.first.result // 0")
    (tmp_path / "playbook.yaml").write_text(broken)
    cycle.turn()
    assert execution(cycle)["status"] == "failed"
    (tmp_path / "playbook.yaml").write_text(DEV)
    cycle.turn()
    ended = execution(cycle)
    assert ended["status"] == "completed" and ended["result"] == 20 and ended["steps"]["first"]["runs"] == 1


def test_a_fix_has_a_test_that_was_red(cycle: Cycle, tmp_path: Path) -> None:
    (tmp_path / "playbook.yaml").write_text(DEV.replace("steps.first.result * 10", "steps.first.result // 0"))
    cycle.turn()
    unfixed = in_process("record", cycle.execution_id, "--fix").exception
    assert isinstance(unfixed, Exit) and "no redrive of this execution has changed its playbook" in str(unfixed)
    (tmp_path / "playbook.yaml").write_text(DEV)
    cycle.turn()
    done = in_process("record", cycle.execution_id, "--fix")
    assert "replays the execution" in done.stdout and "with version 1 the test fails: status is failed" in done.stdout
    assert in_process("test").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.yaml"], "none.yaml: there is no such file"),
        (["."], "playbook.yaml: there is no such file"),
        (["flow.yaml", "--set", "nonsense"], "--set 'nonsense': expected a.b=value"),
        (["flow.yaml", "--payload", "nonsense"], "--payload is not JSON"),
    ],
)
def test_arguments_that_no_edit_mends_end_it(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waits for a change"))
    (tmp_path / "flow.yaml").write_text(DEV)
    done = in_process("dev", *arguments)
    assert isinstance(done.exception, Exit) and done.exception.code == 2 and message in str(done.exception)
