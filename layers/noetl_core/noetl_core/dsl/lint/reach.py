"""Steps that nothing leads to, and arcs that never fire."""

from __future__ import annotations

from noetl_core.dsl.lint.context import Lint
from noetl_core.dsl.lint.net import Boundary, Net, boundaries
from noetl_core.dsl.model import Arc, Step


def unreachable_steps(lint: Lint, net: Net) -> None:
    """W501: no path of arcs leads from the entry step to the step."""
    for i, step in enumerate(net.steps):
        if i in net.reached:
            continue
        entry = lint.playbook.entry_step
        message = f'step "{step.name}" is never reached: execution begins at "{entry}", and no arcs lead from there to it'
        lint.report("W501", lint.step_name(step.path), message, "add an arc to it, or remove it")


def dead_arcs(lint: Lint, net: Net) -> None:
    """W502, W503, W504: arcs that cannot fire, whatever happens."""
    for i, step in enumerate(net.steps):
        ends = boundaries(step)
        for arc in net.arcs(i):
            if not _dead_guard(lint, net, i, step, arc, ends) and step.router is not None and step.router.mode == "exclusive":
                _behind(lint, net, i, step, arc, ends)


def _dead_guard(lint: Lint, net: Net, i: int, step: Step, arc: Arc, ends: tuple[Boundary, ...]) -> bool:
    if arc.when is None or any(net.fires(i, arc, end) is not False for end in ends):
        return False
    net.dead.add((i, arc.index))
    at = lint.at(arc.path, "when")
    if net.guards.holds(arc.when) is False:
        lint.report(
            "W503", at, f'arc to "{arc.step}" never fires: its guard is always false', "write a condition, or remove the arc"
        )
        return True
    names = " or ".join(f'"{end.name}"' for end in ends)
    message = f'arc to "{arc.step}" never fires: step "{step.name}" never ends with the event that its guard tests'
    lint.report("W504", at, message, f"event.name is {names} here" + _why(step, ends))
    return True


def _why(step: Step, ends: tuple[Boundary, ...]) -> str:
    if step.loop is not None:
        return ", because the step has a loop"
    return ", because a step without tasks does not fail" if len(ends) == 1 else ""


def _behind(lint: Lint, net: Net, i: int, step: Step, arc: Arc, ends: tuple[Boundary, ...]) -> None:
    """W502: an earlier arc of an exclusive router always fires where this one could."""
    alive = [end for end in ends if net.fires(i, arc, end) is not False]
    before = {end.name: _certain(net, i, arc, end) for end in alive}
    first = next((a for a in before.values() if a is not None), None)
    if first is None:
        return
    hint = "put it before that arc, or make the router inclusive: next.spec.mode"
    if all(before.values()):
        net.dead.add((i, arc.index))
        message = f'arc to "{arc.step}" never fires: the arc to "{first.step}" before it always does'
        lint.report("W502", lint.at(arc.path, "step"), message, hint)
    elif arc.when is not None and "event" not in arc.when and "steps" not in arc.when:
        message = (
            f'arc to "{arc.step}" fires only when step "{step.name}" fails: otherwise the arc before it, to "{first.step}", fires'
        )
        lint.report("W502", lint.at(arc.path, "step"), message, hint + "; if that is meant, say so: event.name == 'step.failed'")


def _certain(net: Net, i: int, arc: Arc, end: Boundary) -> Arc | None:
    return next((a for a in net.arcs(i)[: arc.index] if net.fires(i, a, end) is True), None)
