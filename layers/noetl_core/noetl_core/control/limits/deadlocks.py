"""Executions that wait for places in limits in a circle: found, and ended for the newest of those that wait (docs/limits.md).

What waits for a place waits until one of its holders ends; an execution ends after all that it waits for, a run after its
children. Looked at is what is reachable from there, and no further than to a holder that goes on by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from noetl_core.control.core import Control
from noetl_core.engine.limits.cycles import Need, circle, stuck
from noetl_core.engine.routing.limit_requests import execution_of
from noetl_core.engine.state import LimitUse, State
from noetl_core.events.event import fact
from noetl_core.events.limits import LimitRefused
from noetl_core.ports import LimitPlaces, LimitRecord, LimitWaiter, PortError
from noetl_core.values.frozen import frozen

log = logging.getLogger(__name__)

MOST: Final = 100
"""Executions that are looked at. Of a circle that is longer nothing is said."""
REMEDY: Final = "ask for limits in the same order everywhere"


def end_deadlock(control: Control, places: LimitPlaces, key: str) -> None:
    """Refuse the place to the newest of those that wait for each other, as seen from a limit for which somebody waits.

    Logs and limits are read one after the other. What was so at both of two looks was so in between, all of it at the same time.
    """
    found = _find(control, places, key)
    if found is not None and found == _find(control, places, key):
        log.warning("limit %s: %s", key, found.reason)
        refused = fact(LimitRefused, holder=found.holder, reason=found.reason, deadlock=True)
        control.route(execution_of(found.holder), facts=[refused])


@frozen
class _Deadlock:
    """Who is refused its place, why, and what waits for what."""

    holder: str
    reason: str
    needs: Mapping[str, Need]


def _find(control: Control, places: LimitPlaces, key: str) -> _Deadlock | None:
    look = _Waits(control, places)
    look.look(key)
    left = stuck(look.needs)
    if f"key {key}" not in left:
        return None
    circles = {node: way for node in left if node in look.uses and (way := circle(look.needs, left, node))}
    victim = max(circles, key=lambda node: (look.uses[node].asked_at, node), default=None)
    if victim is None:
        return None
    reason = f"deadlock: {look.words(circles[victim])}; {REMEDY}"
    return _Deadlock(look.uses[victim].holder, reason, {node: look.needs[node] for node in left})


class _Waits:
    """What waits for what, by names: `key K`, `wait H` (a holder that waits for its place), `place H`, `execution E`."""

    def __init__(self, control: Control, places: LimitPlaces) -> None:
        self._control, self._places = control, places
        self.needs: dict[str, Need] = {}
        self.uses: dict[str, LimitUse] = {}
        self._limits: dict[str, tuple[LimitRecord, Sequence[LimitWaiter]]] = {}
        self._states: dict[str, State | None] = {}

    def look(self, key: str) -> None:
        """Look at a limit, and at all that is reachable from it."""
        ahead = self._limit(f"key {key}", key)
        while ahead:
            execution_id = ahead.pop()
            if f"execution {execution_id}" not in self.needs:
                ahead += self._execution(execution_id)

    def _limit(self, node: str, key: str) -> list[str]:
        """Look at what waits for a place in a limit: at its holders. Return their executions."""
        if key not in self._limits:
            self._limits[key] = self._places.read(key), self._places.waiters(key, 1)
        record, first = self._limits[key]
        if not first or len(record.holders) < first[0].most:
            return []  # the first in line gets its place, and nobody overtakes it
        for holder in record.holders:
            if holder in record.displaced or not self._needs_of(holder):
                return []  # it leaves, or goes on and frees its place
        for holder in record.holders:
            self.needs[f"place {holder}"] = Need(tuple(self._needs_of(holder)))
        self.needs[node] = Need(tuple(f"place {holder}" for holder in record.holders), any_frees=True)
        return [execution_of(holder) for holder in record.holders]

    def _needs_of(self, holder: str) -> list[str]:
        """Return what a holder waits for before it can free its place."""
        execution_id, _, run = holder.partition("/")
        execution_id = execution_of(execution_id)
        state = self._state(execution_id)
        if state is None or holder not in state.limits or not state.limits[holder].held:
            return []  # of one that has not heard of its place yet: it is about to go on
        if not run:
            return [f"execution {execution_id}"] if waits(state) else []
        return [f"execution {child}" for child in _children(state, run)]

    def _execution(self, execution_id: str) -> list[str]:
        """Look at an execution: it ends after all its places were there, and all its children have ended."""
        state = self._state(execution_id)
        if state is None or state.status != "running":
            return []
        ahead, needed = [], []
        for use in state.limits.values():
            if not use.held:
                node = f"wait {use.holder}"
                ahead += self._limit(node, use.key)
                if use.holder not in self._limits[use.key][0].holders:
                    self.uses[node] = use
                    needed.append(node)
        children = list(_children(state))
        self.needs[f"execution {execution_id}"] = Need((*needed, *(f"execution {child}" for child in children)))
        return ahead + children

    def _state(self, execution_id: str) -> State | None:
        """Return the state; None of one that is over, does not read, or is one too many."""
        if execution_id not in self._states and len(self._states) < MOST:
            try:
                state = self._control.load(execution_id)
            except PortError:
                state = State(execution_id)
            self._states[execution_id] = None if state.seq < 0 or state.finished else state
        return self._states.get(execution_id)

    def words(self, way: Sequence[str]) -> str:
        """Return a circle in words, which begins with what waits for a place."""
        first = execution_of(way[0].removeprefix("wait "))
        said, at = [f"execution {first}"], first
        for node in (*way, f"execution {first}"):
            kind, _, name = node.partition(" ")
            if kind == "wait":
                said.append(f"{', which' if len(said) > 1 else ''} waits for limit {self.uses[node].key}")
            elif kind == "place":
                at = execution_of(name)
                said.append(f", held by execution {at}")
            elif name != at:
                said.append(f", which waits for its child {name}")
                at = name
        return "".join(said)


def waits(state: State) -> bool:
    """Return whether an execution waits for a place, or for a child, which may wait for one."""
    return state.awaits_limit or any(True for _ in _children(state))


def _children(state: State, run: str | None = None) -> Iterator[str]:
    """Yield the children for which open runs wait, or one of them with its chunks."""
    for each in state.runs.values():
        if run is None or run in (each.id, each.parent):
            yield from (wait["child"] for wait in each.waits if wait["kind"] == "child" and not wait.get("detached"))
