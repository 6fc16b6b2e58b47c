"""Accepted spellings in template text -> the canonical ones, in place, before the model is read.

`output` for `outcome` in task policies, `call.done`, `call.error` and `step.exit` as event names in guards, bare step names for
`steps.<name>.result`. Only what a template reads by name is touched, found by its position, and names that anything
else in the playbook may bind are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from noetl_core.dsl.load import Node
from noetl_core.dsl.reader import Reader
from noetl_core.dsl.tasks import RESERVED
from noetl_core.dsl.templates import scalars_below
from noetl_core.expr import FUNCTIONS, Read, compile_text

Rewrite = Callable[[str], str]

_DATA: Final = re.compile(r"""output\s*(?:\.\s*data\b|\[\s*(?:'data'|"data")\s*\])""")
_EVENT_NAME: Final = re.compile(r"""(['"])(call\.done|call\.error|step\.exit)\1""")
_BINDING: Final = frozenset({"args", "input", "set_ctx", "set_iter", "set", "payload"})


def rewrite_variants(r: Reader, root: Node) -> None:
    """Change the text of template scalars where it uses an accepted spelling."""
    workflow = root.get("workflow")
    steps = [s for s in workflow.value if isinstance(s.value, dict)] if workflow and isinstance(workflow.value, list) else []
    for step in steps:
        tool = step.get("tool")
        if tool is not None:
            _outputs(r, tool)
        _event_names(r, step)
    book = root.get("workbook")
    if book is not None:
        _outputs(r, book)
    names = {str(s.value["step"].value) for s in steps if "step" in s.value}
    bare = names & {read.path[0] for reads in r.reads.values() for read in reads}
    bare -= RESERVED | frozenset(FUNCTIONS) | _bound(root) if bare else set()
    for step in steps if bare else ():
        _bare_names(r, step, bare - set(_task_names(step.get("tool"))))
    executor = root.get("executor")
    if bare and executor is not None:
        _bare_names(r, executor, bare)


# --- output -> outcome --------------------------------------------------------------------------------------------------


def _outputs(r: Reader, node: Node) -> None:
    """Below every task: its policy and what it writes itself."""
    if isinstance(node.value, list):
        for child in node.value:
            _outputs(r, child)
    elif isinstance(node.value, dict):
        kind = node.get("kind")
        if kind is None or not isinstance(kind.value, str):
            for child in node.value.values():
                _outputs(r, child)
            return
        data = "outcome.result.data" if kind.value == "http" else "outcome.result"
        for key in ("spec", "set_ctx", "set_iter", "set"):
            part = node.get(key)
            for scalar in scalars_below(part) if part is not None else ():
                reads = [read for read in r.reads.get(scalar.value, ()) if read.path[0] == "output"]
                _replace(r, scalar, reads, partial(_outcome, data))


def _outcome(data: str, text: str) -> str:
    """`text` begins with `output`; `data` is what `output.data` stands for."""
    found = _DATA.match(text)
    return data + text[found.end() :] if found else "outcome" + text[len("output") :]


# --- event names --------------------------------------------------------------------------------------------------------


def _event_names(r: Reader, step: Node) -> None:
    """The older names of a step's own boundary, in its arcs."""
    done = "loop.done" if step.get("loop") is not None else "step.done"
    names = {"call.done": done, "step.exit": done, "call.error": "step.failed"}
    router = step.get("next")
    for scalar in scalars_below(router) if router is not None else ():
        if "event" in scalar.value and _EVENT_NAME.search(scalar.value):
            _set(r, scalar, _EVENT_NAME.sub(lambda m: m[1] + names[m[2]] + m[1], scalar.value))


# --- bare step names ----------------------------------------------------------------------------------------------------


def _bare_names(r: Reader, node: Node, names: set[str]) -> None:
    for scalar in scalars_below(node):
        reads = [read for read in r.reads.get(scalar.value, ()) if read.path[0] in names]
        _replace(r, scalar, reads, _step_result)


def _step_result(text: str) -> str:
    name = re.match(r"\w+", text)
    assert name is not None
    return f"steps.{name[0]}.result{text[name.end() :]}"


def _bound(root: Node) -> set[str]:
    """Every name that args, ctx, iter or workload may hold: a bare name reads those first (resolution 14)."""
    out: set[str] = set()
    workload = root.get("workload")
    if workload is not None and isinstance(workload.value, dict):
        out |= set(workload.value)
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node.value, list):
            stack.extend(node.value)
        elif isinstance(node.value, dict):
            for key, child in node.value.items():
                if key in _BINDING and isinstance(child.value, dict):
                    out |= {k.partition(".")[2] or k for k in child.value}
                elif key == "iterator" and isinstance(child.value, str):
                    out.add(child.value)
                stack.append(child)
    return out


def _task_names(node: Node | None) -> Iterator[str]:
    """Names and labels of the tasks below a step's tool."""
    if node is None:
        return
    if isinstance(node.value, list):
        for child in node.value:
            yield from _task_names(child)
    elif isinstance(node.value, dict):
        name = node.get("name")
        if name is not None and isinstance(name.value, str):
            yield name.value
        for key, child in node.value.items():
            if isinstance(child.value, dict) and "kind" in child.value:
                yield key
            yield from _task_names(child)


# --- text ---------------------------------------------------------------------------------------------------------------


def _replace(r: Reader, scalar: Node, reads: list[Read], rewrite: Rewrite) -> None:
    """Apply `rewrite` to the text from each read on, the last one first."""
    if not reads:
        return
    text: str = scalar.value
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for at in sorted({starts[read.line - 1] + read.column - 1 for read in reads}, reverse=True):
        text = text[:at] + rewrite(text[at:])
    _set(r, scalar, text)


def _set(r: Reader, scalar: Node, text: str) -> None:
    scalar.value = text
    r.reads[text] = compile_text(text).reads
