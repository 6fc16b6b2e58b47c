"""Calls tools: builds the call from rendered inputs, invokes the tool, and adds the metadata of the attempt."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from noetl_core.dsl.kinds import KINDS, WAITING_KINDS
from noetl_core.dsl.steps.secret_results import secret_fields
from noetl_core.engine.outcome import Outcome
from noetl_core.log.stored_values import FamilyResults, PublishedResults
from noetl_core.tools.base import AccessTokens, SecretReader, Tool, ToolCall
from noetl_core.tools.invoke import invoke, invoke_evented, invoke_planned, invoke_stop
from noetl_core.tools.registry import ToolRegistry, UnknownKind
from noetl_core.worker.activation import MARGIN_S, Activation
from noetl_core.worker.attempt import Inputs
from noetl_core.worker.claiming.run_lease import StartedTask
from noetl_core.worker.run_tree import PipelinePass
from noetl_core.worker.values.inputs import TaskReferences
from noetl_core.worker.values.task_log import TaskLog

if TYPE_CHECKING:
    from noetl_core.tools.calls.event_loop import EventLoop

WORKING_PART: Final = 0.7
"""The share of its timeout after which a resumable task begins no further part of its work."""

SOURCE_S = 60.0
"""Seconds that a call of a cursor's source may take."""


class ToolCaller:
    """Calls the tools of an activation. Thread-safe, except `prepare`."""

    def __init__(self, activation: Activation, tools: ToolRegistry, credentials: SecretReader, tokens: AccessTokens) -> None:
        self._activation, self._tools, self._credentials, self._tokens = activation, tools, credentials, tokens
        self._results = FamilyResults(activation.values.results, activation.values.resolve.family, activation.execution_id)
        self._limit = activation.playbook.executor.limits.max_input_bytes
        self.inline = tools.inline
        """Returns whether tools of a kind never block, so that they run on the driver's thread."""
        self.takes_texts = tools.takes_texts
        """Returns whether tools of a kind take `JsonText` in place of large values."""

    def prepare(self, pass_: PipelinePass, inputs: Inputs) -> ToolCall:
        """Return the call of the pass's task, with a timeout within the deadline of the invocation."""
        activation, pipe, task, timeout = self._activation, pass_.pipe, pass_.task, inputs.timeout
        resume_after = None
        if activation.invocation.deadline is not None:
            left = max(activation.invocation.left_s(activation.clock.now()) - MARGIN_S, 1.0)
            timeout = left if timeout is None else min(timeout, left)
            resume_after = timeout * WORKING_PART
        return ToolCall(
            kind=task.kind,
            inputs=inputs.inputs,
            spec=inputs.spec,
            execution_id=activation.execution_id,
            step=activation.step.name,
            task=task.name,
            task_run_id=pipe.task_run(task),
            step_run=activation.step_run,
            attempt=pipe.attempt,
            visit=pipe.visit(task),
            path=pipe.path,
            timeout_s=timeout,
            resume_after_s=resume_after,
            cancelled=activation.claim.lease.cancelled if self.inline(task.kind) else threading.Event(),
            results=self._results,
            published=PublishedResults(activation.values.results),
            references=TaskReferences(task.name, activation.values.resolve, self._limit),
            secrets=self._credentials,
            tokens=self._tokens,
            requirements=activation.playbook.executor.requirements,
            packages=self._tools.packages,
            key_values=self._tools.key_values,
            log=TaskLog(hidden=secret_fields(task) is not None),
            names=inputs.names,
        )

    def call_for_loop(self, kind: str, inputs: Mapping[str, Any], what: str, key: str) -> Outcome:
        """Call a tool for the loop itself, not for a task, and wait for it."""
        activation = self._activation
        call = ToolCall(
            kind=kind,
            inputs=inputs,
            execution_id=activation.execution_id,
            step=activation.step.name,
            task=f"cursor.{what}",
            task_run_id=key,
            timeout_s=SOURCE_S,
            cancelled=activation.claim.lease.cancelled,
            results=self._results,
            secrets=self._credentials,
        )
        return invoke(self._tool(kind), call)

    def invoke(self, call: ToolCall, started_task: StartedTask) -> Outcome:
        """Run the tool."""
        tool = self._tool(call.kind)
        if "script" in call.inputs and call.kind in KINDS and KINDS[call.kind].script:
            from noetl_core.tools.script import ScriptedTool  # 1 ms: only for tasks that fetch program text

            tool = ScriptedTool(tool, self._tools)
        return self.with_meta(invoke(tool, call), call, started_task)

    def punctual(self, call: ToolCall) -> bool:
        """Return whether the call ends by its timeout and soon after it is cancelled. One that fetches program text may not."""
        return "script" not in call.inputs and self._tools.punctual(call.kind)

    def works_outside(self, kind: str) -> bool:
        """Return whether tasks of a kind are outside work."""
        return self._tools.outside(kind) is not None

    def step_waits(self) -> bool:
        """Return whether a task of the step waits, or has its work done outside."""
        return any(task.kind in WAITING_KINDS or self.works_outside(task.kind) for task in self._activation.step.tasks)

    def plan(self, call: ToolCall) -> Outcome:
        """Return the record to write before the outside work of a call begins, or the outcome if it cannot begin."""
        tool = self._tools.outside(call.kind)
        assert tool is not None
        return invoke_planned(tool, call)

    def stop(self, call: ToolCall) -> Outcome:
        """Stop the outside work of a call."""
        tool = self._tools.outside(call.kind)
        assert tool is not None
        return invoke_stop(tool, replace(call, inputs={}))

    def with_total_times(self, outcome: Outcome, call: ToolCall, since: int) -> Outcome:
        """Return the outcome of outside work with the times of the whole work, not of the last poll."""
        meta = self._activation.meta(call.attempt, since, self._activation.clock.now())
        return replace(outcome, meta={**outcome.meta, **meta})

    def evented(self, kind: str) -> bool:
        """Return whether tools of a kind run on an event loop, without a thread of their own."""
        return self._tools.evented(kind) is not None

    async def answer(self, call: ToolCall, started_task: StartedTask, loop: EventLoop) -> Outcome:
        """Run a tool of an evented kind on `loop`."""
        tool = self._tools.evented(call.kind)
        assert tool is not None
        return self.with_meta(await invoke_evented(tool, call, loop), call, started_task)

    def with_meta(self, outcome: Outcome, call: ToolCall, started_task: StartedTask) -> Outcome:
        """Return the outcome with the metadata of the attempt: its times, its duration and its log."""
        meta = {**self._activation.meta(call.attempt, started_task.since, self._activation.clock.now()), **outcome.meta}
        if isinstance(call.log, TaskLog) and call.log:
            meta["log"] = call.log
        return replace(outcome, meta=meta)

    def _tool(self, kind: str) -> Tool:
        try:
            return self._tools.get(kind)
        except UnknownKind as unknown:
            return _Unsupported(kind, str(unknown))


class _Unsupported:
    """Answers for a kind that is not installed here."""

    inline = True

    def __init__(self, kind: str, why: str) -> None:
        self.kind, self._why = kind, why

    def run(self, call: ToolCall) -> Outcome:
        return Outcome.failed("unsupported", self._why, retryable=False)
