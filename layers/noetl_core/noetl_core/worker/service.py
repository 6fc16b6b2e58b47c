"""The worker service: it claims a run, drives its pipeline and ends it (docs/architecture.md, "The way of one step"). It runs
tools; it never starts a step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from noetl_core.dsl.model import Playbook
from noetl_core.engine.records import MAX_TAKEOVERS, Command, Event, StreamId
from noetl_core.events.table import TERMINAL
from noetl_core.ports import Clock, CorruptLog, EventStore, Gates, PortError, ReadsSecrets, ResultStore, Sealer, Unavailable
from noetl_core.tools.registry import ToolRegistry
from noetl_core.worker.carried_over import carried_over
from noetl_core.worker.credentials import Permitted, Registered
from noetl_core.worker.journal import LEASE_S, SECOND, Fenced, Journal
from noetl_core.worker.lease_heartbeat import LeaseHeartbeat
from noetl_core.worker.run_history import RunHistory, deliver, read_run_history
from noetl_core.worker.runner import Ended, Runner
from noetl_core.worker.sealing import Seals
from noetl_core.worker.tokens import LOCAL_URL, CallbackTokens
from noetl_core.worker.tool_caller import Cancelled, ToolCaller
from noetl_core.worker.view import Keychain, Resolver, Views, credential_reader
from noetl_core.worker.waiting import WAITING_KINDS

FEW = 100
"""So many iterations take only milliseconds when their tools are cheap."""


@dataclass(frozen=True, slots=True)
class Handled:
    """What became of a command.

    The queue may delete the message in any case. What a dropped command asked for is done elsewhere. A command that is handed
    back is one whose run another worker holds for `seconds` more; the sweeper has the run taken over later. A caller who
    wants that sooner sends the command again.
    """

    kind: Literal["done", "suspended", "dropped", "hand_back"]
    reason: str = ""
    seconds: float = 0.0
    holder: str = ""
    """The worker that holds the run, when a command is handed back."""


@dataclass(eq=False)
class Worker:
    """The data plane over its ports. Without `heartbeat` (in the simulator) no lease is renewed while a task runs."""

    store: EventStore
    results: ResultStore
    gates: Gates
    clock: Clock
    playbooks: Callable[[str], Playbook]
    tools: ToolRegistry
    secrets: ReadsSecrets | None = None
    registered: Registered | None = None
    name: str = "worker"
    gone: Callable[[str], bool] | None = None
    """Returns whether the worker of that name is known to have ended: then its lease need not run out."""
    heartbeat: LeaseHeartbeat | None = field(default_factory=LeaseHeartbeat)
    sealer: Sealer | None = None
    callback_key: Callable[[], bytes] | None = None
    callback_url: str = LOCAL_URL
    """The URL at which callbacks are answered, with `{token}` in it."""

    def __post_init__(self) -> None:
        self.views = Views(self.store, self.results, self.playbooks)
        self._at_work: dict[StreamId, _Activation] = {}
        self._lock = threading.Lock()
        self._leaving = False

    def handle(self, command: Command, deadline: int | None = None) -> Handled:
        """Carry out one command. `deadline` (microseconds) is the end of the invocation. Raises port errors, after which the
        queue delivers the command again."""
        gate = self.gates.gate(command.execution_id)
        if (gate.mode == "stop" and command.undoes is None) or command.run_id in gate.stopped_runs:
            return Handled("dropped", "the execution is being stopped")
        if gate.mode == "pause":
            return Handled("dropped", "the execution is paused; resuming sends the command again")
        stream = StreamId(command.execution_id, command.run_id)
        activation = _Activation()
        with self._lock:
            if self._leaving:
                raise Unavailable("this process is about to end")
            if self._at_work.setdefault(stream, activation) is not activation:
                return Handled("hand_back", "this process is at work on it", LEASE_S)
        try:
            claim = self._claim(command, deadline, activation)
            if isinstance(claim, Handled):
                return claim
            return self._run(command, claim, deadline, activation)
        finally:
            with self._lock:
                del self._at_work[stream]

    def leave(self, reason: str) -> None:
        """End in an orderly way: take no more commands, and release every run that is under way, so that another worker need
        not wait for its lease. If that cannot be written, the lease runs out."""
        with self._lock:
            self._leaving = True
            at_work = list(self._at_work.values())
        for activation in at_work:
            with suppress(PortError, Fenced):
                activation.leave(reason)

    def runs_inline(self, command: Command) -> bool:
        """Return whether a command ends at once: a step without a loop, or a chunk of a few iterations, whose tools never
        block and whose policies neither wait nor go back."""
        if command.undoes is not None:
            return False
        playbook = self.playbooks(command.digest)
        known: dict[str, bool] = playbook.memo.setdefault("runs_inline", {})
        if command.step not in known:
            step = playbook.by_name[command.step]
            rules = [rule for task in step.tasks if task.policy is not None for rule in task.policy.rules]
            turns = any(rule.then.do in ("retry", "jump") for rule in rules)
            nested = step.loop is not None and step.loop.inner is not None
            quick = all(t.kind not in WAITING_KINDS and self.tools.inline(t.kind) for t in step.tasks)
            known[command.step] = quick and not turns and not nested
        few = command.chunk is not None and command.loop is not None and command.loop["chunk_size"] <= FEW
        return known[command.step] and (few or playbook.by_name[command.step].loop is None)

    # --- the claim table ------------------------------------------------------------------------------------------------

    def _claim(self, command: Command, deadline: int | None, activation: _Activation) -> RunHistory | Handled:
        stream = StreamId(command.execution_id, command.run_id)
        seq, mode = command.expected_seq, command.mode
        history = self._carried_over(command) if seq == 0 and mode == "first" else self._history(command, stream)
        while True:
            if history.next_seq > seq or mode == "takeover":
                refusal = self._standing(history, command.asked)
                if refusal is not None:
                    return refusal
                seq, mode = history.next_seq, "takeover"
            elif history.next_seq < seq:
                raise CorruptLog(f"{stream}: the command is for position {seq}, but the stream ends before {history.next_seq}")
            journal = Journal(self.store, self.clock, stream, seq, command.expires_at, deadline, history.tally)
            activation.journal = journal
            journal.put(self._opening(command, mode, history))
            if mode == "resume":
                deliver(history, command.mail)
            history.as_of = command.as_of if history.as_of is None else history.as_of
            try:
                journal.flush()
            except Fenced:
                history = self._history(command, stream)
                if history.next_seq <= seq:
                    raise CorruptLog(f"{stream} refused position {seq} and does not hold it") from None
                continue
            return history

    def _history(self, command: Command, stream: StreamId) -> RunHistory:
        return read_run_history(self.store, stream, self._carried_over(command))

    def _carried_over(self, command: Command) -> RunHistory:
        """Return what a redrive keeps of the runs before this one."""
        if command.carried_over is None or "runs" not in command.carried_over:
            return RunHistory()
        return carried_over(self.store, command.execution_id, command.carried_over)

    def _standing(self, history: RunHistory, asked: bool) -> Handled | None:
        """Decide what to do with a refused claim or a takeover command, by the newest state of the stream. None means: take
        the run over at the next position."""
        if history.last is None:
            return Handled("dropped", "nothing to take over")
        if history.newest in TERMINAL:
            return Handled("dropped", f"the run has ended ({history.newest})")
        if history.newest == "StepSuspended":
            return Handled("dropped", "the run is suspended; the command is stale")
        left = history.last.lease_until - self.clock.now()
        if left > 0 and not (self.gone is not None and self.gone(history.worker)):
            return Handled("hand_back", "another worker holds the lease", left / SECOND, history.worker)
        if history.takeovers_without_progress >= MAX_TAKEOVERS and not asked:
            return Handled("dropped", "its workers keep dying; the control plane ends the run")
        return None

    def _opening(self, command: Command, mode: str, history: RunHistory) -> Event:
        as_of = command.as_of if history.as_of is None else history.as_of
        data: dict[str, Any] = {"step": command.step, "as_of": as_of, "worker": self.name}
        if command.chunk is not None:
            data["chunk"] = command.chunk
        if mode == "resume":
            data["mail"] = [dict(m) for m in command.mail]
            return Event("StepResumed", self.clock.now(), data)
        if mode == "takeover":
            data["takeover"] = history.takeovers + 1
            if command.asked:
                data["asked"] = True
        if command.carried_over is not None and "runs" in command.carried_over:
            data["goes_on"] = command.carried_over["runs"][-1][0]
        return Event("StepStarted", self.clock.now(), data)

    # --- the run --------------------------------------------------------------------------------------------------------

    def _run(self, command: Command, history: RunHistory, deadline: int | None, activation: _Activation) -> Handled:
        journal = activation.journal
        assert journal is not None
        playbook = self.playbooks(command.digest)
        secrets = (
            None if self.secrets is None else Permitted(self.secrets, command.digest, self.registered and cache(self.registered))
        )
        resolver = Resolver(self.store, self.results, command.execution_id)
        tool_caller = ToolCaller(
            playbook=playbook,
            execution_id=command.execution_id,
            run_id=command.run_id,
            tools=self.tools,
            results=self.results,
            resolve=resolver,
            gates=self.gates,
            clock=self.clock,
            journal=journal,
            credentials=credential_reader(playbook, secrets),
            undoing=command.undoes is not None,
        )
        step = playbook.body(command.step, undo=command.undoes is not None)
        key, url = self.callback_key, self.callback_url
        activation.tool_caller = tool_caller
        runner = Runner(
            playbook=playbook,
            step=step,
            tokens=CallbackTokens(playbook, step, command.execution_id, command.run_id, key, url),
            view=self.views(command, history.as_of if history.as_of is not None else command.as_of),
            history=history,
            journal=journal,
            tool_caller=tool_caller,
            step_run=command.loop["run"] if command.loop is not None else command.run_id,
            seals=Seals(self.sealer, command.execution_id, command.run_id) if self.sealer is not None else None,
            keychain=Keychain(playbook, secrets),
            chunk={**command.loop, "chunk": command.chunk} if command.loop is not None else None,
            deadline=deadline,
        )
        if self.heartbeat is not None:
            self.heartbeat.add(activation)
        try:
            return self._end(runner.run(), tool_caller)
        except Fenced as fenced:
            tool_caller.stop()
            return Handled("dropped", f"fenced: {fenced}")
        except Cancelled:
            if tool_caller.being_ended:
                return Handled("dropped", "the control plane ends the run")
            error = {"kind": "cancelled", "message": "the execution was stopped", "retryable": False}
            try:
                return self._end(Ended("StepFailed", {"error": error}), tool_caller)
            except Fenced as fenced:
                return Handled("dropped", f"fenced: {fenced}")
        finally:
            if self.heartbeat is not None:
                self.heartbeat.remove(activation)

    @staticmethod
    def _end(ended: Ended, tool_caller: ToolCaller) -> Handled:
        tool_caller.record(ended.name, {**ended.data, "events": tool_caller.journal.events + 1})
        tool_caller.journal.close()
        return Handled("suspended" if ended.name == "StepSuspended" else "done", ended.name)


class _Activation:
    """A run under way in this process, for the lease heartbeat and for `Worker.leave`."""

    __slots__ = ("journal", "tool_caller")

    def __init__(self) -> None:
        self.journal: Journal | None = None
        self.tool_caller: ToolCaller | None = None

    def renew_lease(self) -> None:
        if self.tool_caller is not None:
            self.tool_caller.renew_lease(self.tool_caller.clock.now())

    def leave(self, reason: str) -> None:
        """Release the run. Raises `Fenced`, and port errors."""
        try:
            if self.journal is not None:
                self.journal.release(reason)
        finally:
            if self.tool_caller is not None:
                self.tool_caller.fenced = Fenced("the run was released")
                self.tool_caller.stop()


__all__ = ["LEASE_S", "Handled", "Worker"]
