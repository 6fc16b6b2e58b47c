"""The cases of `kv`."""

from __future__ import annotations

from typing import Any

from tests.matrix.cases import Case

leaves_out = {
    "timeout": "it reads and writes one item of the engine's own table, which has a timeout of its own",
    "rights": "it is open to all tasks of the default pool, as the page says",
}


def _put(key: str, **more: Any) -> dict[str, Any]:
    return {"action": "put", "bucket": "matrix", "key": key, "value": 1, **more}


CASES = [
    Case("put", _put("a", value={"n": 1}), gives={"{{ _prev.key }}": "a"}),
    Case("get", {"bucket": "matrix", "key": "a"}, gives={"{{ _prev.value }}": {"n": 1}, "{{ _prev.revision == put.revision }}": True}),
    Case("absent", {"bucket": "matrix", "key": "none", "default": 0}, gives={"{{ [_prev.found, _prev.value] }}": [False, 0]}),
    Case("list", {"action": "list", "bucket": "matrix", "prefix": "a"}, gives={"{{ _prev['keys'] }}": ["a"]}),
    Case("swap", _put("a", if_revision="{{ put.revision }}"), gives={"{{ _prev.key }}": "a"}),
    Case("delete", {"action": "delete", "bucket": "matrix", "key": "a"}, gives={"{{ _prev.deleted }}": True}),
    Case("taken", _put("t", if_absent=True), "errors", fails="client_error", retryable=False, says="its revision is", before=[
        {"kind": "kv", **_put("t")}]),
    Case("overtaken", _put("t", if_revision="other"), "errors", fails="client_error", retryable=False),
    Case("wrong", _put("{{ none }}"), "errors", fails="schema", retryable=False),
    Case(
        "too_many", {"action": "list", "bucket": "many", "spec": {"max_keys": 1}}, "errors", fails="limit", retryable=False,
        before=[{"kind": "kv", **_put(key, bucket="many")} for key in ("a", "b")],
    ),
    Case("large", _put("large", value="{{ 'x' * 200000 }}"), "large result"),
    Case("large_read", {"bucket": "matrix", "key": "large"}, "large result", gives={"{{ _prev.value | length }}": 200000}),
    Case("secret", _put("s", value="{{ keychain.matrix.token }}"), "secret", fails="schema", says="refuses secrets"),
]  # fmt: skip
