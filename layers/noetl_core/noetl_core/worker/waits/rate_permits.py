"""Permits of rates: when the tasks of an activation may begin (docs/limits.md).

Passes whose next task has a rate queue here; one request reserves permits for all of them. Each pass then sleeps until its own
instant. A run with nothing else to do is suspended if that is far away, and wakes a little before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from noetl_core.dsl.model import Rate
from noetl_core.engine.limits.rates import Pace
from noetl_core.engine.outcome import Outcome
from noetl_core.events.shapes import Wait
from noetl_core.ports import RateLimits
from noetl_core.values.instants import SECOND
from noetl_core.worker.activation import Activation
from noetl_core.worker.run_tree import PipelinePass
from noetl_core.worker.tasks.inputs import TaskInputs
from noetl_core.worker.values.inputs import CannotBegin
from noetl_core.worker.waits.waiting_passes import WaitingPasses

AHEAD_S: Final = 3
"""Seconds before its permit at which a suspended run wakes: delays of the queue are whole seconds, and a worker must start."""


class RatePermits:
    """The permits of one activation. Only the driver thread uses this object."""

    def __init__(self, activation: Activation, rates: RateLimits | None, inputs: TaskInputs, waiting: WaitingPasses) -> None:
        self._activation, self._rates, self._inputs, self._waiting = activation, rates, inputs, waiting
        self._asking: dict[tuple[str, Pace], list[PipelinePass]] = {}
        self._reserved_until: dict[str, int] = {}
        """Key -> when the last permit that this activation reserved may be used."""

    def may_begin(self, pass_: PipelinePass, rate: Rate) -> bool:
        """Return whether the task of a pass may begin now. Otherwise queue the pass for a permit, or let it sleep until its
        permit is due.

        Raises `CannotBegin`.
        """
        if self._rates is None:
            step = self._activation.step
            message = f"task {pass_.task.name} has a rate, and the workers of pool {step.pool} have no access to rates"
            raise CannotBegin(Outcome.failed("unsupported", f"{message}: let its step run in another pool", retryable=False))
        key, pace = self._inputs.rate(pass_, rate)
        at = self._permit(pass_)
        if at is not None:
            now = self._activation.clock.now()
            if now < at:
                self._sleep(pass_, key, at)
                return False
            self._forget(pass_)
            if now <= at + pace.late:
                return True
        self._asking.setdefault((key, pace), []).append(pass_)
        return False

    def is_reservation_due(self, now: int) -> bool:
        """Return whether permits are to be reserved now: passes are queued, and all permits reserved before have been due."""
        return any(self._reserved_until.get(key, 0) <= now for key, _ in self._asking)

    def reserve(self) -> Sequence[tuple[PipelinePass, Outcome]]:
        """Reserve permits for the queued passes. Returns those that would wait longer than their execution may live, with their
        outcome. Raises `Unavailable`."""
        assert self._rates is not None
        refused = []
        for (key, pace), asking in list(self._asking.items()):
            now = self._activation.clock.now()
            if self._reserved_until.get(key, 0) > now:
                continue
            some, rest = asking[: pace.max_reservation], asking[pace.max_reservation :]
            self._asking[key, pace] = rest
            if not rest:
                del self._asking[key, pace]
            permits = pace.permits(self._rates.reserve(key, pace.interval, len(some), now), now, len(some))
            self._reserved_until[key] = permits[-1]
            last = self._waiting.lives_until(now)
            for pass_, at in zip(some, permits, strict=True):
                if at > last:
                    message = (
                        f"rate {key} lets the task begin in {(at - now) // SECOND} s, after the latest end of the execution:"
                        " raise the rate, or executor.spec.policy.lifecycle.lifetime_s"
                    )
                    refused.append((pass_, Outcome.failed("rate_limit", message, retryable=False)))
                else:
                    self._sleep(pass_, key, at)
        return refused

    def _permit(self, pass_: PipelinePass) -> int | None:
        """Return when the permit of a pass may be used, if it has one; it may date from before a suspension."""
        if pass_.attempt.permit is not None:
            return pass_.attempt.permit
        known = self._activation.claim.history.waits.get(pass_.wait_id("rate"))
        return None if known is None else known.get("permit")

    def _forget(self, pass_: PipelinePass) -> None:
        """Forget a permit that is used or expired."""
        pass_.attempt.permit = None
        self._activation.claim.history.waits.pop(pass_.wait_id("rate"), None)

    def _sleep(self, pass_: PipelinePass, key: str, at: int) -> None:
        pass_.attempt.permit = at
        wait_id = pass_.wait_id("rate")  # each attempt has a permit of its own
        wait: Wait = {"wait_id": wait_id, "kind": "timer", "at": at - AHEAD_S * SECOND, "limit": key, "permit": at}
        self._waiting.sleep(pass_, pass_.placed(wait), at)
