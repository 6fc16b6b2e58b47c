"""`kind: nats` with an operation on key-values is `kind: kv`, which keeps them in the deployment's own store."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.dialect.edits import Edits
from noetl_core.dsl.reading.load import Node
from noetl_core.expr import is_template

ACTIONS: Final = {"kv_get": "get", "kv_put": "put", "kv_delete": "delete", "kv_purge": "delete", "kv_keys": "list"}
_SERVICE: Final = ("auth", "credential", "credentials", "url", "servers", "user", "username", "password", "token")
"""Keys with the address of NATS and the login to it."""


def rewrite_key_values(e: Edits, task: Node, what: str) -> None:
    """Rewrite a task of kind `nats` as one of kind `kv`, where its operation is one on key-values."""
    operation = task.get("operation")
    if operation is None or not isinstance(operation.value, str) or operation.value not in ACTIONS:
        return
    e.put(task, "kind", "kv", task.value["kind"])
    e.put(task, "operation", ACTIONS[operation.value], operation)
    e.move(task, "operation", task, "action")
    for key in _SERVICE:
        if key in task.value:
            message = f"{key} of {what} has no effect: kv keeps values in the deployment's own store, not in NATS"
            e.r.report("W403", (task, key), message, "", "note")
            e.remove(task, key)
    pattern = task.get("pattern")
    if pattern is None:
        return
    prefix = str(pattern.value).removesuffix("*").removesuffix(">")
    if not isinstance(pattern.value, str) or is_template(pattern.value) or set(prefix) & set("*>?"):
        e.r.report(
            "E112",
            pattern,
            f"pattern of {what} must be the beginning of keys, then *",
            "write prefix: and the beginning of the keys",
        )
        e.remove(task, "pattern")
        return
    e.move(task, "pattern", task, "prefix")
    if prefix:
        e.put(task, "prefix", prefix, pattern)
    else:
        e.remove(task, "prefix")
