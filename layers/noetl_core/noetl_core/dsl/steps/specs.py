"""Layers of `spec`: kind defaults < executor < step < loop < task (canonical step spec 3, resolution 16).

`policy`, and keys that the engine reads itself, belong to the scope in which they are written and are not inherited.
"""

from __future__ import annotations

from typing import Any, Final

from noetl_core.dsl.fields.flow import LOOP_SPEC, STEP_SPEC
from noetl_core.dsl.fields.playbook import EXECUTOR_SPEC
from noetl_core.dsl.fields.tools import TIMEOUT_PARTS
from noetl_core.dsl.fields.types import Choice
from noetl_core.dsl.kinds import ALL_SPEC, COMMON_SPEC, KINDS, NO_EFFECT_SPEC
from noetl_core.dsl.numbers import TIMEOUT
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.steps.secret_results import read_result
from noetl_core.expr import is_template

EXECUTOR_KEYS: Final = EXECUTOR_SPEC.keys
STEP_KEYS: Final = STEP_SPEC.keys
LOOP_KEYS: Final = LOOP_SPEC.keys
TASK_KEYS: Final = frozenset({"policy"})


def handed_down(r: Reader, node: Node | None, typed: frozenset[str], what: str, *, extensions: bool) -> dict[str, Any]:
    """Return the settings that the tasks below inherit from a `spec` block. Unknown keys are reported unless extensions are
    on."""
    return _layer(r, node, typed, ALL_SPEC, what, extensions)


def own_spec(r: Reader, node: Node | None, kind: str, what: str, *, extensions: bool) -> dict[str, Any]:
    """Return the task's own spec without its policy. Options with a choice of values are checked only here: in an outer scope
    they may belong to other kinds."""
    known = KINDS.get(kind)
    allowed = COMMON_SPEC | known.spec if known else frozenset[str]()
    own = _layer(r, node, TASK_KEYS, allowed, what, extensions or known is None)
    if known and r.programs and node is not None and isinstance(node.value, dict):  # registered playbooks run as before
        for option in known.options:
            child = node.value.get(option.name)
            if child is not None and isinstance(option.type, Choice) and child.value is not None and not is_template(child.value):
                r.choice(child, option.type.words, f"{option.name} in {what}")
    return own


def _layer(
    r: Reader, node: Node | None, typed: frozenset[str], allowed: frozenset[str], what: str, extensions: bool
) -> dict[str, Any]:
    if node is None:
        return {}
    if extensions:
        entries = {k: v for k, v in r.mapping(node, what).items() if not k.startswith("x-")}
    else:
        entries = r.keys(node, typed | allowed, what, {"next_mode": "next.spec.mode says how arcs fire"})
    r.no_effect(node, NO_EFFECT_SPEC, what)
    out = {}
    for key, child in entries.items():
        if key in typed:
            continue
        if key in ("timeout", "timeout_s") and not (key == "timeout" and isinstance(child.value, dict)):
            if key == "timeout" and "timeout_s" in entries:
                r.report("E114", (node, key), f"{what} has timeout and timeout_s", "keep one")
            out["timeout_s"] = r.number(child, f"{what}.{key} (seconds)", TIMEOUT)
        elif key == "timeout":
            for part, limit in r.keys(child, TIMEOUT_PARTS.keys, f"{what}.timeout").items():
                r.number(limit, f"{what}.timeout.{part} (seconds)", TIMEOUT)
            out[key] = child.plain()
        elif key == "result" and "result" in allowed:
            out[key] = read_result(r, child, f"{what}.result")
        else:
            out[key] = child.plain()
    return out
