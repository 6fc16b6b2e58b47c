"""Joins: which tokens they hold, when they fire, and what comes of the tokens that met (resolution 13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from noetl_core.dsl.model import Playbook, Step
from noetl_core.engine import ids
from noetl_core.engine.graph import joins_below, joins_of
from noetl_core.engine.passes import RoutingPass
from noetl_core.engine.state import Token


def held_by_join(p: RoutingPass, token: Token) -> bool:
    return not token.joined and p.playbook.by_name[token.step].join is not None


def fire_joins(p: RoutingPass, *, quiet: bool) -> bool:
    """Fire the joins that may; `quiet`: nothing runs, so parked tokens no longer count as on their way."""
    joins = joins_of(p.playbook)
    if not joins:
        return False
    growing = _growing(p, quiet=quiet)
    waiting: dict[str, list[Token]] | None = None
    fired = False
    for n, step in enumerate(joins):
        assert step.join is not None
        grows, over = bool(growing >> n & 1), step.name in p.state.joins_fired
        if grows and step.join.mode == "all" and not over:
            continue  # thousands may wait here: they are looked at once
        if waiting is None:
            waiting = _waiting(p)
        judged = _judge_join(p, step, waiting.get(step.name, []), grows=grows, over=over)
        if judged == "expired":
            growing = _growing(p, quiet=quiet)
        fired = fired or judged != ""
    return fired


def _growing(p: RoutingPass, *, quiet: bool) -> int:
    """The joins that a live token could still reach over forward edges, as bits."""
    below = joins_below(p.playbook)
    found, most = 0, (1 << len(joins_of(p.playbook))) - 1
    for run in p.state.runs.values():
        found |= below.get(run.step, 0)
        if found == most:
            return found
    for token in p.state.tokens.values():
        if not (quiet and token.parked):
            found |= below.get(token.step, 0)
            if found == most:
                break
    return found


def _waiting(p: RoutingPass) -> dict[str, list[Token]]:
    found: dict[str, list[Token]] = {}
    for token in p.state.tokens.values():
        if held_by_join(p, token):
            found.setdefault(token.step, []).append(token)
    return found


def _judge_join(
    p: RoutingPass, step: Step, tokens: Sequence[Token], *, grows: bool, over: bool
) -> Literal["", "fired", "expired"]:
    assert step.join is not None
    if over:
        for token in tokens:
            p.emit("TokenExpired", token=token.id, reason=f"join {step.name} has already fired")
        if not grows:
            p.emit("JoinClosed", step=step.name, fired=False)
        return "expired" if tokens else ""
    need = {"any": 1, "count": step.join.count}.get(step.join.mode)
    if need is not None and len(tokens) >= need:
        _merge(p, step, tokens[:need])
        if grows or len(tokens) > need:
            p.emit("JoinClosed", step=step.name, fired=True)
        return "fired"
    if grows or not tokens:
        return ""
    if need is not None:
        for token in tokens:
            p.emit("TokenExpired", token=token.id, reason=f"join {step.name} waits for {need} tokens, {len(tokens)} came")
        return "expired"
    _merge(p, step, tokens)
    return "fired"


def _merge(p: RoutingPass, step: Step, tokens: Sequence[Token]) -> None:
    """The tokens that met become one; their args merge in arc order, those of one arc in the order of their branches (resolution
    13)."""
    places = p.state.places
    ordered = sorted(tokens, key=lambda t: (_step_order(p.playbook, t), t.arc or 0, places[t.id]))
    args: dict[str, Any] = {}
    for token in ordered:
        args.update(token.args)
    names = [t.id for t in ordered]
    joined = ids.token_id(p.state.execution_id, "join:" + ",".join(sorted(names)), 0, p.state.epoch)
    first = max(t.priority for t in ordered) or None
    event = ordered[-1].event
    p.emit("TokenEnqueued", token=joined, step=step.name, args=args or None, joined=names, event=event, priority=first)


def _step_order(playbook: Playbook, token: Token) -> int:
    places: dict[str, int] = playbook.memo.setdefault("places", {})
    if not places:
        places.update({s.name: i for i, s in enumerate(playbook.steps)})
    return places.get((token.event or {}).get("step", ""), -1)
