"""Detects deadlocks between executions that wait for each other's places in limits, and refuses the newest waiter its place
(docs/limits.md). A waiter waits until a holder of the limit ends. An execution ends after everything it waits for, a run after
its children. A search follows the waits that are reachable from one limit, and stops at holders that progress by themselves."""

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

MAX_EXECUTIONS: Final = 100
"""Maximum number of executions examined. Longer cycles are not detected."""
REMEDY: Final = "request limits in the same order everywhere"


def end_deadlock(control: Control, places: LimitPlaces, key: str) -> None:
    """Refuse the newest waiter of a cycle its place, seen from a limit with waiters.

    Logs and limits cannot be read atomically. A deadlock found twice in a row existed in between.
    """
    found = find_deadlock(control, places, key)
    if found is not None and found == find_deadlock(control, places, key):
        log.warning("limit %s: %s", key, found.reason)
        refused = fact(LimitRefused, holder=found.holder, reason=found.reason, deadlock=True)
        control.route(execution_of(found.holder), facts=[refused])


@frozen
class Deadlock:
    """The refused waiter, the reason, and the wait-for graph."""

    holder: str
    reason: str
    needs: Mapping[str, Need]


def find_deadlock(control: Control, places: LimitPlaces, key: str) -> Deadlock | None:
    """Return the deadlock that a waiter for the limit `key` is part of; None if there is none."""
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
    return Deadlock(look.uses[victim].holder, reason, {node: look.needs[node] for node in left})


class _Waits:
    """The wait-for graph, by names: `key K`, `wait H` (a holder that waits for its place), `place H`, `execution E`."""

    def __init__(self, control: Control, places: LimitPlaces) -> None:
        self._control, self._places = control, places
        self.needs: dict[str, Need] = {}
        self.uses: dict[str, LimitUse] = {}
        self._limits: dict[str, tuple[LimitRecord, Sequence[LimitWaiter]]] = {}
        self._states: dict[str, State | None] = {}

    def look(self, key: str) -> None:
        """Add a limit, and everything reachable from it, to the graph."""
        ahead = self._limit(f"key {key}", key)
        while ahead:
            execution_id = ahead.pop()
            if f"execution {execution_id}" not in self.needs:
                ahead += self._execution(execution_id)

    def _limit(self, node: str, key: str) -> list[str]:
        """Add the holders of a limit as needs of a waiter. Return their executions."""
        if key not in self._limits:
            self._limits[key] = self._places.read(key), self._places.waiters(key, 1)
        record, first = self._limits[key]
        if not first or len(record.holders) < first[0].most:
            return []  # the first waiter gets its place, and no other overtakes it
        for holder in record.holders:
            if holder in record.displaced or not self._needs_of(holder):
                return []  # the holder leaves, or continues and frees its place
        for holder in record.holders:
            self.needs[f"place {holder}"] = Need(tuple(self._needs_of(holder)))
        self.needs[node] = Need(tuple(f"place {holder}" for holder in record.holders), any_frees=True)
        return [execution_of(holder) for holder in record.holders]

    def _needs_of(self, holder: str) -> list[str]:
        """Return the waits of a holder before it can free its place."""
        execution_id, _, run = holder.partition("/")
        execution_id = execution_of(execution_id)
        state = self._state(execution_id)
        if state is None or holder not in state.limits or not state.limits[holder].held:
            return []  # the holder does not know of its place yet: it is about to continue
        if not run:
            return [f"execution {execution_id}"] if waits(state) else []
        return [f"execution {child}" for child in _children(state, run)]

    def _execution(self, execution_id: str) -> list[str]:
        """Add an execution: it ends after it got all its places and all its children have ended."""
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
        """Return the state; None if the execution has ended, its log is unreadable, or the maximum is reached."""
        if execution_id not in self._states and len(self._states) < MAX_EXECUTIONS:
            try:
                state = self._control.load(execution_id)
            except PortError:
                state = State(execution_id)
            self._states[execution_id] = None if state.seq < 0 or state.finished else state
        return self._states.get(execution_id)

    def words(self, way: Sequence[str]) -> str:
        """Describe a cycle for people, beginning with a waiter for a place."""
        first = execution_of(way[0].removeprefix("wait "))
        parts, at = [f"execution {first}"], first
        for node in (*way, f"execution {first}"):
            kind, _, name = node.partition(" ")
            if kind == "wait":
                parts.append(f"{', which' if len(parts) > 1 else ''} waits for limit {self.uses[node].key}")
            elif kind == "place":
                at = execution_of(name)
                parts.append(f", held by execution {at}")
            elif name != at:
                parts.append(f", which waits for its child {name}")
                at = name
        return "".join(parts)


def waits(state: State) -> bool:
    """Return whether an execution waits for a place, or for a child, which may wait for one."""
    return state.awaits_limit or any(True for _ in _children(state))


def _children(state: State, run: str | None = None) -> Iterator[str]:
    """Yield the children for which open runs wait, or one of them with its chunks."""
    for each in state.runs.values():
        if run is None or run in (each.id, each.parent):
            yield from (wait["child"] for wait in each.waits if wait["kind"] == "child" and not wait.get("detached"))
