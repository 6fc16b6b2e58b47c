"""The cases of `sqs`. The stack's parameter `ToolQueues` names `matrix-*`."""

from __future__ import annotations

from typing import Any

from noetl_core.adapters.aws.clients import client
from tests.matrix.cases import Case

leaves_out = {
    "timeout": "a request of SQS has a timeout of its own; between requests the task's is kept (`unit/tools/test_sqs.py`)"
}


def prepare() -> dict[str, Any]:
    """Queues: two that tools may send to, and one that no parameter names."""
    for name in ("matrix-orders", "closed-orders"):
        client("sqs").create_queue(QueueName=name)
    client("sqs").create_queue(QueueName="matrix-orders.fifo", Attributes={"FifoQueue": "true"})
    return {}


def _to(**more: Any) -> dict[str, Any]:
    return {"queue": "matrix-orders", **more}


CASES = [
    Case("send", _to(message={"a": 1}, attributes={"n": 1}, delay=1), gives={"{{ _prev.sent }}": 1}),
    Case("many", _to(messages=list(range(25))), gives={"{{ _prev.message_ids | unique | list | length }}": 25}),
    Case("fifo", {"queue": "matrix-orders.fifo", "message": "a"}, gives={"{{ _prev.sent }}": 1}),
    Case("no_queue", {"queue": "matrix-none", "message": "a"}, "errors", fails="not_found", retryable=False),
    Case("empty", _to(message=""), "errors", fails="schema", retryable=False),
    Case("too_large", _to(message="{{ 'x' * 1048577 }}"), "errors", fails="limit", retryable=False),
    Case("large", _to(messages=["{{ 'x' * 200000 }}", "{{ 'y' * 200000 }}"]), "large result", gives={"{{ _prev.sent }}": 2}),
    Case("secret", _to(message="{{ keychain.matrix.token }}"), "secret", gives={"{{ _prev.sent }}": 1}),
    Case(
        "not_named", {"queue": "closed-orders", "message": "a"}, "rights", fails="auth", retryable=False, on=("stack",),
        says="ToolQueues does not name queue `closed-orders` (it names: matrix-*)",
    ),
    Case("profile", {"queue": "closed-orders", "message": "a"}, "rights", gives={"{{ _prev.sent }}": 1}, on=("local",)),
]  # fmt: skip
