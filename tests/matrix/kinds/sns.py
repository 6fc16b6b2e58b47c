"""The cases of `sns`. The stack's parameter `ToolTopics` names `matrix-*`."""

from __future__ import annotations

from typing import Any

from noetl_core.adapters.aws.clients import client
from tests.matrix.cases import Case

leaves_out = {
    "timeout": "a request of SNS has a timeout of its own; between requests the task's is kept (`unit/tools/test_sns.py`)"
}


def prepare() -> dict[str, Any]:
    """Topics: two that tools may publish to, and one that no parameter names."""
    for name in ("matrix-alerts", "closed-alerts"):
        client("sns").create_topic(Name=name)
    client("sns").create_topic(Name="matrix-alerts.fifo", Attributes={"FifoTopic": "true"})
    return {}


def _to(**more: Any) -> dict[str, Any]:
    return {"topic": "matrix-alerts", **more}


CASES = [
    Case("publish", _to(message={"a": 1}, subject="S", attributes={"n": 1}), gives={"{{ _prev.sent }}": 1}),
    Case("many", _to(messages=list(range(25))), gives={"{{ _prev.message_ids | unique | list | length }}": 25}),
    Case("fifo", {"topic": "matrix-alerts.fifo", "message": "a"}, gives={"{{ _prev.sent }}": 1}),
    Case("no_topic", {"topic": "matrix-none", "message": "a"}, "errors", fails="not_found", retryable=False),
    Case("empty", _to(message=""), "errors", fails="schema", retryable=False),
    Case("too_large", _to(message="{{ 'x' * 1048577 }}"), "errors", fails="limit", retryable=False),
    Case("large", _to(messages=["{{ 'x' * 200000 }}", "{{ 'y' * 200000 }}"]), "large result", gives={"{{ _prev.sent }}": 2}),
    Case("secret", _to(message="{{ keychain.matrix.token }}"), "secret", gives={"{{ _prev.sent }}": 1}),
    Case(
        "not_named", {"topic": "closed-alerts", "message": "a"}, "rights", fails="auth", retryable=False, on=("stack",),
        says="ToolTopics does not name topic `closed-alerts` (it names: matrix-*)",
    ),
    Case("profile", {"topic": "closed-alerts", "message": "a"}, "rights", gives={"{{ _prev.sent }}": 1}, on=("local",)),
]  # fmt: skip
