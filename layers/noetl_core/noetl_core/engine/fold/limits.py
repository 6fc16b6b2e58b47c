"""Folds the events of limits into the state: a place that was requested, assigned, refused or freed."""

from __future__ import annotations

from typing import Final

from noetl_core.engine.fold.table import Folds
from noetl_core.engine.records import ControlEvent
from noetl_core.engine.state import LimitUse, State
from noetl_core.events import limits

folds = Folds()
KEPT: Final = 20
"""The number of freed places that the state remembers."""


@folds(limits.LimitRequested)
def _requested(s: State, e: ControlEvent, d: limits.LimitRequested, seq: int) -> None:
    s.limits[d["holder"]] = LimitUse(
        d["holder"], d["key"], d["max"], d["on_limit"], e.ts, d.get("priority") or 0, d.get("step"), d.get("token")
    )


@folds(limits.LimitGranted)
def _granted(s: State, e: ControlEvent, d: limits.LimitGranted, seq: int) -> None:
    use = s.limits[d["holder"]]
    use.held, use.shared = True, d.get("shared")
    if use.token is None:
        s.admitted_at = e.ts


@folds(limits.LimitRefused)
def _refused(s: State, e: ControlEvent, d: limits.LimitRefused, seq: int) -> None:
    use = s.limits.pop(d["holder"])
    if d.get("deadlock") or d.get("displaced"):
        _keep(s, use)  # it leaves the queue, or a place that it has not used
    elif use.token is None:
        s.status, s.cancelled_for = "cancelling", d["reason"]


@folds(limits.LimitReleased)
def _released(s: State, e: ControlEvent, d: limits.LimitReleased, seq: int) -> None:
    freed = s.limits.pop(d["holder"], None)
    if freed is not None and freed.shared is None:
        _keep(s, freed)


def _keep(s: State, freed: LimitUse) -> None:
    s.freed[freed.holder] = freed
    if len(s.freed) > KEPT:
        del s.freed[next(iter(s.freed))]
