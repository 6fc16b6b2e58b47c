"""Checks the rendered inputs of a task whose kind has actions.

Validation checks the same table (`KindSpec.actions`) if the action is a literal.
"""

from __future__ import annotations

from typing import Any

from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.numbers import BadNumber, duration
from noetl_core.tools.base import BadInput, ToolCall


def action_of(call: ToolCall) -> str:
    """Return the action of the task. Raises `BadInput` for an unknown action, and for missing or unknown inputs; null counts as
    missing."""
    known = KINDS[call.kind]
    word = str(call.inputs.get("action") or known.default_of("action"))
    action = known.actions.get(word)
    if action is None:
        raise BadInput(f"`action` is one of {', '.join(known.actions)}, not {word[:60]!r}")
    names = {name for name, value in call.inputs.items() if value is not None or name in ("data", "value")}
    for group in action.needs:
        if not group & names:
            raise BadInput(f"{word} needs {' or '.join(f'`{name}`' for name in sorted(group))}")
    for name in sorted(known.of_actions & names - action.inputs):
        raise BadInput(f"{word} does not take `{name}`: it takes {', '.join(sorted(action.inputs))}")
    return word


def text(call: ToolCall, name: str) -> str:
    """Return an input that is text and not empty. Raises `BadInput`."""
    value = call.inputs.get(name)
    if not isinstance(value, str) or not value:
        raise BadInput(f"`{name}` must be text, not {_excerpt(value)}")
    return value


def optional_text(call: ToolCall, name: str) -> str | None:
    """Return an input that is text, or None. Raises `BadInput`."""
    return None if call.inputs.get(name) is None else text(call, name)


def choice(call: ToolCall, name: str) -> str:
    """Return an input that is one of the words in its table, or its default. Raises `BadInput`."""
    known = KINDS[call.kind]
    value = call.inputs.get(name)
    value = known.default_of(name) if value is None else value
    if not isinstance(value, str) or value not in known.choices[name]:
        raise BadInput(f"`{name}` is one of {', '.join(known.choices[name])}, not {_excerpt(value)}")
    return value


def seconds(call: ToolCall, name: str) -> float | None:
    """Return an input that is a duration, or its default. Raises `BadInput`."""
    known = KINDS[call.kind]
    value = call.inputs.get(name)
    value = known.default_of(name) if value is None else value
    if value is None:
        return None
    try:
        return duration(value, known.durations[name], f"`{name}`")
    except BadNumber as error:
        raise BadInput(str(error)) from None


def flag_of(call: ToolCall, name: str) -> bool:
    """Return an input that is true or false (the default). Raises `BadInput`."""
    value = call.inputs.get(name)
    if value is not None and not isinstance(value, bool):
        raise BadInput(f"`{name}` must be true or false, not {_excerpt(value)}")
    return bool(value)


def option(call: ToolCall, name: str) -> int:
    """Return a number of the task's `spec`, or its default. Raises `BadInput`."""
    value = call.spec.get(name)
    if value is None:
        return int(next(f.default for f in KINDS[call.kind].options if f.name == name))
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < 1:
        raise BadInput(f"`spec.{name}` must be a whole number from 1, not {_excerpt(value)}")
    return int(value)


def flag(call: ToolCall, name: str) -> bool:
    """Return a switch of the task's `spec`, or its default. Raises `BadInput`."""
    value = call.spec.get(name)
    if value is None:
        return bool(next(f.default for f in KINDS[call.kind].options if f.name == name))
    if not isinstance(value, bool):
        raise BadInput(f"`spec.{name}` must be true or false, not {_excerpt(value)}")
    return value


def _excerpt(value: Any) -> str:
    return f"{value!r:.60}"
