"""`kind: scripted`: a task whose outcomes are written in the playbook.

    kind: scripted
    given: {url: "..."}          # anything; what a script with `echo` answers
    outcomes:                    # the first entry that fits answers
      - {attempt: 1, error: {kind: timeout}}
      - {when: "{{ iter.page > 2 }}", ok: {rows: []}}
      - {ok: {rows: [1, 2]}}

An entry answers with one of `ok` (the result), `error` (`{kind, message, retryable, code, details}`), `echo: true` (the result is
`given`) or `echo: spec` (it is the task's effective spec), and may carry helper sections (`http`, `pg`, `py`) and `seconds` (it
takes so long). It fits when all its selectors do:
`attempt`, `visit` (of the task, in its pass) and `index` (of the innermost iteration), each a number or a list of numbers, and
`when` (anything true). In a list without any selector the entries answer one after the other - attempts, or visits -, the last
one from then on. The choice is a function of the call alone: a worker that takes over gets what the first one got.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl_core.engine.outcome import ERROR_KINDS, Outcome
from noetl_core.tools.base import BadInput, ToolCall

SELECTORS = frozenset({"attempt", "visit", "index", "when"})
ANSWERS = frozenset({"ok", "error", "echo"})
HELPERS = frozenset({"http", "pg", "py"})
KEYS = SELECTORS | ANSWERS | HELPERS | {"seconds"}
ERROR_KEYS = frozenset({"kind", "message", "retryable", "code", "details"})


class ScriptedTool:
    """Answers as it is told."""

    kind = "scripted"
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        entry = chosen(call.inputs.get("outcomes"), call)
        if entry.get("seconds"):
            call.cancelled.wait(float(entry["seconds"]))
        helpers = {k: entry[k] for k in HELPERS if k in entry}
        if "error" in entry:
            error = {"kind": "unknown", "message": "scripted", **entry["error"]}
            return Outcome.failed(**error, **helpers)
        echo = {"spec": dict(call.spec), True: call.inputs.get("given")}
        return Outcome.ok(echo[entry["echo"]] if entry.get("echo") else entry.get("ok"), **helpers)


def chosen(script: Any, call: ToolCall) -> Any:
    """The entry that answers `call`. Raises `BadInput`."""
    if not isinstance(script, list) or not script:
        raise BadInput("outcomes must be a list of what to answer")
    for entry in script:
        check(entry)
    if not any(SELECTORS & entry.keys() for entry in script):
        return script[min(call.visit + call.attempt - 2, len(script) - 1)]
    place = {"attempt": call.attempt, "visit": call.visit, "index": call.path[-1] if call.path else None}
    for entry in script:
        if entry.get("when", True) and all(_fits(entry, name, value) for name, value in place.items()):
            return entry
    raise BadInput(f"no outcome for attempt {call.attempt}, visit {call.visit}, iteration {list(call.path)}")


def check(entry: Any) -> None:
    """Raises `BadInput` unless `entry` is an entry of a script."""
    if not isinstance(entry, Mapping) or not ANSWERS & entry.keys():
        raise BadInput(f"an outcome has one of {', '.join(sorted(ANSWERS))}: {entry!r}")
    if unknown := entry.keys() - KEYS:
        raise BadInput(f"unknown key {sorted(unknown)[0]!r} in an outcome; known are {', '.join(sorted(KEYS))}")
    error = entry.get("error")
    if error is not None and (not isinstance(error, Mapping) or error.keys() - ERROR_KEYS):
        raise BadInput(f"an error has {', '.join(sorted(ERROR_KEYS))}: {error!r}")
    if error is not None and error.get("kind", "unknown") not in ERROR_KINDS:
        raise BadInput(f"{error['kind']!r} is no kind of error; there are {', '.join(sorted(ERROR_KINDS))}")


def _fits(entry: Mapping[str, Any], name: str, value: int | None) -> bool:
    wanted = entry.get(name)
    if wanted is None:
        return True
    return value in wanted if isinstance(wanted, Sequence) else value == wanted
