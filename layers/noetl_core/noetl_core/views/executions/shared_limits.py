"""Shows limits to readers: holders of places, waiters, and reserved rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from noetl_core.control.core import Control
from noetl_core.engine.limits.rates import USED
from noetl_core.engine.routing.limit_requests import execution_of
from noetl_core.engine.state import LimitUse, State
from noetl_core.log.concurrent_reads import read_concurrently
from noetl_core.ports import LimitRecord, LimitWaiter
from noetl_core.values.instants import SECOND, to_rfc3339

if TYPE_CHECKING:
    from noetl_core.api.shapes import limits as limit_shapes

SHOWN: Final = 100
"""Maximum number of waiters shown."""
COUNTED: Final = 1_000
"""Maximum number of waiters counted to find the position of an execution."""


def limits(control: Control, key: str | None) -> limit_shapes.Limits:
    """Return all limits in use; with `key`, also the holders and waiters of that one."""
    if control.limits is None:
        return {"limits": [], "rates": []}
    places, now = control.limits.places, control.clock.now()
    records = places.records(now) if key is None else [places.read(key)]
    rates = [rate for rate in control.limits.rates.rates(now) if key is None or rate.key == key]
    return {
        "limits": [_limit(control, record, whole=key is not None) for record in records if record.holders or record.waiting],
        "rates": [
            {
                "key": rate.key,
                "per_second": float(f"{SECOND / (rate.interval * USED):.4g}"),
                "free_at": to_rfc3339(rate.free_at),
                "behind_s": max(0, rate.free_at - now) / SECOND,
            }
            for rate in rates
        ],
    }


def _limit(control: Control, record: LimitRecord, *, whole: bool) -> limit_shapes.LimitInUse:
    assert control.limits is not None
    view: limit_shapes.LimitInUse = {
        "key": record.key,
        "held": len(record.holders),
        "max": record.most,
        "waiting": record.waiting,
    }
    if whole:
        oldest = sorted(record.holders.items(), key=lambda held: held[1])
        view["holders"] = [{**_who(record, h), "since": to_rfc3339(at)} for h, at in oldest]
        waiting = control.limits.places.waiters(record.key, SHOWN + 1)
        view["waiters"] = [_who(record, w.holder) for w in waiting[:SHOWN]]
        view["more"] = len(waiting) > SHOWN
    return view


def _who(record: LimitRecord, holder: str) -> limit_shapes.LimitHolder:
    view: limit_shapes.LimitHolder = {"execution_id": execution_of(holder), "holder": holder}
    if (by := record.displaced.get(holder)) is not None:
        view["displaced_by"] = execution_of(by)
    return view


def awaited(control: Control, state: State) -> Iterator[dict[str, Any]]:
    """Yield the limits that a live execution waits for, each with its number of holders, the holders, and the position among the
    waiters.
    """
    if control.limits is None or state.finished:
        return
    for use in state.limits.values():
        if use.held:
            continue
        view = _awaited(control.limits.places.read(use.key), use)
        waiting = control.limits.places.waiters(use.key, COUNTED)
        before = next((n for n, waiter in enumerate(waiting, 1) if waiter.holder == use.holder), None)
        if before is not None:
            view["position"] = before
        yield view


def awaited_by(control: Control, states: Mapping[str, State]) -> dict[str, list[dict[str, Any]]]:
    """Return the limits that executions wait for, by execution: as `awaited`, without positions. Each limit is read once."""
    uses = {x: [use for use in state.limits.values() if not use.held] for x, state in states.items() if not state.finished}
    if control.limits is None:
        return {}
    keys = list(dict.fromkeys(use.key for uses_of_one in uses.values() for use in uses_of_one))
    records = dict(zip(keys, read_concurrently(control.limits.places.read, keys), strict=True))
    return {x: [_awaited(records[use.key], use) for use in uses_of_one] for x, uses_of_one in uses.items() if uses_of_one}


def waiting_executions(control: Control) -> set[str]:
    """Return the executions that wait as a whole for a place in a limit: the first waiters of each limit."""
    if control.limits is None:
        return set()
    places = control.limits.places
    keys = [record.key for record in places.records(control.clock.now()) if record.waiting]
    groups: Iterator[Sequence[LimitWaiter]] = read_concurrently(lambda key: places.waiters(key, COUNTED), keys)
    waiters = [waiter for group in groups for waiter in group]
    return {execution_of(waiter.holder) for waiter in waiters if "/" not in waiter.holder}


def _awaited(record: LimitRecord, use: LimitUse) -> dict[str, Any]:
    oldest = sorted(record.holders, key=lambda holder: record.holders[holder])
    view: dict[str, Any] = {
        "kind": "limit",
        "wait_id": use.holder,
        "limit": use.key,
        "since": to_rfc3339(use.asked_at),
        "held": len(record.holders),
        "max": use.max,
        "held_by": [execution_of(holder) for holder in oldest[:5]],
    }
    if use.step is not None:
        view["step"] = use.step
    return view
