"""The kit itself: what it takes for the same history, and how the scripted tool chooses."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from noetl_core.tools.base import BadInput, ToolCall
from tests.conformance import compare_histories, wirings
from tests.conformance.cases import Case, all_cases
from tests.conformance.observations import Observed, problems

CASE = next(c for c in all_cases() if c.id == "formal/ctx-is-shared-across-steps-and-kept-as-patches")


@pytest.fixture(scope="module")
def twice() -> tuple[Observed, Observed]:
    (one, wrong), (other, also) = wirings.on_local(CASE), wirings.on_local(CASE)
    assert not wrong + also
    return one, other


def test_two_runs_differ_in_ids_and_times_alone(twice: tuple[Observed, Observed]) -> None:
    one, other = twice
    assert one.execution_id != other.execution_id
    assert not list(compare_histories.differences(one, other, concurrent=False))
    assert not list(compare_histories.differences(one, other, concurrent=True))


@pytest.mark.parametrize("concurrent", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda seen: seen.events.pop(8),
        lambda seen: seen.events.append(seen.events[-1]),
        lambda seen: seen.events[10]["data"].update(more=1),
        lambda seen: seen.events[10].update(status="error"),
        lambda seen: setattr(seen, "result", "6"),
        lambda seen: seen.ctx.update(total=6),
        lambda seen: seen.steps["start"].update(runs=2),
    ],
)
def test_any_other_difference_is_found(twice: tuple[Observed, Observed], change: Any, concurrent: bool) -> None:
    one, other = copy.deepcopy(twice)
    change(other)
    assert list(compare_histories.differences(one, other, concurrent=concurrent))


def test_a_delay_drawn_from_the_ids_is_no_difference_whatever_its_digits(twice: tuple[Observed, Observed]) -> None:
    one, other = copy.deepcopy(twice)
    for seen, delay in ((one, 0.018325658403337), (other, 0.0183256584033371)):
        seen.events[10]["data"]["directive"] = {"do": "retry", "delay": delay}
    assert not list(compare_histories.differences(one, other, concurrent=True))
    other.events[10]["data"]["directive"]["delay"] = 0.02
    assert list(compare_histories.differences(one, other, concurrent=True))


def test_the_order_of_runs_counts_only_where_they_are_not_concurrent(twice: tuple[Observed, Observed]) -> None:
    one, other = copy.deepcopy(twice)
    control = [i for i, e in enumerate(other.events) if e["source"] == "server"]
    a, b = control[-1], control[-2]
    other.events[a], other.events[b] = other.events[b], other.events[a]
    assert list(compare_histories.differences(one, other, concurrent=False))
    assert not list(compare_histories.differences(one, other, concurrent=True))


@pytest.mark.parametrize(
    "expect",
    [
        {"status": "failed"},
        {"result": 7},
        {"ctx": {"total": 5}},
        {"steps": {"then": {"runs": 2}}},
        {"error": {"kind": "timeout"}},
        {"events": ["...", "StepFailed", "..."]},
        {"never": ["StepDone start"], "status": "completed"},
        {"count": {"StepDone": 1}},
        {"diagnostics": ["W402"], "status": "completed"},
        {"refused": {"status": 422}, "status": "completed"},
    ],
)
def test_a_difference_from_the_expectation_is_reported(twice: tuple[Observed, Observed], expect: dict[str, Any]) -> None:
    case = Case("x", (), CASE.text, expect)
    assert list(problems(case, twice[0]))


def test_an_unexpected_refusal_is_a_failure() -> None:
    refused = Observed(refused={"status": 422, "code": "invalid_playbook"}, diagnostics=[])
    assert list(problems(Case("x", (), "", {"status": "completed"}), refused))


BY_ATTEMPT = [
    {"attempt": [1, 2], "ok": "a"},
    {"visit": 2, "ok": "b"},
    {"index": 3, "ok": "c"},
    {"when": False, "ok": "d"},
    {"ok": "e"},
]
IN_ORDER = [{"ok": "a"}, {"ok": "b"}]


@pytest.mark.parametrize(
    ("script", "call", "expected"),
    [
        (BY_ATTEMPT, {"attempt": 2}, "a"),
        (BY_ATTEMPT, {"attempt": 3, "visit": 2}, "b"),
        (BY_ATTEMPT, {"attempt": 3, "path": (0, 3)}, "c"),
        (BY_ATTEMPT, {"attempt": 3, "path": (3, 0)}, "e"),
        (IN_ORDER, {}, "a"),
        (IN_ORDER, {"attempt": 2}, "b"),
        (IN_ORDER, {"visit": 2}, "b"),
        (IN_ORDER, {"visit": 9}, "b"),
    ],
)
def test_the_scripted_tool_chooses_by_the_call_alone(script: list[Any], call: dict[str, Any], expected: str) -> None:
    tool = wirings.scripted_tool()
    outcome = tool.run(ToolCall("scripted", {"outcomes": script}, **call))
    assert outcome.result == expected


@pytest.mark.parametrize(
    "script",
    [
        None,
        [],
        [{"okay": 1}],
        [{"ok": 1, "attemt": 2}],
        [{"error": {"kin": "x"}}],
        [{"error": {"kind": "x"}}],
        [{"attempt": 2, "ok": 1}],
    ],
)
def test_a_script_out_of_shape_is_refused(script: Any) -> None:
    with pytest.raises(BadInput):
        wirings.scripted_tool().run(ToolCall("scripted", {"outcomes": script}))
