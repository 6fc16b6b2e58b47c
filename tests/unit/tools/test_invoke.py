"""What tools of other distributions get wrong ends their task, never the worker."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.engine.outcome import ErrorInfo, Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke


class Answers:
    """Answers with whatever it was made with."""

    kind, inline = "odd", True

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def run(self, call: ToolCall) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (None, "unknown", "odd: the tool answered no outcome but None"),
        ({"status": "ok"}, "unknown", "odd: the tool answered no outcome but {'status': 'ok'}"),
        (Outcome("done"), "unknown", "odd: the tool answered no outcome but Outcome(status='done'"),  # type: ignore[arg-type]
        (Outcome("error"), "unknown", "odd: the tool failed without an error"),
        (Outcome("error", error=ErrorInfo("timeout", False)), "timeout", "False"),  # type: ignore[arg-type]
        (Outcome("error", error=ErrorInfo("boom", "text")), "unknown", "text"),  # type: ignore[arg-type]
    ],
)
def test_an_odd_answer_is_a_failure_that_says_so(answer: Any, kind: str, message: str) -> None:
    outcome = invoke(Answers(answer), ToolCall("odd", {}))
    assert outcome.status == "error"
    assert outcome.error is not None
    assert outcome.error.kind == kind
    assert outcome.error.message.startswith(message)
