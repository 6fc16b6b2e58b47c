"""Passes that cannot continue at once: they sleep in this process for a short time, or wait and suspend the run."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Literal

from noetl_core.dsl.model import Task
from noetl_core.engine import ids
from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.events.runs import StepSuspended
from noetl_core.events.shapes import Wait
from noetl_core.expr import contains_secret
from noetl_core.values.instants import SECOND
from noetl_core.worker.activation import Activation
from noetl_core.worker.pipeline_passes import PipelinePasses
from noetl_core.worker.run_tree import PipelinePass
from noetl_core.worker.waits.engine_tasks import INLINE_WAIT_S, BadWait, TooLong, outcome_of, wait_for

CHILD_DATA: tuple[Literal["args"], Literal["iter"], Literal["ctx"]] = ("args", "iter", "ctx")
"""Keys of a wait for a child whose values may be large."""
SPARE_S = 30.0
"""The least time that must be left of the invocation to start a task without a timeout, or to sleep in this process."""


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
        self._add(pass_, self._retry_wait(pass_, pass_.pipe.not_before))

    def answer_or_wait(self, pass_: PipelinePass, task: Task, inputs: Mapping[str, Any], started: int) -> Outcome | None:
        """Return the outcome of a task of kind `wait`, `callback` or `playbook` if the mail has its answer; otherwise let the
        pass wait and return None."""
        activation, pipe = self._activation, pass_.pipe
        try:
            if contains_secret(inputs):
                raise BadWait(f"a task of kind {task.kind} is recorded, so its inputs cannot hold secrets")
            handed = {k: v for k, v in pass_.iter.items() if not contains_secret(v)}
            wait = wait_for(
                task.kind,
                inputs,
                pipe.task_run(task),
                pipe.attempt,
                activation.history,
                started,
                activation.execution_id,
                handed,
                self.lives_until(started),
            )
        except BadWait as error:
            kind: ErrorKind = "limit" if isinstance(error, TooLong) else "schema"
            return Outcome.failed(kind, str(error), retryable=False)
        mail = activation.history.mail.get(wait["wait_id"])
        if mail is None and wait["kind"] == "timer" and wait["at"] <= started:
            mail = {"wait_id": wait["wait_id"], "kind": "timer"}
        if mail is not None:
            return outcome_of(wait, mail, activation.resolve)
        if wait["kind"] == "timer" and "result" in wait:
            wait["result"] = activation.offload.store_if_large(wait["result"], f"values/{pipe.task_run(task)}-result")
        for section in CHILD_DATA:
            if section in wait:
                wait[section] = activation.offload.store_each_if_large(wait[section], f"values/{pipe.task_run(task)}-{section}")
        wait = placed_wait(pass_, task, wait)
        activation.history.waits[wait["wait_id"]] = wait
        self._add(pass_, wait)
        return None

    def wait_for(self, pass_: PipelinePass, wait: Wait) -> None:
        """Let a pass wait until the run is suspended and resumed, however short the wait is."""
        pass_.wait = wait
        self._waiting.append(pass_)

    def sleep_until(self, pass_: PipelinePass, at: int) -> None:
        """Let a pass sleep here until `at`, however far away. If the run is suspended before, the pass waits for `pass_.wait`."""
        heapq.heappush(self._sleeping, (at, next(self._order), pass_))
        self.wake_at = self._sleeping[0][0]

    def lives_until(self, started: int) -> int:
        """Return when the execution must have ended (microseconds)."""
        lives_until = started + int(self._activation.playbook.executor.lifetime_s * SECOND)
        expires_at = self._activation.journal.expires_at
        return min(lives_until, expires_at * SECOND) if expires_at else lives_until

    def _add(self, pass_: PipelinePass, wait: Wait) -> None:
        """Let a pass wait: in this process if the wait is short, otherwise suspended."""
        pass_.wait = wait
        at = wait["at"] if wait["kind"] == "timer" else None
        if at is not None and self.is_soon(at):
            self.sleep_until(pass_, at)
        else:
            self.wait_for(pass_, wait)

    def is_soon(self, at: int) -> bool:
        """Return whether `at` is so near that this process may sleep until then."""
        if at - self._activation.clock.now() > INLINE_WAIT_S * SECOND:
            return False
        deadline = self._activation.deadline
        return deadline is None or at < deadline - SPARE_S * SECOND

    def _retry_wait(self, pass_: PipelinePass, at: int) -> Wait:
        task = self._activation.step.tasks[pass_.pipe.pc]
        wait_id = ids.wait_id(pass_.pipe.task_run(task), pass_.pipe.attempt, "retry")
        return placed_wait(pass_, task, {"wait_id": wait_id, "kind": "timer", "at": at})

    @property
    def latest(self) -> int:
        """The end of the last wait with a known end (microseconds); now, if there is none."""
        known = [pass_.wait["at"] for pass_ in self._waiting if pass_.wait is not None and pass_.wait["kind"] == "timer"]
        return max([self._activation.clock.now(), *known, *(at for at, _, _ in self._sleeping)])

    # --- suspending -----------------------------------------------------------------------------------------------------

    def suspend(self, ready: Iterable[PipelinePass]) -> None:
        """Suspend the run with the waits of all passes, and with the halt if there is one. `ready` are passes that could
        continue."""
        activation = self._activation
        waits = [pass_.wait for pass_ in self._waiting if pass_.wait is not None]
        waits += [pass_.wait or self._retry_wait(pass_, at) for at, _, pass_ in self._sleeping]
        if activation.halt:
            kind = activation.halt
            wait_id = ids.wait_id(activation.step_run, activation.journal.seq, kind)
            waits.append({"wait_id": wait_id, "kind": kind, "at": activation.clock.now()})
        if not waits:
            raise AssertionError(f"run {activation.step_run} has nothing to do and nothing to wait for")
        sealed = self._passes.sealed([*self._waiting, *(pass_ for _, _, pass_ in self._sleeping), *ready])
        suspended: StepSuspended = {"waits": waits}
        if sealed is not None:
            suspended["sealed"] = sealed
        activation.end(StepSuspended, **suspended)


def placed_wait(pass_: PipelinePass, task: Task, wait: Wait) -> Wait:
    """Return a wait with its task and iteration added."""
    placed: Wait = {**wait, "task": task.name}
    if pass_.path:
        placed["iteration"] = list(pass_.path)  # `path` is a child playbook's
    return placed
