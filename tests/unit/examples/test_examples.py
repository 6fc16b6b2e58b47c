"""Every example runs in one process and gives what its first lines promise."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.control.callbacks import Gone, answer, open_callbacks
from noetl_core.dsl.parse import parse_playbook
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from tests.examples_runner import CASES, EXAMPLES, run_example
from tests.flights_truth import assert_is_the_truth


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "payload", "expected"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_an_example_gives_its_result(name: str, payload: dict[str, Any], expected: Any, tmp_path: Path) -> None:
    ended = run_example(name, tmp_path / "log.sqlite", payload)
    assert (ended.status, ended.error) == ("completed", None)
    assert ended.result == expected


def test_a_retry_that_is_exhausted_takes_the_other_branch(tmp_path: Path) -> None:
    ended = run_example("retry", tmp_path / "log.sqlite", {"attempts_needed": 9})
    assert ended.status == "completed"
    assert ended.result["gave_up"] is True
    assert "attempt 5 of 9 fails" in ended.result["because"]


@pytest.mark.nightly
def test_the_flagship_counts_every_flight_once_though_the_source_is_moody(tmp_path: Path) -> None:
    ended = run_example("flights", tmp_path / "log.sqlite", timeout_s=300)
    assert (ended.status, ended.error) == ("completed", None)
    assert_is_the_truth(ended.result)
    assert ended.result["retries"] == 28


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        ([{"approved": True}], {"decision": "approved", "by": "Ada", "asked": 1}),
        ([None, {"approved": False, "by": "Ada's deputy"}], {"decision": "rejected", "by": "Ada's deputy", "asked": 2}),
        ([None, None, {"approved": True}], {"decision": "approved", "by": "Grace", "asked": 3}),
    ],
    ids=["at once", "after the reminder", "escalated"],
)
def test_the_first_answer_decides_an_approval(answers: list[Any], result: dict[str, Any]) -> None:
    """An answer of None stands for a question that nobody answers before its time is over."""
    with closing(LocalWiring()) as local:
        request = StartRequest(playbook=(EXAMPLES / "approval" / "playbook.yaml").read_text(), payload={"patience": 2})
        execution = local.start(request).execution_id
        links: list[str] = []
        while len(links) < len(answers):
            local.run(execution, timeout_s=0.02)
            waiting = [each["token"] for each in open_callbacks(local.control, execution) if each["token"] not in links]
            if waiting:
                links += waiting
                reply = answers[len(links) - 1]
                if reply is not None:
                    answer(local.control, waiting[0], reply)
        assert local.run(execution, timeout_s=30)
        summary = executions.summary(local.control, execution)
        assert {**summary["result"], "asked": len(summary["result"]["asked"])} == result
        assert len(set(links)) == len(links), "each question has a link of its own"
        if len(links) > 1:
            with pytest.raises(Gone):
                answer(local.control, links[0], {"approved": True})


def test_every_example_is_named_by_its_folder_and_is_tested() -> None:
    names = {path.parent.name for path in EXAMPLES.glob("*/playbook.yaml")}
    assert names == {name for name, _, _ in CASES} | {"fan_out", "flights", "token_search"}
    for name in names:
        assert parse_playbook((EXAMPLES / name / "playbook.yaml").read_text()).path == f"examples/{name}"
