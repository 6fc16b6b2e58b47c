"""The shapes the texts show, completed to whole playbooks: each runs to what the text beside it says."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from tests.unit.spec_examples.scripted import answer, model, play


def fine(call: ToolCall) -> Outcome:
    return answer(200, {"rows": [1]}) if call.kind == "http" else Outcome.ok({"stored": True})


def test_the_loop_model_runs_the_pipeline_for_each_element() -> None:
    assert play("loop_model").result == [2, 4, 6]


def test_a_labelled_task_runs_under_its_label() -> None:
    assert play("task_model", fine).tasks() == ["fetch:continue"]


@pytest.mark.parametrize(("allowed", "steps"), [(True, ["start"]), (False, [])])
def test_admission_lets_a_token_pass_or_not(allowed: bool, steps: list[str]) -> None:
    assert play("admission", payload={"open": allowed}).steps == steps


@pytest.mark.parametrize(
    ("directive", "tasks", "result"),
    [
        ("on", ["probe:continue", "next_task:continue", "some_label:continue"], "nothing"),
        ("jump", ["probe:jump", "some_label:continue"], "jump"),
        ("break", ["probe:break"], "break"),
        ("fail", ["probe:fail"], None),
    ],
)
def test_each_directive_of_the_policy_shape(directive: str, tasks: list[str], result: Any) -> None:
    played = play("task_policy", lambda call: Outcome.ok(directive))
    assert (played.tasks(), played.result) == (tasks, result)
    assert played.state.status == ("failed" if directive == "fail" else "completed")
    assert played.state.ctx == ({"jumped": True} if directive == "jump" else {})


@pytest.mark.parametrize(
    ("failure", "seconds"),
    [
        (answer(503), [1, 2, 4, 8]),
        (answer(429, retry_after="3"), [3, 6, 9, 12]),
        (Outcome.failed("timeout", "late"), [1, 1, 1, 1]),
    ],
    ids=["exponential", "linear, a template", "none"],
)
def test_retry_runs_the_task_until_its_attempts_are_used_up(failure: Outcome, seconds: list[int]) -> None:
    played = play("task_policy", lambda call: failure)
    assert played.tasks() == ["probe:retry"] * 4 + ["probe:fail"]
    assert [c.attempt for c in played.calls] == [1, 2, 3, 4, 5]
    assert played.state.failure is not None
    assert failure.error is not None
    assert played.state.failure["kind"] == failure.error.kind
    delays = [
        e.data["delay"]
        for commits in played.world.store.streams.values()
        for commit in commits
        for e in commit.events
        if e.name == "TaskRetried"
    ]
    assert delays == seconds


@pytest.mark.parametrize(("n", "step", "result"), [(2, "some_step", 2), (1, "next_step", -1)])
def test_the_first_matching_arc_of_an_exclusive_router_fires(n: int, step: str, result: int) -> None:
    played = play("router", payload={"n": n})
    assert (played.steps, played.result) == (["start", step], result)


def test_a_storage_task_returns_a_reference_that_ctx_keeps() -> None:
    reference = {
        "store": "postgres.table",
        "key": "pagination_test_results",
        "range": "id:100-150",
        "size": 123456,
        "checksum": "...",
    }
    played = play("reference", lambda call: Outcome.ok(reference))
    assert played.state.ctx == {"stored": reference}
    assert played.result == "postgres.table/pagination_test_results"


def test_keychain_entries_are_declared_and_read_by_name() -> None:
    assert [(k.name, k.kind) for k in model("keychain").keychain] == [
        ("openai_token", "secret_manager"),
        ("pg_k8s", "postgres_credential"),
    ]
    played = play("keychain", fine, secrets={"openai_token": {"token": "sk-1"}, "pg_k8s": {"password": "pw"}})
    assert "sk-1" not in repr(played.control)
    assert played.called("store")[0].inputs["auth"] == "pg_k8s"
    assert played.state.status == "completed"


def test_the_effective_spec_is_the_overlay_of_all_layers() -> None:
    (call,) = play("layering", fine).calls
    assert call.spec["timeout"] == {"connect": 1, "read": 2, "write": 3, "total": 4}, "maps merge deep, inner wins"
    assert call.spec["ok_statuses"] == [404], "lists are replaced"


def test_named_tasks_keep_their_names() -> None:
    played = play("named_tasks", lambda call: answer(200) if call.attempt == 3 else answer(500))
    assert played.tasks() == ["init_iter:continue", "fetch_page:retry", "fetch_page:retry", "fetch_page:continue"]


def test_unnamed_tasks_get_synthetic_labels() -> None:
    assert play("unnamed_tasks", fine).tasks() == ["task_0:continue", "task_1:continue"]


def test_a_single_tool_is_called_after_its_step() -> None:
    played = play("single_tool", fine)
    assert played.tasks() == ["start_task:continue"]
    assert played.calls[0].inputs["url"] == "https://api.example.org/data"
