"""`loop.cursor`: the source from which a loop claims its rows, and the options that can be combined with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl_core.dsl.fields.cursor import CURSOR, OF_KIND, OF_STATEMENTS, OF_TABLE
from noetl_core.dsl.kinds import WAITING_KINDS
from noetl_core.dsl.model import Cursor, Loop, Task
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Content, Reader

OUTSIDE_KINDS = frozenset({"container"})
"""Kinds that the language knows and whose work is done outside."""


def cursor(r: Reader, node: Node, looped: str) -> Cursor:
    """Read the cursor of a loop; `looped` is the loop's name in messages."""
    what = f"cursor of {looped}"
    content = r.read(node, CURSOR, looped)
    kind = content.get("kind")
    if "kind" not in content:
        r.missing(node, "kind", f"{what} has no kind", f"one of {', '.join(OF_KIND)}")
    fields = {name: child.plain() for name, child in content.nodes.items() if name not in ("kind", "lease_s")}
    for name in fields.keys() - OF_KIND.get(kind, frozenset(fields)):
        hint = f"a cursor of kind {kind} takes {', '.join(sorted(OF_KIND[kind]))}"
        r.report("E114", (node, name), f'"{name}" of {what} does not go with kind {kind}', hint)
    if kind == "postgres":
        _postgres(r, node, content, what)
    elif kind == "sqs":
        _sqs(r, node, content, what)
    elif kind == "dynamodb":
        _dynamodb(r, node, content, what)
    return Cursor(kind or "postgres", fields, content.filled("lease_s"), node.path)


def _postgres(r: Reader, node: Node, content: Content, what: str) -> None:
    if "auth" not in content and "connection" not in content:
        r.missing(node, "auth", f"{what} has no auth", "auth: the name of a credential")
    elif "auth" in content and "connection" in content:
        r.report("E114", (node, "connection"), f"{what} has auth and connection", "keep auth")
    table, claim = "table" in content, "claim" in content
    if table == claim:
        message = f"{what} has {'table and claim' if table else 'neither table nor claim'}"
        hint = "with table, the engine writes the SQL that claims its rows; with claim, you write it"
        r.report("E114" if table else "E111", (node, "claim") if table else node, message, hint)
        return
    strangers = OF_STATEMENTS if table else OF_TABLE
    for name in strangers:
        if name in content:
            hint = "the engine writes the statements for a table" if table else "put it into the SQL of claim"
            r.report("E114", (node, name), f'"{name}" of {what} does not go with {"table" if table else "claim"}', hint)
    if table and "done" not in content:
        hint = "done: { state: done }, so that `where` no longer holds; or done: delete"
        r.missing(node, "done", f"{what} has no done, which says what happens to finished rows", hint)
    for name in ("done", "failed"):
        child = content.node(name)
        if child is not None:
            _settled(r, child, table, f"{name} of {what}")
    for name in ("set", "params"):
        r.mapping(content.node(name), f"{name} of {what}")


def _sqs(r: Reader, node: Node, content: Content, what: str) -> None:
    if "queue" not in content:
        r.missing(node, "queue", f"{what} has no queue", "queue: its name or its URL")
    failed = content.node("failed")
    if failed is not None and failed.value != "delete":
        hint = "without failed, messages return to the queue after lease_s, and the queue's redrive policy counts them"
        r.report("E114", failed, f"failed of {what} can only be delete", hint)


def _dynamodb(r: Reader, node: Node, content: Content, what: str) -> None:
    if "table" not in content:
        r.missing(node, "table", f"{what} has no table", "table: the name of a DynamoDB table")
    if "done" not in content:
        hint = "done: { todo: null }, which takes the item out of the index; or done: delete"
        r.missing(node, "done", f"{what} has no done, which says what happens to finished items", hint)
    for name in ("done", "failed"):
        child = content.node(name)
        if child is not None:
            _settled(r, child, True, f"{name} of {what}")
    for name in ("set", "values", "names"):
        r.mapping(content.node(name), f"{name} of {what}")


def _settled(r: Reader, node: Node, table: bool, what: str) -> None:
    if table and not isinstance(node.value, dict) and node.value != "delete":
        r.report("E112", node, f"{what} must be a mapping of columns to values, or the word delete, not {r.word(node)}")
    elif not table:
        r.text(node, what)


def check_cursor(r: Reader, node: Node, loop: Loop, tasks: Sequence[Task]) -> None:
    """Report whatever cannot be combined with the cursor of a step's loop. `node` is that of the loop."""
    if loop.cursor is None:
        return
    for task in tasks:
        if task.kind in WAITING_KINDS or task.kind in OUTSIDE_KINDS:
            message = f"{task.called} of kind {task.kind} waits, and claims of rows would run out meanwhile"
            r.report("E114", (node, "cursor"), message, "collect the waiting items in ctx, and wait in a step after the loop")


def refuse(r: Reader, node: Node, why: str, hint: str) -> None:
    """Report a cursor where no loop may have one."""
    r.report("E114", (node, "cursor"), f"a cursor {why}", hint)


def options(r: Reader, node: Node, content: Content, has_cursor: bool, what: str) -> None:
    """Report options of a loop that mean something only with a cursor, or only without one."""
    spec = content.node("spec")
    values: dict[str, Any] = {"mode": content.get("spec", "mode"), "exec": content.get("spec", "policy", "exec")}
    if has_cursor:
        if values["exec"] == "distributed":
            message = f"{what} has a cursor: one worker claims its rows, so exec cannot be distributed"
            r.report("E114", node, message, "leave exec out; several executions may claim from one source at the same time")
        for at in (spec, content.node("spec", "policy")):
            if at is not None and at.get("chunk_size") is not None:
                r.report(
                    "E114",
                    (at, "chunk_size"),
                    f"{what} has a cursor and chunk_size",
                    "frame says how many rows are claimed at once",
                )
    else:
        for key in ("mode", "frame"):
            if spec is not None and spec.get(key) is not None and (key == "frame" or values["mode"] == "cursor"):
                r.report(
                    "E114",
                    (spec, key),
                    f"{key} of {what} goes with a cursor, and the loop has none",
                    "cursor: { kind: postgres, ... }",
                )
