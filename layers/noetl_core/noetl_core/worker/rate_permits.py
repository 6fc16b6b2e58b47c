"""Permits of rates: when the tasks of an activation may begin (docs/limits.md).

Passes whose next task has a rate gather here; one request reserves permits for as many as ask. Each then sleeps until its own
instant. A run that has nothing else to do is suspended while that is far away, and wakes a little before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from noetl_core.dsl.model import Rate, Task
from noetl_core.engine import ids
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.rates import Pace
from noetl_core.events.shapes import Wait
from noetl_core.instants import SECOND
from noetl_core.worker.activation import Activation
from noetl_core.worker.inputs import Unloaded
from noetl_core.worker.nodes import PipelinePass
from noetl_core.worker.task_inputs import Inputs, TaskInputs
from noetl_core.worker.waiting_passes import WaitingPasses, placed_wait

AHEAD_S: Final = 3
"""How long before its permit a suspended run wakes: delays of the queue are whole seconds, and a worker must start."""


class RatePermits:
    """The permits of one activation. Only the driver thread uses this object."""

    def __init__(self, activation: Activation, inputs: TaskInputs, waiting: WaitingPasses) -> None:
        self._activation, self._inputs, self._waiting = activation, inputs, waiting
        self._asking: dict[tuple[str, Pace], list[PipelinePass]] = {}
        self._reserved_until: dict[str, int] = {}
        """Key -> when the last permit that this activation reserved may be used."""
        self._given: dict[int, tuple[str, Inputs]] = {}
        """Of passes that wait: their inputs, and the wait that these are for."""

    def given(self, pass_: PipelinePass, task: Task) -> Inputs | None:
        """Return the inputs with which the next task of a pass waits: they are there when its permit comes, whatever it took to
        load them."""
        wait_id, given = self._given.get(id(pass_), ("", None))
        return given if given is not None and wait_id == _wait_id(pass_, task) else None

    def lets(self, pass_: PipelinePass, task: Task, rate: Rate, given: Inputs) -> bool:
        """Return whether a pass may begin its next task now. Otherwise it asks for a permit, or waits until it may use it.

        Raises `Unloaded`.
        """
        if self._activation.rates is None:
            message = f"task {task.name} has a rate, and the workers of pool {self._activation.step.pool} have no access to rates"
            raise Unloaded(Outcome.failed("unsupported", f"{message}: let its step run in another pool", retryable=False))
        key, pace = self._inputs.rate(pass_, task, rate)
        wait_id = _wait_id(pass_, task)
        self._given[id(pass_)] = (wait_id, given)
        at = self._permit(pass_, wait_id)
        if at is not None:
            now = self._activation.clock.now()
            if now < at:
                self._sleep(pass_, task, key, wait_id, at)
                return False
            self._give_up(pass_, wait_id)
            if now <= at + pace.late:
                del self._given[id(pass_)]
                return True
        self._asking.setdefault((key, pace), []).append(pass_)
        return False

    def asked(self, now: int) -> bool:
        """Return whether permits are to be reserved now: some pass asks, and what was reserved before is used up."""
        return any(self._reserved_until.get(key, 0) <= now for key, _ in self._asking)

    def take(self) -> Sequence[tuple[PipelinePass, Outcome]]:
        """Reserve permits for the passes that ask. Returns those that would wait longer than their execution lives. Raises
        `Unavailable`."""
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
        """Return when the permit may be used that the pass has, from here or from before its run was suspended."""
        if pass_.permit is not None and pass_.permit[0] == wait_id:
            return pass_.permit[1]
        known = self._activation.history.waits.get(wait_id)
        return None if known is None else known.get("permit")

    def _give_up(self, pass_: PipelinePass, wait_id: str) -> None:
        """Forget a permit: it is used, or it was not used in time."""
        pass_.permit = None
        self._activation.history.waits.pop(wait_id, None)

    def _sleep(self, pass_: PipelinePass, task: Task, key: str, wait_id: str, at: int) -> None:
        pass_.permit = (wait_id, at)
        wait: Wait = {"wait_id": wait_id, "kind": "timer", "at": at - AHEAD_S * SECOND, "limit": key, "permit": at}
        pass_.wait = placed_wait(pass_, task, wait)
        self._waiting.sleep_until(pass_, at)


def _wait_id(pass_: PipelinePass, task: Task) -> str:
    """The same for an attempt of a task, wherever it waits; another attempt has another permit."""
    return ids.wait_id(pass_.pipe.task_run(task), pass_.pipe.attempt, "rate")
