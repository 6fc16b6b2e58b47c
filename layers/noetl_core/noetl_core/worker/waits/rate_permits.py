"""Permits of rates: when the tasks of an activation may begin (docs/limits.md).

Passes whose next task has a rate queue here; one request reserves permits for all of them. Each pass then sleeps until its own
instant. A run with nothing else to do is suspended if that is far away, and wakes a little before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from noetl_core.dsl.model import Rate, Task
from noetl_core.engine import ids
from noetl_core.engine.limits.rates import Pace
from noetl_core.engine.outcome import Outcome
from noetl_core.events.shapes import Wait
from noetl_core.values.instants import SECOND
from noetl_core.worker.activation import Activation
from noetl_core.worker.run_tree import PipelinePass
from noetl_core.worker.tasks.inputs import Inputs, TaskInputs
from noetl_core.worker.values.inputs import InputsNotLoaded
from noetl_core.worker.waits.waiting_passes import WaitingPasses, placed_wait

AHEAD_S: Final = 3
"""Seconds before its permit at which a suspended run wakes: delays of the queue are whole seconds, and a worker must start."""


class RatePermits:
    """The permits of one activation. Only the driver thread uses this object."""

    def __init__(self, activation: Activation, inputs: TaskInputs, waiting: WaitingPasses) -> None:
        self._activation, self._inputs, self._waiting = activation, inputs, waiting
        self._asking: dict[tuple[str, Pace], list[PipelinePass]] = {}
        self._reserved_until: dict[str, int] = {}
        """Key -> when the last permit that this activation reserved may be used."""
        self._given: dict[int, tuple[str, Inputs]] = {}
        """Identity of a waiting pass -> the id of its wait, and the inputs of its task."""

    def inputs_of_waiting(self, pass_: PipelinePass, task: Task) -> Inputs | None:
        """Return the inputs of a waiting pass's next task. They are loaded before the permit is due, because loading takes
        time."""
        wait_id, given = self._given.get(id(pass_), ("", None))
        return given if given is not None and wait_id == _wait_id(pass_, task) else None

    def may_begin(self, pass_: PipelinePass, task: Task, rate: Rate, given: Inputs) -> bool:
        """Return whether a pass may begin its next task now. Otherwise queue it for a permit, or let it sleep until its permit is
        due.

        Raises `InputsNotLoaded`.
        """
        if self._activation.rates is None:
            message = f"task {task.name} has a rate, and the workers of pool {self._activation.step.pool} have no access to rates"
            raise InputsNotLoaded(Outcome.failed("unsupported", f"{message}: let its step run in another pool", retryable=False))
        key, pace = self._inputs.rate(pass_, task, rate)
        wait_id = _wait_id(pass_, task)
        self._given[id(pass_)] = (wait_id, given)
        at = self._permit(pass_, wait_id)
        if at is not None:
            now = self._activation.clock.now()
            if now < at:
                self._sleep(pass_, task, key, wait_id, at)
                return False
            self._forget(pass_, wait_id)
            if now <= at + pace.late:
                del self._given[id(pass_)]
                return True
        self._asking.setdefault((key, pace), []).append(pass_)
        return False

    def is_reservation_due(self, now: int) -> bool:
        """Return whether permits are to be reserved now: passes are queued, and all permits reserved before have been due."""
        return any(self._reserved_until.get(key, 0) <= now for key, _ in self._asking)

    def reserve(self) -> Sequence[tuple[PipelinePass, Outcome]]:
        """Reserve permits for the queued passes. Returns those that would wait longer than their execution may live, with their
        outcome. Raises `Unavailable`."""
        activation = self._activation
        assert activation.rates is not None
        refused = []
        for (key, pace), asking in list(self._asking.items()):
            now = activation.clock.now()
            if self._reserved_until.get(key, 0) > now:
                continue
            some, rest = asking[: pace.at_once], asking[pace.at_once :]
            self._asking[key, pace] = rest
            if not rest:
                del self._asking[key, pace]
            permits = pace.permits(activation.rates.reserve(key, pace.interval, len(some), now), now, len(some))
            self._reserved_until[key] = permits[-1]
            last = self._waiting.lives_until(now)
            for pass_, at in zip(some, permits, strict=True):
                if at > last:
                    message = f"rate {key} lets it begin in {(at - now) // SECOND} s, when the execution must have ended"
                    refused.append((pass_, Outcome.failed("rate_limit", message, retryable=False)))
                    continue
                task = activation.step.tasks[pass_.pipe.pc]
                self._sleep(pass_, task, key, _wait_id(pass_, task), at)
        return refused

    def _permit(self, pass_: PipelinePass, wait_id: str) -> int | None:
        """Return when the pass's permit may be used, if it has one; it may date from before a suspension."""
        if pass_.permit is not None and pass_.permit[0] == wait_id:
            return pass_.permit[1]
        known = self._activation.history.waits.get(wait_id)
        return None if known is None else known.get("permit")

    def _forget(self, pass_: PipelinePass, wait_id: str) -> None:
        """Forget a permit that is used or expired."""
        pass_.permit = None
        self._activation.history.waits.pop(wait_id, None)

    def _sleep(self, pass_: PipelinePass, task: Task, key: str, wait_id: str, at: int) -> None:
        pass_.permit = (wait_id, at)
        wait: Wait = {"wait_id": wait_id, "kind": "timer", "at": at - AHEAD_S * SECOND, "limit": key, "permit": at}
        pass_.wait = placed_wait(pass_, task, wait)
        self._waiting.sleep_until(pass_, at)


def _wait_id(pass_: PipelinePass, task: Task) -> str:
    """Return an id that is stable for an attempt of a task across workers; each attempt has a permit of its own."""
    return ids.wait_id(pass_.pipe.task_run(task), pass_.pipe.attempt, "rate")
