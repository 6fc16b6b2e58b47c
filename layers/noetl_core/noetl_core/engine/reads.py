"""Finds the finished steps that templates can read. A command carries the results of these steps only, not of all finished
ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from noetl_core.dsl.derived import derived
from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.model import Playbook, Task
from noetl_core.engine.records import Boundary
from noetl_core.engine.state import State
from noetl_core.expr import METHODS, TemplateError, compile_text, is_template

if TYPE_CHECKING:
    from noetl_core.engine.needs import BoundaryNeed

_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_PLAIN = frozenset({"name", "kind", "path", "label", "desc", "pool", "mode", "index", "inputs"})
"""Fields of the model without templates; and `inputs`, some of which may be program text."""
_PARTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
"""Class of the model -> its fields that may contain templates (and the class itself, so that there are always two)."""


@derived
def steps_read(playbook: Playbook, name: str) -> frozenset[str] | None:
    """Return the names of the steps whose results or status the templates of step `name` may read; None means any step.

    It never returns too few: `steps` used as a whole or with a computed key reads all, and a bare name reads the step of that
    name (resolution 14) wherever it stands in a template. Computed once per playbook and step.
    """
    return _steps_read(playbook, [playbook.by_name[name]])


def needs_of(playbook: Playbook, state: State, boundaries: Sequence[Boundary]) -> Iterator[BoundaryNeed]:
    """Yield the results of finished steps that routing `boundaries` may read, as far as templates name them. A decision can
    request values itself, but then it starts again; foreseeable values are loaded before."""
    for boundary in boundaries:
        run = state.runs.get(boundary.run_id)
        if run is None or boundary.event.name == "StepSuspended":
            continue
        yield from _results(state, _routing_reads(playbook, run.step))


def result_template(playbook: Playbook, state: State) -> Any:
    """Return the template of the execution's result: of the step that its caller wants, else `executor.spec.result`; `UNSET` for
    the result of the step that ended last."""
    step = state.parent.get("return_step") if state.parent is not None else None
    return playbook.executor.result if step is None else f"{{{{ steps[{step!r}].result }}}}"


def result_needs(playbook: Playbook, state: State, template: Any) -> Iterator[BoundaryNeed]:
    """Return the results of finished steps that the result of the execution may read, as far as its templates name them."""
    if template is not playbook.executor.result:
        yield from _results(state, _steps_read(playbook, [template]) or ())
        return
    yield from _results(state, _result_reads(playbook))


@derived
def _result_reads(playbook: Playbook) -> frozenset[str]:
    """Return the steps that `executor.spec.result` reads."""
    return _steps_read(playbook, [playbook.executor.result]) or frozenset()


@derived
def admissions_on_steps(playbook: Playbook) -> frozenset[str]:
    """Return the steps whose admission rules may read how other steps have ended."""
    guarded = [step for step in playbook.steps if step.admission is not None]
    return frozenset(step.name for step in guarded if _steps_read(playbook, [step.admission]) != frozenset())


def _results(state: State, names: Iterable[str]) -> Iterator[BoundaryNeed]:
    for name in names:
        at = state.steps[name].at if name in state.steps else None
        if at is not None and "run" in at:
            yield ("boundary", at["run"], at["seq"])


@derived
def _routing_reads(playbook: Playbook, name: str) -> frozenset[str]:
    """Return the steps that the arcs of step `name` read, and those that the admission and the args of their targets read."""
    step = playbook.by_name[name]
    targets = [playbook.by_name[arc.step] for arc in step.router.arcs] if step.router else []
    parts = [step.set_ctx, step.router, *(part for t in targets for part in (t.admission, t.args))]
    return _steps_read(playbook, parts) or frozenset()


def _steps_read(playbook: Playbook, parts: list[Any]) -> frozenset[str] | None:
    found: set[str] = set()
    for text in _templates(parts):
        words = set(_IDENTIFIER.findall(text))
        found |= words & playbook.by_name.keys()
        if "steps" not in words:
            continue
        try:
            paths = [read.path for read in compile_text(text).reads if read.path[0] == "steps"]
        except TemplateError:  # the task that contains it always fails
            continue
        if not paths or any(len(p) == 1 or p[1] in METHODS or p[1] not in playbook.by_name for p in paths):
            return None
        found.update(path[1] for path in paths)
    return frozenset(found)


def _templates(stack: list[Any]) -> Iterator[str]:
    """Return every template in parts of a playbook. Program text is left out, because it is never rendered."""
    while stack:
        value = stack.pop()
        kind = type(value)
        if kind is str:
            if is_template(value):
                yield value
        elif kind is dict:
            stack.extend(filter(None, value.values()))
        elif kind is list or kind is tuple:
            stack.extend(value)
        elif kind in _PARTS or hasattr(kind, "__dataclass_fields__"):
            if kind not in _PARTS:
                _PARTS[kind] = attrgetter(*(name for name in kind.__dataclass_fields__ if name not in _PLAIN), "__class__")
            stack.extend(filter(None, _PARTS[kind](value)[:-1]))
            if kind is Task:
                raw = KINDS[value.kind].raw if value.kind in KINDS else ()
                stack.extend(v for k, v in value.inputs.items() if k not in raw)
        elif isinstance(value, Mapping):
            stack.extend(value.values())
