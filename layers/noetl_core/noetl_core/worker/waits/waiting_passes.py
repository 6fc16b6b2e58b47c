"""Passes that cannot continue at once: they sleep in this process for a short time, or wait and suspend the run."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Literal

from noetl_core.engine import ids
from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.events.runs import StepSuspended
from noetl_core.events.shapes import Wait
from noetl_core.expr import contains_secret
from noetl_core.values.instants import SECOND
from noetl_core.worker.activation import SPARE_S, Activation
from noetl_core.worker.pipeline_passes import PipelinePasses
from noetl_core.worker.run_tree import PipelinePass
from noetl_core.worker.waits.engine_tasks import INLINE_WAIT_S, BadWait, TooLong, outcome_of, wait_for

CHILD_DATA: tuple[Literal["args"], Literal["iter"], Literal["ctx"]] = ("args", "iter", "ctx")
"""Keys of a wait for a child whose values may be large."""


class WaitingPasses:
    """The passes of an activation that sleep or wait."""

    def __init__(self, activation: Activation, passes: PipelinePasses) -> None:
        self._activation, self._passes = activation, passes
        self._sleeping: list[tuple[int, int, PipelinePass]] = []
        """Passes that sleep in this process, by when they wake."""
        self._waiting: list[PipelinePass] = []
        """Passes that wait longer; the run is suspended once nothing else is left to do."""
        self._order = count()
        self.wake_at: int | None = None
        """The instant at which the next sleeping pass wakes (microseconds); None if none sleeps."""

    # --- sleeping -------------------------------------------------------------------------------------------------------

    def take_woken(self, now: int) -> list[PipelinePass]:
        """Remove and return the passes that wake by `now`, in order."""
        woken = []
        while self._sleeping and self._sleeping[0][0] <= now:
            woken.append(self.take_next())
        return woken

    def take_next(self) -> PipelinePass:
        """Remove and return the pass that wakes next."""
        pass_ = heapq.heappop(self._sleeping)[2]
        self.wake_at = self._sleeping[0][0] if self._sleeping else None
        return pass_

    # --- beginning to wait ----------------------------------------------------------------------------------------------

    def retry_later(self, pass_: PipelinePass) -> None:
        """Let a pass wait until its retry may run."""
        self._wait(pass_, pass_.placed({"wait_id": pass_.wait_id("retry"), "kind": "timer", "at": pass_.pipe.not_before}))

    def answer_or_wait(self, pass_: PipelinePass, inputs: Mapping[str, Any]) -> Outcome | None:
        """Return the outcome of a task of kind `wait`, `callback` or `playbook` if the mail has its answer; otherwise let the
        pass wait and return None."""
        activation, task, (task_run, attempt), started = self._activation, pass_.task, pass_.key, pass_.attempt.started
        try:
            if contains_secret(inputs):
                raise BadWait(f"a task of kind {task.kind} is recorded, so its inputs cannot hold secrets")
            handed = {k: v for k, v in pass_.iter.items() if not contains_secret(v)}
            wait = wait_for(
                task.kind,
                inputs,
                task_run,
                attempt,
                activation.claim.history,
                started,
                activation.execution_id,
                handed,
                self.lives_until(started),
            )
        except BadWait as error:
            kind: ErrorKind = "limit" if isinstance(error, TooLong) else "schema"
            return Outcome.failed(kind, str(error), retryable=False)
        mail = activation.claim.history.mail.get(wait["wait_id"])
        if mail is None and wait["kind"] == "timer" and wait["at"] <= started:
            mail = {"wait_id": wait["wait_id"], "kind": "timer"}
        if mail is not None:
            return outcome_of(wait, mail, activation.values.resolve)
        if wait["kind"] == "timer" and "result" in wait:
            wait["result"] = activation.values.store_if_large(wait["result"], f"values/{task_run}-result")
        for section in CHILD_DATA:
            if section in wait:
                wait[section] = activation.values.store_each_if_large(wait[section], f"values/{task_run}-{section}")
        wait = pass_.placed(wait)
        activation.claim.history.waits[wait["wait_id"]] = wait
        self._wait(pass_, wait)
        return None

    def wait_for(self, pass_: PipelinePass, wait: Wait) -> None:
        """Let a pass wait until the run is suspended and resumed, however short the wait is."""
        pass_.attempt.wait = wait
        self._waiting.append(pass_)

    def sleep(self, pass_: PipelinePass, wait: Wait, at: int) -> None:
        """Let a pass sleep here until `at`, however far away. If the run is suspended before, it is suspended with `wait`."""
        pass_.attempt.wait = wait
        heapq.heappush(self._sleeping, (at, next(self._order), pass_))
        self.wake_at = self._sleeping[0][0]

    def lives_until(self, started: int) -> int:
        """Return when the execution must have ended (microseconds)."""
        lives_until = started + int(self._activation.playbook.executor.lifetime_s * SECOND)
        expires_at = self._activation.claim.journal.expires_at
        return min(lives_until, expires_at * SECOND) if expires_at else lives_until

    def _wait(self, pass_: PipelinePass, wait: Wait) -> None:
        """Let a pass wait: in this process if the wait is short, otherwise suspended."""
        if wait["kind"] == "timer" and self.is_soon(wait["at"]):
            self.sleep(pass_, wait, wait["at"])
        else:
            self.wait_for(pass_, wait)

    def is_soon(self, at: int) -> bool:
        """Return whether `at` is so near that this process may sleep until then."""
        near = at - self._activation.clock.now() <= INLINE_WAIT_S * SECOND
        return near and self._activation.invocation.left_s(at) > SPARE_S

    @property
    def latest(self) -> int:
        """The end of the last wait with a known end (microseconds); now, if there is none."""
        waits = [pass_.attempt.wait for pass_ in self._waiting]
        known = [wait["at"] for wait in waits if wait is not None and wait["kind"] == "timer"]
        return max([self._activation.clock.now(), *known, *(at for at, _, _ in self._sleeping)])

    # --- suspending -----------------------------------------------------------------------------------------------------

    def suspend(self, ready: Iterable[PipelinePass]) -> None:
        """Suspend the run with the waits of all passes, and with the halt if there is one. `ready` are passes that could
        continue."""
        activation = self._activation
        parked = [*self._waiting, *(pass_ for _, _, pass_ in self._sleeping)]
        waits = [pass_.attempt.wait for pass_ in parked if pass_.attempt.wait is not None]
        if activation.halt:
            kind = activation.halt
            wait_id = ids.wait_id(activation.step_run, activation.claim.journal.seq, kind)
            waits.append({"wait_id": wait_id, "kind": kind, "at": activation.clock.now()})
        if not waits:
            raise AssertionError(f"run {activation.step_run} has nothing to do and nothing to wait for")
        sealed = self._passes.sealed([*parked, *ready])
        suspended: StepSuspended = {"waits": waits}
        if sealed is not None:
            suspended["sealed"] = sealed
        activation.end(StepSuspended, **suspended)
