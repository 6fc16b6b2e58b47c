"""The keys of test files: the type of each, and a sentence about it. Reader and JSON Schema follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from noetl_core.engine.outcome import ERROR_KINDS
from noetl_core.testing.acts import ACTS


class Key(NamedTuple):
    """A key: the JSON type of its value (empty: any), and its meaning."""

    type: str
    doc: str


SHARED: Final[Mapping[str, Key]] = {
    "playbook": Key(
        "string",
        "The playbook's file, beside the test file. By default it is NAME.yaml for NAME.test.yaml, or else playbook.yaml.",
    ),
    "playbooks": Key(
        "array",
        "Files of further playbooks that the tested playbook calls; files in the tested playbook's folder need not be listed.",
    ),
    "payload": Key("object", "The payload of the request, merged over the workload."),
    "ctx": Key("object", "The initial ctx."),
    "trigger": Key(
        "object",
        "The trigger that starts the execution: its name or kind, and the keys that templates read (event, id, scheduled_at, "
        "previous_at).",
    ),
    "secrets": Key("object", "Credentials by name, each a mapping of fields."),
    "strict": Key("boolean", "true: undefined values in templates, and errors that no rule matches, are failures."),
    "now": Key("string", "The instant at which the test begins (ISO 8601); 2026-01-01T00:00:00Z if omitted."),
    "tools": Key("object", "The outcomes of tasks, by STEP.TASK, STEP, workbook.TASK or PATH#STEP.TASK."),
}
"""Keys of a case that a document may state once for all of its cases."""
CASE: Final[Mapping[str, Key]] = {
    "test": Key("string", "The name of the case."),
    "desc": Key("string", "What the case shows."),
    **SHARED,
    "acts": Key("array", "What happens from outside, in order."),
    "expect": Key("object", "What is expected of the execution; `status: completed` if neither status nor error is given."),
}
DOCUMENT: Final[Mapping[str, Key]] = {**SHARED, "tests": Key("array", "The cases.")}
EXPECT: Final[Mapping[str, Key]] = {
    "status": Key(
        "string",
        "completed, failed or cancelled; with waiting, paused or stuck, the case ends when the execution has this status.",
    ),
    "result": Key("", "The result of the playbook."),
    "ctx": Key("object", "The ctx at the end."),
    "error": Key("object", "The error with which the execution failed; keys that are omitted do not matter."),
    "warnings": Key("", "The number of groups of warnings, or a list of these groups."),
    "steps": Key("object", "Steps by name, as `noetl show` has them; keys that are omitted do not matter."),
    "path": Key("array", "The steps in the order in which they were scheduled; `...` stands for any number of steps, even none."),
    "calls": Key("object", "By task, the number of its calls, or a list with the inputs of each."),
    "events": Key(
        "array",
        "The history: each event is `Name`, `Name step`, `Name step.task`, or a mapping of its fields; `...` stands for any "
        "number of events, even none.",
    ),
    "never": Key("array", "Events that do not occur."),
    "count": Key("object", "How often events occur."),
    "seconds": Key("number", "The virtual time that the execution took."),
    "refused": Key("string", "The message with which the start is refused, for example because the payload does not fit."),
}
ACT: Final[Mapping[str, Key]] = {
    "signal": Key("string", "The name of a signal to send, as soon as a task waits for it."),
    "callback": Key("string", "The task to answer (STEP.TASK or STEP), as soon as it waits."),
    "cancel": Key("null", "Cancels the execution."),
    "pause": Key("null", "Pauses the execution."),
    "resume": Key("null", "Resumes the execution, as soon as it is paused."),
    "data": Key("", "The data of the signal, or the answer to the callback."),
    "error": Key("", "An error as the answer to the callback: a message, or {kind, message}."),
    "heartbeat": Key("boolean", "true: the answerer only reports that it is alive."),
    "reason": Key("string", "The reason to cancel."),
    "compensate": Key("boolean", "true: cancelling runs the compensations."),
    "at": Key("string", "The act waits until the execution has this status."),
    "after": Key("", "The act happens this much later than it would without `after`, for example 30m."),
}
OUTCOME: Final[Mapping[str, Key]] = {
    "ok": Key("", "The result of the task."),
    "error": Key("object", "The error of the task: kind, message, retryable, code, details."),
    "echo": Key("", "true: the result is the inputs of the task; spec: the result is its effective spec."),
    "http": Key("object", "status and headers of a response."),
    "pg": Key("object", "`outcome.pg` of a database error."),
    "py": Key("object", "`outcome.py` of an exception: exception_type, message, traceback."),
    "seconds": Key("number", "How long the call takes, in virtual time."),
    "run": Key("", "The run of the step that the outcome answers; a list selects several."),
    "attempt": Key("", "The attempt that the outcome answers; a list selects several."),
    "visit": Key(
        "", "The visit of the task that the outcome answers, counted within one pass of the pipeline; a list selects several."
    ),
    "index": Key("", "The iteration of the innermost loop that the outcome answers; a list selects several."),
    "when": Key(
        "",
        "The outcome answers only if this template is true. It reads inputs, run, visit, attempt, path, args, workload and ctx.",
    ),
    "repeated": Key(
        "boolean", "true: the outcome answers only the repetition of an attempt of a killed worker (`noetl simulate`)."
    ),
    "optional": Key("boolean", "true: the outcome need not answer any call."),
}
ERROR: Final[Mapping[str, Key]] = {
    "kind": Key("string", f"One of {', '.join(sorted(ERROR_KINDS))}."),
    "message": Key("string", "The message."),
    "retryable": Key("boolean", "Whether a retry may help; if omitted, the kind decides."),
    "code": Key("", "The code of the service."),
    "details": Key("", "Further data."),
}


def test_schema() -> dict[str, Any]:
    """Return the JSON Schema of test files, for editors."""
    outcome = _object(OUTCOME, error=_object(ERROR))
    tools = {"type": "object", "additionalProperties": {"anyOf": [outcome, {"type": "array", "items": outcome}]}}
    act = {**_object(ACT), "oneOf": [{"required": [name]} for name in ACTS]}
    shaped: dict[str, Any] = {"tools": tools, "acts": {"type": "array", "items": act}, "expect": _object(EXPECT)}
    case = {**_object(CASE, **shaped), "required": ["test"]}
    document = {**_object(DOCUMENT, tools=tools, tests={"type": "array", "items": case}), "required": ["tests"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A test file of NoETL playbooks",
        "anyOf": [case, document, {"type": "array", "items": case}],
    }


test_schema.__test__ = False  # type: ignore[attr-defined]  # pytest: it is no test


def _object(keys: Mapping[str, Key], **shapes: Any) -> dict[str, Any]:
    properties = {name: {**_type(key), **shapes.get(name, {}), "description": key.doc} for name, key in keys.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _type(key: Key) -> dict[str, Any]:
    return {"type": [key.type, "object"] if key.type == "null" else key.type} if key.type else {}
