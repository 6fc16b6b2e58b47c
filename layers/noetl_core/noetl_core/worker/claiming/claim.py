"""Claiming a run: the first commit of an activation, at the position that its command names."""

from __future__ import annotations

from collections.abc import Callable

from noetl_core.engine.records import MAX_TAKEOVERS, Command, RunEvent, StreamId
from noetl_core.events.event import new
from noetl_core.events.runs import StepResumed, StepStarted
from noetl_core.events.table import TERMINAL
from noetl_core.log.carry_over import carried_over
from noetl_core.log.run_history import RunHistory, deliver, read_run_history
from noetl_core.ports import Clock, CorruptLog, EventStore
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import SECOND
from noetl_core.worker.claiming.handled import Handled
from noetl_core.worker.claiming.journal import Fenced, Journal
from noetl_core.worker.claiming.run_lease import RunLease

LEAST_CLAIM_S = 5
"""A run begins without a claim of its own while the claim in its schedule is valid for at least this long: the first commit
follows after a second, and may be retried."""


@frozen
class Claim:
    """A claimed run: the content of its stream so far, the journal that continues it, and the lease on it."""

    history: RunHistory
    journal: Journal
    lease: RunLease


class Claims:
    """Claims runs for the worker named `worker`. `gone(name)` returns whether the worker of that name is known to have ended.
    `most_buffered` is that of the journals."""

    def __init__(
        self, store: EventStore, clock: Clock, worker: str, gone: Callable[[str], bool] | None, most_buffered: int
    ) -> None:
        self._store, self._clock, self._worker, self._gone = store, clock, worker, gone
        self._most_buffered = most_buffered

    def take(self, command: Command, deadline: int | None, lease: RunLease) -> Claim | Handled:
        """Claim the run of a command for `lease`, or return why it cannot be claimed. Raises port errors, after which the queue
        delivers the command again."""
        stream = StreamId(command.execution_id, command.run_id)
        seq, mode = command.expected_seq, command.mode
        history = self._carried_over(command) if seq == 0 and mode == "first" else self._history(command, stream)
        while True:
            if history.next_seq > seq or mode == "takeover":
                refusal = self._refusal(history, command.asked)
                if refusal is not None:
                    return refusal
                seq, mode = history.next_seq, "takeover"
            elif history.next_seq < seq:
                raise CorruptLog(f"{stream}: the command is for position {seq}, but the stream ends before {history.next_seq}")
            journal = self._journal(command, seq, deadline, history)
            lease.journal = journal
            journal.put(self._claim_event(command, mode, history))
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
            return Claim(history, journal, lease)

    def begin(self, command: Command, deadline: int | None, lease: RunLease) -> Claim | Handled:
        """Begin a run that is claimed by the commit that scheduled it. Its first commit, which has `StepStarted`, is the put that
        excludes others. With little of the claim left, the run is claimed like any other. Raises as `take`."""
        assert command.claim is not None
        if command.claim["until"] - self._clock.now() < LEAST_CLAIM_S * SECOND:
            return self.take(command, deadline, lease)
        history = self._carried_over(command)
        journal = self._journal(command, 0, deadline, history, claimed=True)
        history.as_of = command.as_of
        lease.journal = journal
        journal.put(self._claim_event(command, "first", history))
        return Claim(history, journal, lease)

    def _journal(
        self, command: Command, seq: int, deadline: int | None, history: RunHistory, *, claimed: bool = False
    ) -> Journal:
        """Return the journal that continues the stream of a run at `seq`."""
        return Journal(
            self._store,
            self._clock,
            StreamId(command.execution_id, command.run_id),
            seq,
            command.expires_at,
            deadline,
            history.tally,
            history.aggregates,
            history.stated,
            claimed,
            self._most_buffered,
        )

    def _history(self, command: Command, stream: StreamId) -> RunHistory:
        return read_run_history(self._store, stream, self._carried_over(command))

    def _carried_over(self, command: Command) -> RunHistory:
        """Return the history that a redrive keeps of the runs before this one."""
        if command.carried_over is None or "runs" not in command.carried_over:
            return RunHistory()
        return carried_over(self._store, command.execution_id, command.carried_over)

    def _refusal(self, history: RunHistory, asked: bool) -> Handled | None:
        """Return why the stream forbids a takeover; None when the run can be taken over at the next position."""
        if history.last is None:
            return Handled("dropped", "nothing to take over")
        if history.newest in TERMINAL:
            return Handled("dropped", f"the run has ended ({history.newest})")
        if history.newest == "StepSuspended":
            return Handled("dropped", "the run is suspended; the command is stale")
        left = history.last.lease_until - self._clock.now()
        if left > 0 and not (self._gone is not None and self._gone(history.worker)):
            return Handled("hand_back", "another worker holds the lease", left / SECOND, history.worker)
        if history.takeovers_without_progress >= MAX_TAKEOVERS and not asked:
            return Handled("dropped", "its workers keep dying; the control plane ends the run")
        return None

    def _claim_event(self, command: Command, mode: str, history: RunHistory) -> RunEvent:
        as_of = command.as_of if history.as_of is None else history.as_of
        now = self._clock.now()
        if mode == "resume":
            resumed: StepResumed = {"step": command.step, "as_of": as_of, "worker": self._worker, "mail": [*command.mail]}
            if command.chunk is not None:
                resumed["chunk"] = command.chunk
            return new(StepResumed, now, **resumed)
        started: StepStarted = {"step": command.step, "as_of": as_of, "worker": self._worker}
        if command.chunk is not None:
            started["chunk"] = command.chunk
        if mode == "takeover":
            started["takeover"] = history.takeovers + 1
            if command.asked:
                started["asked"] = True
        if command.carried_over is not None and "runs" in command.carried_over:
            started["goes_on"] = command.carried_over["runs"][-1][0]
        return new(StepStarted, now, **started)
