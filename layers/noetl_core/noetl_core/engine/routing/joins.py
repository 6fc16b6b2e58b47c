"""Joins: which tokens they hold, when they fire, and how the tokens that met are merged (resolution 13).

In a cycle, a join of mode any or count fires once in every round and drops the late tokens of that round. The round of a token is
the number of times that its branch has gone back past the join (`engine.routing.graph.next_rounds`). It belongs to the token, as
a colour
does in a coloured Petri net, so that a slow branch of one round and the first token of the next round are told apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

from noetl_core.dsl.derived import derived
from noetl_core.dsl.model import Playbook, Step
from noetl_core.engine import ids
from noetl_core.engine.fold.tokens import round_key
from noetl_core.engine.routing.graph import joins_below, joins_of, next_rounds
from noetl_core.engine.routing.passes import RoutingPass
from noetl_core.engine.state import Token
from noetl_core.events import control
from noetl_core.values.frozen import frozen


def held_by_join(p: RoutingPass, token: Token) -> bool:
    return not token.joined and p.playbook.by_name[token.step].join is not None


def fire_joins(p: RoutingPass, *, quiet: bool) -> bool:
    """Fire all joins that may fire. `quiet` means that nothing runs: then parked tokens no longer count as on their way."""
    joins = joins_of(p.playbook)
    if not joins:
        return False
    reachable = _reachable(p, quiet=quiet)
    waiting: dict[str, dict[int, list[Token]]] | None = None
    fired = False
    for n, step in enumerate(joins):
        assert step.join is not None
        if step.join.mode == "all" and reachable.first >> n & 1:
            continue  # thousands may wait here: examine them once
        if waiting is None:
            waiting = _waiting(p)
        came = waiting.get(step.name, {})
        for number in sorted({0, *came, *_fired_rounds(p, step.name)}):
            more_may_come = bool(reachable.first >> n & 1) if number == 0 else (step.name, number) in reachable.later
            judged = _judge_join(p, step, number, came.get(number, []), more_may_come=more_may_come)
            if judged == "expired":
                reachable = _reachable(p, quiet=quiet)
            fired = fired or judged != ""
    return fired


@frozen
class _Reachable:
    """The joins that live tokens can still reach over forward edges: those in their first round as bits, later rounds by
    number."""

    first: int
    later: frozenset[tuple[str, int]]


def _reachable(p: RoutingPass, *, quiet: bool) -> _Reachable:
    below = joins_below(p.playbook)
    first, most = 0, (1 << len(joins_of(p.playbook))) - 1
    bits = {step.name: 1 << n for n, step in enumerate(joins_of(p.playbook))} if next_rounds(p.playbook) else {}
    later: set[tuple[str, int]] = set()
    runs = ((run.step, p.state.rounds.get(run.id)) for run in p.state.runs.values())
    tokens = ((token.step, token.rounds) for token in p.state.tokens.values() if not (quiet and token.parked))
    for step, rounds in chain(runs, tokens):
        reached = below.get(step, 0)
        for name, number in (rounds or {}).items():
            bit = bits.get(name, 0)
            if reached & bit:
                reached &= ~bit
                later.add((name, number))
        first |= reached
        if first == most and not bits:
            break
    return _Reachable(first, frozenset(later))


def _waiting(p: RoutingPass) -> dict[str, dict[int, list[Token]]]:
    """Return the tokens that joins hold, by step and round."""
    found: dict[str, dict[int, list[Token]]] = {}
    for token in p.state.tokens.values():
        if held_by_join(p, token):
            found.setdefault(token.step, {}).setdefault(token.rounds.get(token.step, 0), []).append(token)
    return found


def _fired_rounds(p: RoutingPass, name: str) -> Iterator[int]:
    for key in p.state.joins_fired:
        join, _, number = key.partition("@")
        if join == name:
            yield int(number or 0)


def _judge_join(
    p: RoutingPass, step: Step, number: int, tokens: Sequence[Token], *, more_may_come: bool
) -> Literal["", "fired", "expired"]:
    """Decide for one round of a join whether it fires, and fire it."""
    assert step.join is not None
    if round_key(step.name, number) in p.state.joins_fired:
        for token in tokens:
            p.emit(control.TokenExpired, token=token.id, code="join", reason=f"join {step.name} has already fired")
        if not more_may_come:
            p.emit(control.JoinClosed, step=step.name, fired=False, round=number or None)
        return "expired" if tokens else ""
    need = {"any": 1, "count": step.join.count}.get(step.join.mode)
    if need is not None and len(tokens) >= need:
        _merge(p, step, tokens[:need])
        if more_may_come or len(tokens) > need:
            p.emit(control.JoinClosed, step=step.name, fired=True, round=number or None)
        return "fired"
    if more_may_come or not tokens:
        return ""
    if need is not None:
        reason = f"join {step.name} waits for {need} tokens, {len(tokens)} came"
        for token in tokens:
            p.emit(control.TokenExpired, token=token.id, code="join", reason=reason)
        return "expired"
    _merge(p, step, tokens)
    return "fired"


def round_of(p: RoutingPass, run: str, step: str, target: str) -> dict[str, int] | None:
    """Return the rounds of a token that a run of `step` sends to `target`: the rounds of the run, plus one where the arc
    leads back."""
    rounds = p.state.rounds.get(run, {})
    begun = next_rounds(p.playbook).get((step, target), ())
    return {**rounds, **{join: rounds.get(join, 0) + 1 for join in begun}} or None


def _merge(p: RoutingPass, step: Step, tokens: Sequence[Token]) -> None:
    """Merge the tokens that met into one. Their args are merged in arc order; those of the same arc in the order of their
    branches (resolution 13)."""
    places = p.state.places
    ordered = sorted(tokens, key=lambda t: (_step_order(p.playbook, t), t.arc or 0, places[t.id]))
    args: dict[str, Any] = {}
    for token in ordered:
        args.update(token.args)
    names = [t.id for t in ordered]
    joined = ids.token_id(p.state.execution_id, "join:" + ",".join(sorted(names)), 0, p.state.epoch)
    first = max(t.priority for t in ordered) or None
    event = ordered[-1].event
    rounds: dict[str, int] = {}
    for token in ordered:
        rounds.update({name: max(n, rounds.get(name, 0)) for name, n in token.rounds.items()})
    p.emit(
        control.TokenEnqueued,
        token=joined,
        step=step.name,
        args=args or None,
        joined=names,
        event=event,
        priority=first,
        rounds=rounds or None,
    )


def _step_order(playbook: Playbook, token: Token) -> int:
    return -1 if token.event is None else _places(playbook).get(token.event["step"], -1)


@derived
def _places(playbook: Playbook) -> Mapping[str, int]:
    """Return the place of each step in the playbook."""
    return {step.name: place for place, step in enumerate(playbook.steps)}
