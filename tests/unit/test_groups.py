"""`make test` runs each test in one process, and together with those that share a stack or a browser with it."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.__main__ import AT_ONCE, Work, options, run_all
from tests.conftest import company
from tests.groups import CONSOLE, GROUPS, STACK, arguments, group_of

ROOT = Path(__file__).parents[2]
FILES = [str(file.relative_to(ROOT)) for file in sorted((ROOT / "tests").rglob("test_*.py"))]


@pytest.mark.parametrize(
    ("nodeid", "of"),
    [
        ("tests/conformance/test_stack.py::test_the_case_holds_on_the_stack_as_on_the_local_runner[canonical/a]", STACK),
        ("tests/e2e/test_flagship.py::test_every_flight_is_counted_once_though_the_source_is_moody", STACK),
        ("tests/e2e/test_cli.py::test_run_follow_and_look", STACK),
        ("tests/console/test_actions.py::test_an_execution_is_paused_and_resumed", CONSOLE),
        ("tests/console/test_stack.py::test_the_console_starts_follows_answers_and_lists_executions_of_a_stack", STACK),
        ("tests/unit/cli/test_files.py::test_a[tests/e2e/]", "tests/unit/cli/test_files.py"),
    ],
    ids=str,
)
def test_a_test_is_with_those_that_share_its_fixtures(monkeypatch: pytest.MonkeyPatch, nodeid: str, of: str) -> None:
    monkeypatch.delenv("NOETL_E2E_ENDPOINT", raising=False)
    assert company(nodeid) == of


def test_tests_that_need_an_external_endpoint_run_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_E2E_ENDPOINT", "http://127.0.0.1:4566")
    assert {company(begins) for name in (STACK, CONSOLE) for begins in GROUPS[name]} == {STACK}


@pytest.mark.parametrize("begins", [begins for beginnings in GROUPS.values() for begins in beginnings])
def test_every_path_and_test_named_in_a_group_exists(begins: str) -> None:
    path, _, name = begins.partition("::")
    assert (ROOT / path).exists()
    assert (ROOT / path).is_dir() == path.endswith("/")
    assert not name or re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


def selects(name: str, nodeid: str) -> bool:
    """Return whether pytest, with the arguments of a group, runs a test."""
    own = [word for word in arguments(name) if not word.startswith("--")]
    without = [word.partition("=")[2] for word in arguments(name) if word.startswith("--")]
    return any(nodeid.startswith(word) for word in own) and not any(nodeid.startswith(word) for word in without)


def test_each_test_is_run_by_exactly_one_group() -> None:
    assert {nodeid: [name for name in GROUPS if selects(name, nodeid)] for nodeid in FILES} == {
        nodeid: [group_of(nodeid)] for nodeid in FILES
    }


def test_the_first_groups_are_those_that_wait_longest() -> None:
    assert {STACK, CONSOLE, "tools"} <= set(list(GROUPS)[:AT_ONCE])
    assert all(word in options(CONSOLE) for word in ("tests/console/", "--ignore=tests/console/test_stack.py"))


def ending(code: int, *lines: str) -> Work:
    """Return work that prints lines, and ends its process at once: it is a copy of pytest's."""

    def work() -> int:
        os.write(1, "".join(f"{line}\n" for line in lines).encode())
        os._exit(code)

    return work


def test_a_failure_is_reported_with_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    good = ending(0, "first", "12 passed in 3 s", "last")
    assert run_all({"good": good, "bad": ending(3, "what was wrong"), "good too": good}) == 1
    output = capsys.readouterr().out
    assert "what was wrong\n" in output
    assert "bad: failed with code 3" in output
    assert "good: 12 passed in 3 s (" in output
    assert "first" not in output and "last" not in output
    assert output.endswith("failed: bad\n")


def test_without_a_failure_all_passed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_all({f"silent {n}": ending(0) for n in range(AT_ONCE + 1)}) == 0
    *silent, last = capsys.readouterr().out.splitlines()
    assert len(silent) == AT_ONCE + 1 and last == "all passed"
    assert all(re.fullmatch(r"silent \d: ok \(\d+ s, \d+ s of processor\)", line) for line in silent)


def test_a_process_that_is_killed_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    def killed() -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    assert run_all({"killed": killed}) == 1
    assert "killed: failed with code -9" in capsys.readouterr().out
