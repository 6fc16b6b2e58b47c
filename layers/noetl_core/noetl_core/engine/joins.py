"""Joins: which tokens they hold, when they fire, and what comes of the tokens that met (resolution 13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl_core.dsl.model import Playbook, Step
from noetl_core.engine import ids
from noetl_core.engine.graph import leads_to
from noetl_core.engine.passes import RoutingPass
from noetl_core.engine.state import Token


def held_by_join(p: RoutingPass, token: Token) -> bool:
    return not token.joined and p.playbook.by_name[token.step].join is not None


def fire_joins(p: RoutingPass, *, quiet: bool) -> bool:
    """Fire the joins that may; `quiet`: nothing runs, so parked tokens no longer count as on their way."""
    if "joins" not in p.playbook.memo:
        p.playbook.memo["joins"] = tuple(step for step in p.playbook.steps if step.join is not None)
    fired = False
    for step in p.playbook.memo["joins"]:
        fired = _judge_join(p, step, quiet=quiet) or fired
    return fired


def _judge_join(p: RoutingPass, step: Step, *, quiet: bool) -> bool:
    assert step.join is not None
    grows = _can_grow(p, step.name, quiet=quiet)
    over = step.name in p.state.joins_fired
    if grows and step.join.mode == "all" and not over:
        return False  # thousands may wait here: they are looked at once
    tokens = [t for t in p.state.tokens.values() if t.step == step.name and not t.joined]
    if over:
        for token in tokens:
            p.emit("TokenExpired", token=token.id, reason=f"join {step.name} has already fired")
        if not grows:
            p.emit("JoinClosed", step=step.name, fired=False)
        return bool(tokens)
    need = {"any": 1, "count": step.join.count}.get(step.join.mode)
    if need is not None and len(tokens) >= need:
        _merge(p, step, tokens[:need])
        if grows or len(tokens) > need:
            p.emit("JoinClosed", step=step.name, fired=True)
        return True
    if grows or not tokens:
        return False
    if need is not None:
        for token in tokens:
            p.emit("TokenExpired", token=token.id, reason=f"join {step.name} waits for {need} tokens, {len(tokens)} came")
        return True
    _merge(p, step, tokens)
    return True


def _merge(p: RoutingPass, step: Step, tokens: Sequence[Token]) -> None:
    """The tokens that met become one; their args merge in arc order (resolution 13)."""
    ordered = sorted(tokens, key=lambda t: (_step_order(p.playbook, t), t.arc or 0, t.id))
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


def _can_grow(p: RoutingPass, join: str, *, quiet: bool) -> bool:
    """Whether a live token could still reach `join` over forward edges."""
    above = leads_to(p.playbook, join)
    if any(run.step in above for run in p.state.runs.values()):
        return True
    return any(t.step in above and not (quiet and t.parked) for t in p.state.tokens.values())
