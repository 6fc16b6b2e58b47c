"""A newer version may word errors differently: a replay does not report that as another decision (docs/looking.md, "Replay")."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.explain.replay import in_recorded_words, replay

FAILS = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: words, path: t/words }
workflow:
  - step: a
    tool: { kind: noop, result: { total: 1 } }
    next: { arcs: [{ step: b, when: "{{ event.result.totl > 1 }}" }] }
  - step: b
    tool: { kind: noop, result: 1 }
"""


def test_a_replay_accepts_an_error_that_was_recorded_in_other_words(monkeypatch: pytest.MonkeyPatch) -> None:
    local = LocalWiring()
    with monkeypatch.context() as older:
        older.setattr("noetl_core.expr.rendering.DEFAULT", "use default(...) if that is right")
        execution_id = local.start(StartRequest(playbook=FAILS, strict=True)).execution_id
        assert local.run(execution_id)
    found = replay(local.control, execution_id)
    assert found.over and found.differences == ()
    local.close()


ERROR = {"kind": "template", "message": "one", "step": "a"}


def events(name: str, **data: Any) -> tuple[dict[str, Any], ...]:
    return ({"name": name, "data": data},)


@pytest.mark.parametrize(
    ("decided", "recorded"),
    [
        (events("ExecutionFailing", error={**ERROR, "message": "two"}), events("ExecutionFailing", error=ERROR)),
        (events("NextEvaluated", error="two", step="a"), events("NextEvaluated", error="one", step="a")),
        (events("TokenExpired", reason="two", code="join"), events("TokenExpired", reason="one", code="join")),
    ],
)
def test_the_words_of_an_error_are_no_difference(decided: Any, recorded: Any) -> None:
    assert decided != recorded
    assert in_recorded_words(decided, recorded) == recorded


@pytest.mark.parametrize(
    ("decided", "recorded"),
    [
        (events("ExecutionFailing", error={**ERROR, "kind": "limit"}), events("ExecutionFailing", error=ERROR)),
        (events("ExecutionFailing", error=ERROR), events("ExecutionFailing", error=None)),
        (events("NextEvaluated", error="one"), events("NextEvaluated")),
        (events("NextEvaluated", error="one"), events("StepFailed", error="one")),
        (events("TokenExpired", reason="one", code="join"), events("TokenExpired", reason="one", code="ended")),
        (
            events("StepScheduled", args={"error": "two", "message": "two"}),
            events("StepScheduled", args={"error": "one", "message": "one"}),
        ),
        (events("NextEvaluated", error="one"), ()),
    ],
)
def test_every_other_part_of_an_event_is_a_difference(decided: Any, recorded: Any) -> None:
    assert in_recorded_words(decided, recorded) != recorded
