"""The cases of `eventbridge`. The stack's parameter `ToolEventBuses` names `matrix-*`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from noetl_core.adapters.aws.clients import client
from tests.matrix.cases import Case

leaves_out = {
    "timeout": "a request has a timeout of its own; between requests the task's is kept (`unit/tools/test_eventbridge.py`)"
}


def prepare() -> dict[str, Any]:
    """Buses: one that tools may put events on, and one that no parameter names."""
    events = client("events")
    for name in ("matrix-shop", "closed-shop"):
        with suppress(events.exceptions.ResourceAlreadyExistsException):
            events.create_event_bus(Name=name)
    return {}


def _on(bus: str = "matrix-shop", **more: Any) -> dict[str, Any]:
    return {"bus": bus, "source": "shop.orders", "detail_type": "OrderPlaced", **more}


CASES = [
    Case("put", _on(detail={"a": 1}, resources=["arn:aws:s3:::a"]), gives={"{{ _prev.sent }}": 1}),
    Case("many", _on(details=[{"n": n} for n in range(25)]), gives={"{{ _prev.event_ids | unique | list | length }}": 25}),
    Case("no_mapping", _on(details=["a"]), "errors", fails="schema", retryable=False),
    Case("too_large", _on(detail={"t": "{{ 'x' * 1048577 }}"}), "errors", fails="limit", retryable=False),
    Case(
        "large", _on(details=[{"t": "{{ 'x' * 700000 }}"}, {"t": "{{ 'y' * 700000 }}"}]), "large result",
        gives={"{{ _prev.sent }}": 2},
    ),
    Case("secret", _on(detail={"t": "{{ keychain.matrix.token }}"}), "secret", gives={"{{ _prev.sent }}": 1}),
    Case(
        "not_named", _on("closed-shop", detail={}), "rights", fails="auth", retryable=False, on=("stack",),
        says="ToolEventBuses does not name event bus `closed-shop` (it names: matrix-*)",
    ),
    Case("profile", _on("closed-shop", detail={"a": 1}), "rights", gives={"{{ _prev.sent }}": 1}, on=("local",)),
]  # fmt: skip
