"""Scripted outcomes of a task: a list of entries, the first of which that fits a call answers it.

    - {attempt: 1, error: {kind: timeout}}
    - {when: "{{ args.page > 2 }}", ok: {rows: []}}
    - {ok: {rows: [1, 2]}}

An entry answers with one of `ok` (the result), `error` (`{kind, message, retryable, code, details}`), `echo: true` (the result is
the inputs) or `echo: spec` (it is the task's effective spec). It may carry helper sections (`http`, `pg`, `py`) and `seconds` (it
takes so long); `optional` allows that it answers no call. With `repeated` it answers only an attempt that was made before, by a
worker that was killed. It fits when all its selectors do: `run` (of the step), `visit` (of the
task, in its pass), `attempt` and `index` (of the innermost iteration), each a number or a list of numbers, and `when` (anything
true). In a list without any selector the entries answer one after the other - runs, visits or attempts -, the last one from then
on. The choice depends only on the call: a repeated call gets the same answer as the first, unless an entry has `repeated`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from noetl_core.engine.outcome import ERROR_KINDS, Outcome
from noetl_core.tools.base import BadInput, ToolCall

SELECTORS: Final = frozenset({"run", "attempt", "visit", "index", "when"})
ANSWERS: Final = frozenset({"ok", "error", "echo"})
HELPERS: Final = frozenset({"http", "pg", "py"})
KEYS: Final = SELECTORS | ANSWERS | HELPERS | {"seconds", "optional", "repeated"}
ERROR_KEYS: Final = frozenset({"kind", "message", "retryable", "code", "details"})


def chosen(script: Any, call: ToolCall, holds: Callable[[Any], bool] = bool, run: int = 1, *, repeated: bool = False) -> Any:
    """Return the entry that answers `call`. `holds` evaluates `when`; `run` is the ordinal of the step's run; `repeated`: the
    attempt was made before.

    Raises `BadInput`.
    """
    if not isinstance(script, list) or not script:
        raise BadInput("outcomes must be a list of answers")
    for entry in script:
        check(entry)
    place = {"run": run, "attempt": call.attempt, "visit": call.visit, "index": call.path[-1] if call.path else None}

    def fits(entry: Mapping[str, Any]) -> bool:
        numbers = all(_fits(entry, name, value) for name, value in place.items())
        return numbers and ("when" not in entry or holds(entry["when"]))

    for entry in script if repeated else ():
        if entry.get("repeated") and fits(entry):
            return entry
    script = [entry for entry in script if not entry.get("repeated")]
    if script and not any(SELECTORS & entry.keys() for entry in script):
        return script[min(run + call.visit + call.attempt - 3, len(script) - 1)]
    for entry in script:
        if fits(entry):
            return entry
    raise BadInput(f"no outcome for run {run}, attempt {call.attempt}, visit {call.visit}, iteration {list(call.path)}")


def check(entry: Any) -> None:
    """Raise `BadInput` unless `entry` is an entry of a script."""
    if not isinstance(entry, Mapping) or not ANSWERS & entry.keys():
        raise BadInput(f"an outcome must have one of {', '.join(sorted(ANSWERS))}: {entry!r}")
    if unknown := entry.keys() - KEYS:
        raise BadInput(f"unknown key {sorted(unknown)[0]!r} in an outcome; known are {', '.join(sorted(KEYS))}")
    error = entry.get("error")
    if error is not None and (not isinstance(error, Mapping) or error.keys() - ERROR_KEYS):
        raise BadInput(f"an error has {', '.join(sorted(ERROR_KEYS))}: {error!r}")
    if error is not None and error.get("kind", "unknown") not in ERROR_KINDS:
        raise BadInput(f"{error['kind']!r} is not a kind of error; the kinds are {', '.join(sorted(ERROR_KINDS))}")


def outcome_of(entry: Mapping[str, Any], inputs: Any, spec: Mapping[str, Any]) -> Outcome:
    """Return the outcome that an entry gives a call with these inputs and this spec."""
    helpers = {name: entry[name] for name in sorted(HELPERS & entry.keys())}
    if "error" in entry:
        return Outcome.failed(**{"kind": "unknown", "message": "scripted", **entry["error"]}, **helpers)
    echo: dict[Any, Any] = {"spec": dict(spec), True: inputs}
    return Outcome.ok(echo[entry["echo"]] if entry.get("echo") else entry.get("ok"), **helpers)


def _fits(entry: Mapping[str, Any], name: str, value: int | None) -> bool:
    choices = entry.get(name)
    if choices is None:
        return True
    return value in choices if isinstance(choices, Sequence) else value == choices
