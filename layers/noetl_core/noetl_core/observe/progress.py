"""Describes work in progress from the state: a loop, a join that waits, tokens that nothing moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl_core.dsl.model import Step
from noetl_core.engine.routing.graph import joins_below, joins_of
from noetl_core.engine.routing.passes import RoutingPass
from noetl_core.engine.state import LimitUse, State
from noetl_core.engine.statuses import TERMINAL
from noetl_core.observe import sentences
from noetl_core.observe.account import RunAccount
from noetl_core.observe.evaluation import Question

if TYPE_CHECKING:
    from noetl_core.api.shapes.why import Fact


def loop_progress(fact: Fact, run: RunAccount) -> Question:
    """Add how many iterations of an open run have ended."""

    def ask(p: RoutingPass) -> None:
        found = p.state.runs.get(run.id)
        if found is not None and found.loop is not None:
            counts = found.loop.counts
            fact["text"] += f": {counts['succeeded'] + counts['failed']} of {counts['total']} iterations have ended"

    return ask


def join_progress(fact: Fact, step: Step) -> Question:
    """Add the tokens that a join still waits for, and those that may still reach it."""

    def ask(p: RoutingPass) -> None:
        assert step.join is not None
        bit = 1 << [s.name for s in joins_of(p.playbook)].index(step.name)
        below = joins_below(p.playbook)
        came = [t for t in p.state.tokens.values() if t.step == step.name and not t.joined]
        others = [r.step for r in p.state.runs.values() if r.parent is None and below.get(r.step, 0) & bit]
        others += [t.step for t in p.state.tokens.values() if below.get(t.step, 0) & bit]
        need = "" if step.join.mode != "count" else f" of {step.join.count}"
        sources = [t.event["step"] for t in came if t.event is not None]
        fact["text"] = (
            f"the {sentences.join(step.join)} of {step.name} has {len(came)}{need} tokens (from {sentences.listed(sources)})"
        )
        if others:
            are = "is" if len(set(others)) == 1 else "are"
            fact["text"] += f"; one may still come from {sentences.listed(others)}, which {are} in progress"

    return ask


def limit_wait(state: State, step: str) -> LimitUse | None:
    """Return the place in a limit that the execution, or else a token of this step, waits for."""
    waits = [use for use in state.limits.values() if not use.held and use.step in (None, step)]
    return min(waits, key=lambda use: (use.step is not None, use.asked_at), default=None)


def standstill(state: State) -> str:
    """Return the reasons why the tokens of an execution do not move."""
    if state.status in ("paused", "cancelling"):
        return f"the execution is {state.status}"
    if state.status == "stuck":
        return f"the execution is stuck: {state.stuck}"
    if state.failure is not None and state.status not in TERMINAL:
        return f"the execution is failing, and nothing new is scheduled: {state.failure.get('message')}"
    return ""
