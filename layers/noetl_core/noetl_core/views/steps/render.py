"""Evaluates a template against an execution, as the control plane or a task sees it, for debugging."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from noetl_core.control.core import Control
from noetl_core.engine.needs import Need, NeedValues
from noetl_core.engine.routing.passes import RoutingPass, event_namespace
from noetl_core.engine.state import State
from noetl_core.events.shapes import TokenEvent
from noetl_core.expr import Scope, TemplateError, referenced, render
from noetl_core.log.stored_values import Values
from noetl_core.observe.guards import names_beside, reads
from noetl_core.ports import NotFound, Unavailable
from noetl_core.views.executions import executions
from noetl_core.views.steps.task_names import TaskSelector, task_names

if TYPE_CHECKING:
    from noetl_core.api.shapes import executions as shapes
    from noetl_core.api.shapes import why as why_shapes

Answer = TypeVar("Answer")
NOWHERE: Final = TaskSelector()
MAX_ROUNDS = 50
"""Maximum number of values that a template may request one after the other."""


def render_context(
    control: Control, execution_id: str, template: Any, selector: TaskSelector = NOWHERE, at: str | None = None
) -> shapes.Rendered:
    """Return the value of `template` (text, or data with templates in it), and the undefined names that it reads.

    It reads workload, ctx, steps and execution_id. With a step, it also reads the args and the event of its newest open run or
    token. With a task or an iteration, it reads the names that the templates of that task saw. With `at`, the template is
    evaluated as of
    just after that event. A template that reads secrets is rejected. Raises `BadRequest`, `NotFound`, `BadCursor`,
    `TemplateError`.
    """
    read_names = {path[0] for path in referenced(template)}
    if "keychain" in read_names:
        raise TemplateError("the keychain is the workers' alone: no template rendered here may read it")
    if selector.task is None and selector.iteration is None:
        state, scope_of = _standing(control, execution_id, selector.step, at)
    elif "callback" in read_names:
        raise TemplateError(
            "callback has a token: no template rendered here may read it (`noetl show` has it, for callers who may answer)"
        )
    else:
        seen = task_names(control, execution_id, selector, template, at)
        state, scope_of = seen.state, seen.scope

    def rendered(scope: Scope) -> shapes.Rendered:
        out: shapes.Rendered = {"value": render(template, scope, undefined_ok=True)}
        if undefined := [_undefined(each) for each in reads(template, scope) if each.get("undefined")]:
            out["undefined"] = undefined
        return out

    return _within(control, state, scope_of, rendered)


def keys_beside(control: Control, execution_id: str, selector: TaskSelector, at: str, source: Any, name: str) -> str:
    """Return the keys beside an undefined `name` that templates of a task read in the attempt that ended with the event `at`
    (`names_beside`). Raises `BadRequest`, `NotFound`, `BadCursor`, `Unavailable`."""
    seen = task_names(control, execution_id, selector, source, at)
    return _within(control, seen.state, seen.scope, lambda scope: names_beside(source, name, scope))


def _within(control: Control, state: State, scope_of: Callable[[RoutingPass], Scope], ask: Callable[[Scope], Answer]) -> Answer:
    """Return the answer to a question about a scope, with the stored values that it needs. Raises `Unavailable`."""
    known: dict[Need, Any] = {}
    values = Values(control.store, control.results, state.execution_id)
    for _ in range(MAX_ROUNDS):
        routing = RoutingPass(control.playbook(state.digest), state, control.clock.now(), state.seq + 1, known)
        try:
            return ask(scope_of(routing).lenient())
        except NeedValues as missing:
            values.supply(known, missing)
    raise Unavailable(f"the template reads more than {MAX_ROUNDS} values one after the other")


def _standing(
    control: Control, execution_id: str, step: str | None, at: str | None
) -> tuple[State, Callable[[RoutingPass], Scope]]:
    """Return the state of the control plane, and the scope of its templates."""
    state, _ = executions.state_just_after(control, execution_id, at)
    args: Mapping[str, Any] = {}
    event: TokenEvent | None = None
    if step is not None:
        if step not in control.playbook(state.digest).by_name:
            raise NotFound(f"playbook {state.path} has no step {step!r}")
        runs = [r for r in state.runs.values() if r.step == step and r.parent is None]
        tokens = [t for t in state.tokens.values() if t.step == step]
        holder = runs[-1] if runs else tokens[-1] if tokens else None
        if holder is not None:
            args, event = holder.args, holder.event
    return state, lambda routing: routing.scope(args, event_namespace(event) if event else None)


def _undefined(found: why_shapes.Read) -> shapes.UndefinedName:
    return {"name": found["name"], "hint": found.get("hint", "")}
