"""`step.loop` (formal specification 2.3 and 7; canonical step spec 5.3 and 8; resolutions 9, 10, 17 and 29)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from noetl_core.dsl.fields.flow import LOOP, LOOP_SPEC, REDUCERS
from noetl_core.dsl.model import UNSET, FailureMode, Loop
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Content, Reader
from noetl_core.dsl.steps.cursors import cursor, options, refuse
from noetl_core.dsl.steps.tasks import RESERVED
from noetl_core.expr import is_template

MAX_DEPTH: Final = 8


def loop(r: Reader, node: Node, step: str, failure: FailureMode, depth: int = 1) -> Loop | None:
    """Read one loop, with the loops inside it (`loop.loop`). `failure`: the failure mode of the step."""
    what = f'loop of step "{step}"'
    content = r.read(node, LOOP, what)
    cursor_node = content.node("cursor")
    missing = [k for k in ("in", "iterator") if k not in content and (k != "in" or cursor_node is None)]
    if missing:
        message = f"{what} has no {' and no '.join(missing)}"
        r.missing(node, missing[0], message, "a loop needs the key `iterator`, and either `in` or `cursor`", code="E117")
    if cursor_node is not None and "in" in content:
        r.report(
            "E114",
            (node, "in"),
            f"{what} has both `in` and `cursor`",
            "keep one: `in` gives a list, `cursor` claims rows of a table or messages of a queue",
        )
    if cursor_node is not None and depth > 1:
        refuse(r, node, "belongs to the outermost loop of a step", "claim rows there, and loop over the content of each")
    options(r, node, content, cursor_node is not None, what)
    if depth > MAX_DEPTH:
        r.report("E124", node, f"{what} nests deeper than {MAX_DEPTH}", "use a child playbook")
        return None
    iterator = content.get("iterator")
    if iterator in RESERVED | {"index", "parent"}:
        r.report("E115", content.nodes["iterator"], f'iterator "{iterator}" hides a name the loop needs', "choose another name")
    source = content.node("in")
    if source is not None and not isinstance(source.value, list | dict) and not is_template(source.value):
        r.report("E112", source, f"in of {what} must be a list or an expression, not {r.word(source)}", 'write "{{ ... }}"')
    inner = content.node("loop")
    return Loop(
        in_=source.plain() if source is not None else [],
        iterator=iterator or "item",
        mode="parallel" if (mode := _either(content, "mode")) == "cursor" else mode,
        max_in_flight=_either(content, "max_in_flight"),
        exec=content.get("spec", "policy", "exec"),
        chunk_size=_either(content, "chunk_size"),
        commit_every=content.get("spec", "commit_every"),
        reducers=_reducers(r, content.node("spec", "policy", "reducers"), what),
        failure_mode=content.get("spec", "policy", "failure", "mode") or failure,
        tolerated_count=content.get("spec", "policy", "failure", "tolerated_count"),
        tolerated_percent=content.get("spec", "policy", "failure", "tolerated_percent"),
        inner=None if inner is None else loop(r, inner, step, failure, depth + 1),
        cursor=None if cursor_node is None else cursor(r, cursor_node, what),
        frame=frame if (frame := content.get("spec", "frame")) is not None else LOOP_SPEC["frame"].default,
        path=node.path,
    )


def _either(content: Content, key: str) -> Any:
    """Read the options that may be in the loop's spec or in its policy; the spec has precedence (resolution 29)."""
    own, other = content.get("spec", key), content.get("spec", "policy", key)
    value = other if own is None else own
    field = LOOP_SPEC[key]
    return field.default if value is None and field.default is not UNSET else value


def _reducers(r: Reader, node: Node | None, what: str) -> dict[str, str]:
    out = {}
    for key, child in r.mapping(node, f"reducers of {what}").items():
        word = r.choice(child, REDUCERS, f"reducer of {key} in {what}")
        if word is not None:
            out[key] = word
    return out


def iterators(looped: Loop | None) -> Iterator[str]:
    """Return the names of the elements, from the outermost loop in."""
    while looped is not None:
        yield looped.iterator
        looped = looped.inner
