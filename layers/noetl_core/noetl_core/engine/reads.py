"""Which finished steps the templates of a step can read: a command carries those, not all that ever ended (DESIGN section 6)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.model import Playbook, Step, Task
from noetl_core.expr import TemplateError, compile_text, is_template

_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_METHODS = frozenset({"get", "items", "keys", "values"})
"""Of a mapping: `steps.items()` reads every step, unless a step is called so."""

def steps_read(playbook: Playbook, name: str) -> frozenset[str] | None:
    """Names of the steps whose results or status the templates of step `name` may read; None: any of them.

    Never too few: `steps` used whole or by a computed key reads all, and a bare name reads the step of that name (resolution 14)
    wherever it stands in a template. Found once per playbook and step.
    """
    known: dict[str, frozenset[str] | None] = playbook.memo.setdefault("steps_read", {})
    if name not in known:
        known[name] = _steps_read(playbook, playbook.by_name[name])
    return known[name]


def _steps_read(playbook: Playbook, step: Step) -> frozenset[str] | None:
    found: set[str] = set()
    for text in _templates(step):
        words = set(_IDENTIFIER.findall(text))
        found |= words & playbook.by_name.keys()
        if "steps" not in words:
            continue
        try:
            paths = [read.path for read in compile_text(text).reads if read.path[0] == "steps"]
        except TemplateError:  # the task that has it fails, whatever it is given
            continue
        if not paths or any(len(p) == 1 or p[1] in _METHODS or p[1] not in playbook.by_name for p in paths):
            return None
        found.update(path[1] for path in paths)
    return frozenset(found)


def _templates(step: Step) -> Iterator[str]:
    """Every template of a step; program text left out, which is never rendered."""
    stack: list[Any] = [step]
    while stack:
        value = stack.pop()
        kind = type(value)
        if kind is str:
            if is_template(value):
                yield value
        elif value is None or kind is bool or kind is int:
            continue
        elif isinstance(value, Mapping):
            stack.extend(value.values())
        elif kind is list or kind is tuple:
            stack.extend(value)
        elif kind is Task and value.kind in KINDS and KINDS[value.kind].raw:
            raw = KINDS[value.kind].raw
            stack.extend(getattr(value, name) for name in Task.__dataclass_fields__ if name != "inputs")
            stack.extend(v for k, v in value.inputs.items() if k not in raw)
        else:
            stack.extend(getattr(value, name) for name in getattr(kind, "__dataclass_fields__", ()))
