"""The cases of `dynamodb`. The stack's parameter `ToolTables` names `matrix-*`."""

from __future__ import annotations

from typing import Any

from tests.matrix.cases import Case
from tests.unit.docs.demo_aws import make_items

leaves_out = {"timeout": "a request of DynamoDB has a timeout of its own; between pages the task's is kept"}


def prepare() -> dict[str, Any]:
    """Tables: one that tools may reach, and one that no parameter names."""
    make_items("matrix-stock")
    make_items("closed-stock")
    return {}


def _in(action: str, **more: Any) -> dict[str, Any]:
    return {"table": "matrix-stock", "action": action, **more}


_KEY = {"pk": "apple", "sk": "1"}
_SUBTRACT = {"update": "SET n = n - :d", "condition": "n >= :d", "values": {"d": 2}}
CASES = [
    Case("put", _in("put", item={**_KEY, "n": 3, "t": [1.5, None]}), gives={"{{ _prev.item.n }}": 3}),
    Case("get", _in("get", key=_KEY, consistent=True), gives={"{{ _prev.item.t }}": [1.5, None], "{{ _prev.found }}": True}),
    Case("update", _in("update", key=_KEY, **_SUBTRACT), gives={"{{ _prev.item.n }}": 1}),
    Case("query", _in("query", where="pk = :pk", values={"pk": "apple"}), gives={"{{ _prev.count }}": 1}),
    Case("again", _in("update", key=_KEY, **_SUBTRACT), "errors", fails="client_error", retryable=False),
    Case("delete", _in("delete", key=_KEY), gives={"{{ _prev.old.n }}": 1}),
    Case("no_table", {"table": "matrix-none", "key": _KEY}, "errors", fails="not_found", retryable=False),
    Case("wrong", _in("get", key="{{ 'apple' }}"), "errors", fails="schema", retryable=False),
    Case("large", _in("put", item={"pk": "large", "sk": "1", "text": "{{ 'x' * 300000 }}"}), "large result"),
    Case(
        "large_read", _in("query", where="pk = :pk", values={"pk": "large"}), "large result",
        gives={"{{ _prev['items'][0].text | length }}": 300000},
    ),
    Case("too_large", _in("put", item={"pk": "l", "sk": "1", "text": "{{ 'x' * 420000 }}"}), "errors", fails="limit", retryable=False),
    Case("secret", _in("put", item={"pk": "s", "sk": "1", "v": "{{ keychain.matrix.token }}"}), "secret", gives={"{{ _prev.item.v }}": "***"}),
    Case(
        "not_named", {"table": "closed-stock", "key": _KEY}, "rights", fails="auth", retryable=False, on=("stack",),
        says="ToolTables does not name table `closed-stock` (it names: matrix-*)",
    ),
    Case("profile", {"table": "closed-stock", "key": _KEY}, "rights", gives={"{{ _prev.found }}": False}, on=("local",)),
]  # fmt: skip
