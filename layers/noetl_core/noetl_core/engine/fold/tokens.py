"""Folds the events of tokens into the state: enqueued, parked, claimed, joined, and the arcs that produce them."""

from __future__ import annotations

from noetl_core.engine.fold import branch_places
from noetl_core.engine.fold.table import Folds
from noetl_core.engine.records import ControlEvent
from noetl_core.engine.state import State, Token
from noetl_core.engine.warnings import added, of_blank
from noetl_core.events import control

folds = Folds()


@folds(control.TokenEnqueued)
def _token_enqueued(s: State, e: ControlEvent, d: control.TokenEnqueued, seq: int) -> None:
    joined = d.get("joined")
    branch_places.place_token(s, d["token"], d.get("run"), d.get("arc"), joined)
    for token in joined or ():
        s.tokens.pop(token, None)
    s.tokens[d["token"]] = Token(
        d["token"],
        d["step"],
        dict(d.get("args") or {}),
        d.get("run"),
        d.get("arc"),
        d.get("event"),
        joined=joined is not None,
        rounds=dict(d.get("rounds") or {}),
        priority=d.get("priority") or 0,
    )
    if (key := d.get("key")) is not None:
        s.deduplicated[key] = d["token"]


@folds(control.TokenParked)
def _token_parked(s: State, e: ControlEvent, d: control.TokenParked, seq: int) -> None:
    s.tokens[d["token"]].parked = True


@folds(control.TokenExpired)
def _token_gone(s: State, e: ControlEvent, d: control.TokenExpired, seq: int) -> None:
    _remove_token(s, d["token"])


def _remove_token(s: State, token: str) -> None:
    s.tokens.pop(token, None)
    branch_places.gone(s, token)


@folds(control.TokenClaimed)
def _token_claimed(s: State, e: ControlEvent, d: control.TokenClaimed, seq: int) -> None:
    branch_places.claimed(s, d["tokens"], d["run"])
    for token in d["tokens"]:
        claimed = s.tokens.pop(token, None)
        if claimed is not None and claimed.rounds:
            s.rounds[d["run"]] = claimed.rounds


@folds(control.StepSkipped)
def _step_skipped(s: State, e: ControlEvent, d: control.StepSkipped, seq: int) -> None:
    _remove_token(s, d["token"])
    step = s.step(d["step"])
    step.status = step.status or "skipped"


@folds(control.JoinClosed)
def _join_closed(s: State, e: ControlEvent, d: control.JoinClosed, seq: int) -> None:
    key = round_key(d["step"], d.get("round") or 0)
    if d["fired"]:
        s.joins_fired.append(key)
    else:
        s.joins_fired.remove(key)


def round_key(join: str, number: int) -> str:
    """Return the name of a round of a join in `joins_fired`."""
    return f"{join}@{number}" if number else join


@folds(control.NextEvaluated)
def _next_evaluated(s: State, e: ControlEvent, d: control.NextEvaluated, seq: int) -> None:
    s.rounds.pop(d["run"], None)
    branch_places.branches(s, d["run"], [arc["arc"] for arc in d["selected"]])
    fired = s.step(d["step"]).fired if d["selected"] else {}
    for arc in d["selected"]:
        fired[str(arc["arc"])] = fired.get(str(arc["arc"]), 0) + 1
    if undefined := d.get("undefined"):
        step = s.step(d["step"])
        step.warnings = added(step.warnings, map(of_blank, undefined))
    if (unhandled := d.get("unhandled")) and s.failure is None:
        s.failure = unhandled.copy()
