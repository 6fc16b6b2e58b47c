"""Groups of tests for one process: tests with a stack of their own stay together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import CONSOLE, KIT, STACK, TOGETHER, company

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("nodeid", "of"),
    [
        ("tests/conformance/test_stack.py::test_the_case_holds_on_the_stack_as_on_the_local_runner[canonical/a]", KIT),
        ("tests/e2e/test_flagship.py::test_a_worker_killed_in_the_middle_costs_two_minutes_and_not_a_row", KIT),
        ("tests/e2e/test_flagship.py::test_every_flight_is_counted_once_though_the_source_is_moody", STACK),
        ("tests/e2e/test_cli.py::test_run_follow_and_look", STACK),
        ("tests/console/test_actions.py::test_an_execution_is_paused_and_resumed", CONSOLE),
        ("tests/console/test_stack.py::test_a_playbook_is_started_followed_answered_and_looked_at", STACK),
        ("tests/unit/cli/test_files.py::test_a[tests/e2e/]", "tests/unit/cli/test_files.py"),
    ],
    ids=str,
)
def test_a_test_is_with_those_that_share_its_fixtures(monkeypatch: pytest.MonkeyPatch, nodeid: str, of: str) -> None:
    monkeypatch.delenv("NOETL_E2E_ENDPOINT", raising=False)
    assert company(nodeid) == of


def test_all_that_need_an_endpoint_of_somebody_else_are_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_E2E_ENDPOINT", "http://127.0.0.1:4566")
    assert {company(begins) for begins, _ in TOGETHER} == {STACK}


@pytest.mark.parametrize("begins", [begins for begins, _ in TOGETHER])
def test_what_is_named_is_there(begins: str) -> None:
    path, _, name = begins.partition("::")
    assert (ROOT / path).exists()
    assert not name or re.search(rf"^def {name}", (ROOT / path).read_text(), re.MULTILINE)
