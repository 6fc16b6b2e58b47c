"""Checks results that are declared secret (`spec.result.secret`): the tasks that have one, its fields, and the places that may
read it (E114, E210).

Only the worker that runs its step knows a secret result: the log has its mask. Templates that the control plane or other steps
evaluate must therefore not need it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from noetl_core.dsl.model import Playbook, Step, Task
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.templates import scalars_below
from noetl_core.expr import Read
from noetl_core.expr.views import OF_RESPONSE

FIELD_PATH: Final = re.compile(r"^[^\s.{}]+(\.[^\s.{}]+)*$")
"""A field of a result, or of a part of it."""
RECORDED: Final[Mapping[str, str]] = {
    "playbook": "the log of the called execution has it",
    "callback": "the answer is in the log before the task has it",
    "wait": "the task waits and has no result of its own",
    "store": "the task stores its input",
    "artifact": "the task stores its input",
}
"""Kinds whose result cannot be secret, and why."""

Fields = tuple[tuple[str, ...], ...]


def secret_fields(task: Task) -> Fields | None:
    """Return the secret fields of a task's result, as paths; one empty path where all of it is secret, None where nothing is."""
    result = task.spec.get("result")
    secret = result.get("secret") if isinstance(result, Mapping) else None
    if secret is True:
        return ((),)
    return tuple(tuple(path.split(".")) for path in secret) if secret else None


def read_result(r: Reader, node: Node, what: str) -> dict[str, Any]:
    """Read `spec.result` of a task, or of a scope around tasks."""
    entries = r.keys(node, frozenset({"secret"}), what)
    secret = entries.get("secret")
    if secret is None:
        return {}
    value = secret.plain()
    if isinstance(value, bool):
        return {"secret": value}
    if not isinstance(value, list) or not value or not all(isinstance(v, str) and FIELD_PATH.match(v) for v in value):
        r.report("E112", secret, f"secret of {what} must be true or false, or a list of fields", "[access_token, user.email]")
        return {}
    return {"secret": value}


def check_kind(r: Reader, task: Task, node: Node) -> None:
    """Report a secret result of a kind whose result is recorded elsewhere."""
    if secret_fields(task) is None or task.kind not in RECORDED:
        return
    spec = node.get("spec")
    at = (spec, "result") if spec is not None and spec.get("result") is not None else node
    message = f'the result of task "{task.name}" ({task.kind}) cannot be secret: {RECORDED[task.kind]}'
    r.report("E114", at, message, "write spec.result on the tasks that get the secret")


def check_readers(r: Reader, root: Node, playbook: Playbook) -> None:
    """Report templates that read a secret result where it is not available."""
    secret = {step.name: fields for step in playbook.steps if (fields := _of_step(step)) is not None}
    workflow = root.get("workflow")
    if not secret or workflow is None or r.failed:
        return
    places = [place for key in ("executor", "workflow", "workbook") if (place := root.get(key)) is not None]
    for scalar, read in _reads(r, places):
        if read.path[0] == "steps" and read.path[2:3] == ("result",) and read.path[1] in secret:
            _check(r, scalar, read, 3, read.path[1], secret[read.path[1]])
    for step, node in zip(playbook.steps, workflow.value, strict=True):
        if step.name not in secret:
            continue
        arcs = [part for key in ("next", "set_ctx", "set") if (part := node.get(key)) is not None]
        for scalar, read in _reads(r, arcs):
            if read.path[:2] == ("event", "result"):
                _check(r, scalar, read, 2, step.name, secret[step.name])


def _of_step(step: Step) -> Fields | None:
    """Return the secret fields of a step's result, which is that of its last task."""
    fields = secret_fields(step.tasks[-1]) if step.tasks else None
    if fields is None or step.tasks[-1].kind != "http":
        return fields
    below = {("data", *path) for path in fields if path and path[0] not in (*OF_RESPONSE, "data", "headers", "status", "url")}
    response_fields = {(OF_RESPONSE[path[0]], *path[1:]) for path in fields if path and path[0] in OF_RESPONSE}
    every = {*fields, *below, *response_fields}
    return tuple(every | {("body", *path[1:]) for path in every if path[:1] == ("data",)})


def _reads(r: Reader, places: Sequence[Node]) -> Iterator[tuple[Node, Read]]:
    for place in places:
        for scalar in scalars_below(place):
            yield from ((scalar, read) for read in r.reads.get(scalar.value, ()))


def _check(r: Reader, scalar: Node, read: Read, at: int, step: str, fields: Fields) -> None:
    rest = read.path[at:]
    if not any(rest[: len(field)] == field for field in fields):
        return
    place = (scalar.line, scalar.col) if scalar.rewritten else r.loaded.position(scalar, read.line, read.column)
    message = f'{".".join(read.path)} is secret: only the tasks of step "{step}" have it, the log has ***'
    r.report_at("E210", place, scalar.path, message, "use it in a later task of that step")
