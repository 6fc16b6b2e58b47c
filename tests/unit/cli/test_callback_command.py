"""`noetl callback`, as docs/callbacks.md shows it: two processes, one store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import Command
from tests.unit.cli.runs import Run, when

PAGE = Path(__file__).parents[3] / "docs/callbacks.md"


@pytest.fixture
def waiting(noetl: Run, tmp_path: Path) -> Iterator[tuple[str, str, Command]]:
    """The page's playbook, run by another process until it waits: id, token, process."""
    (source,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "release.yaml").write_text(source)
    with Command("run", "release.yaml", "--output", "json", cwd=tmp_path) as process:
        execution_id = when(tmp_path, "StepSuspended", 1)
        yield execution_id, _token(noetl, execution_id), process


def _token(noetl: Run, execution_id: str) -> str:
    output = noetl("show", execution_id).stdout
    found = re.search(
        r"task ask waits until .* for an answer to its callback \(Ship it\?\)\n  answer it: noetl callback (\S+)", output
    )
    assert found is not None, output
    return found[1]


@pytest.mark.nightly  # one answer of each kind is in tests/e2e/test_callbacks.py
def test_callback_answers_as_the_page_describes(noetl: Run, waiting: tuple[str, str, Command]) -> None:
    execution_id, token, process = waiting
    assert noetl("callback", token, "--heartbeat").stdout == f"{execution_id} alive\n"
    unfit = noetl("callback", token, "--data", '{"ok": "yes"}')
    assert unfit.returncode == 2
    assert "the answer.ok is string, not boolean" in unfit.stderr
    answered = noetl("callback", f"noetl-callback:{token}", "--data", '{"ok": true}')
    assert (answered.returncode, answered.stdout) == (0, f"{execution_id} answered\n")
    process.wait()
    assert json.loads(process.stdout)["result"] == "shipped"
    again = noetl("callback", token, "--data", '{"ok": true}')
    assert (again.returncode, again.stdout) == (0, f"{execution_id} recorded\n")
    assert noetl("callback", token, "--data", '{"ok": false}').returncode == 1


def test_an_error_as_answer_fails_the_run_with_this_error(noetl: Run, waiting: tuple[str, str, Command]) -> None:
    _, token, process = waiting
    assert noetl("callback", token, "--error", '{"kind": "auth", "message": "not yours"}').returncode == 0
    process.wait()
    assert json.loads(process.stdout)["error"]["kind"] == "auth"


def test_tokens_that_are_none_and_two_answers_at_once_are_usage_errors(noetl: Run) -> None:
    for arguments in (["x"], ["1.2.3.4.5"], ["1.r.k.0.m", "--data", "1", "--heartbeat"], ["1.r.k.0.m", "--data", "{"]):
        assert noetl("callback", *arguments).returncode == 2


def test_an_invalid_token_is_refused(noetl: Run) -> None:
    done = noetl("callback", "hello")
    assert done.returncode == 2
    assert "hello is not a callback token" in done.stderr
