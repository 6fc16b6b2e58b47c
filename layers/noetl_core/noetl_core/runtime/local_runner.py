"""Runs executions in this process until they end or cannot continue.

Only the transport differs from AWS: waking commits reach the router through a list instead of a stream, commands reach the worker
through a heap instead of a queue.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from noetl_core.adapters.clock import SteadyClock
from noetl_core.adapters.local.events import ObservedEventStore
from noetl_core.adapters.local.queue import Delivery, LocalQueue
from noetl_core.control.core import Control
from noetl_core.control.fence import boundary_of
from noetl_core.control.limits.places import DUE
from noetl_core.control.sweeping.sweep import Swept, reconcile, sweep
from noetl_core.control.triggers.schedules import fire_due
from noetl_core.engine.dispatch.commands import commands_of
from noetl_core.engine.ids import trigger_of
from noetl_core.engine.records import Boundary, Command, Commit, OwnWorker, StreamId
from noetl_core.engine.state import State
from noetl_core.engine.statuses import HELD, TERMINAL
from noetl_core.engine.warnings import count_of
from noetl_core.ports import NotFound, StorageFailed, Unavailable, UnreadableStore
from noetl_core.values.instants import SECOND
from noetl_core.worker.service import Worker

log = logging.getLogger(__name__)

THREADS = 16
"""Concurrent commands; further parallel branches wait."""
IDLE_LOOK_S = 1.0
"""Interval in seconds at which an idle process looks for stalled executions and for commits of other processes."""
RETAIN_EVERY_S = 600.0
"""Interval in seconds at which a serving process deletes expired data."""
HELD_LOOK_S = 5.0
"""Interval in seconds at which a run of another process is checked: that process may die before its lease ends."""


class Interrupted(Exception):
    """The process ends before the run has ended. The run can be continued from the log."""


class LocalRunner:
    """Router, queue consumer and sweeper of one process over a local store.

    Several processes may share the store: each runs its own executions, and notices what other processes write to them.
    """

    def __init__(
        self, control: Control, worker: Worker, store: ObservedEventStore, queue: LocalQueue, clock: SteadyClock
    ) -> None:
        self._control, self._worker, self._store, self._queue, self._clock = control, worker, store, queue, clock
        store.on_wake, store.lost = self._woken, self._forget
        self._wakes: deque[Commit] = deque()
        self.own = OwnWorker(worker.name, worker.ends_at_once)
        """The worker of this process, which takes the runs that it ends at once in the commit that schedules them."""
        self._durable = 0
        """Commands with a lower order are those of durable claims."""
        self._running = 0
        self._left = ""
        self.holder = ""
        """The worker of another process that holds a run of this process."""
        self._carrier: threading.Thread | None = None
        """The thread that runs executions."""
        self._broken: deque[BaseException] = deque()
        self._pool: ThreadPoolExecutor | None = None
        self._looked = 0
        self._alone = True
        self._states: dict[str, State] = {}
        self._news: set[str] = set()
        """Executions that may have changed since their state was cached."""
        self._mine: set[str] = set()
        """Executions that this process runs, including their children."""
        self._foreign: set[str] = set()
        self.retain: Callable[[], object] = lambda: None
        """Deletes expired data."""
        self._retained = 0
        self._serves = False
        """True if this process serves the whole store, not only its own executions."""

    def close(self) -> None:
        """Begin nothing more. Commands in progress are left to their leases."""
        self._store.closed = True
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    # --- running --------------------------------------------------------------------------------------------------------

    def run(self, *executions: str, timeout_s: float | None = None) -> bool:
        """Run executions until all have ended or cannot continue.

        Return False if `timeout_s` passes first. Raises `Interrupted` after another thread has called `leave`, and
        `StorageFailed` if the store cannot be written.
        """
        self._carrier = threading.current_thread()
        try:
            return self._carry_out(set(executions), timeout_s)
        finally:
            self._store.sync()  # the caller gets its answer after this

    def _carry_out(self, open_ones: set[str], timeout_s: float | None) -> bool:
        self._news |= open_ones
        self._mine |= open_ones
        self._foreign -= open_ones
        for execution_id in open_ones:
            self._states[execution_id] = self._control.latest(execution_id)  # a redrive may have reopened it
        until = None if timeout_s is None else self._clock.now() + int(timeout_s * SECOND)
        self._alone = until is None  # with a timeout to keep, this thread stays free
        while not self._left:
            ended = {x for x in self._news & open_ones if self._finished(x)}
            open_ones -= ended
            if not open_ones:
                return True
            self._news = {x for x in self._news - ended if x in open_ones and self._states[x].status in HELD}
            if until is not None and self._clock.now() >= until:
                return False
            if not self._act():
                self._idle(until)
        raise Interrupted(self._left)

    def serve(self) -> None:
        """Do everything that is due in the store until another thread calls `leave`: triggers, timers, and executions of other
        processes. A failing execution does not stop others. Raises `StorageFailed` if the store cannot be written,
        `UnreadableStore` if it cannot be read."""
        self._carrier = threading.current_thread()
        self._serves, self._alone = True, False
        while not self._left:
            try:
                if not self._act():
                    self._idle(None)
            except (StorageFailed, UnreadableStore):
                raise
            except Exception:  # affects one execution, which remains due
                log.exception("a due action failed; it will be retried")
        self._store.sync()

    def leave(self, reason: str) -> None:
        """Shut down: release all runs in progress, so that no other process waits for their leases, and write nothing afterwards.

        Called by a thread other than that of `run`.
        """
        self._left = reason
        self._worker.leave(reason)
        self._store.closed = True
        with self._queue.changed:
            self._queue.changed.notify_all()

    def _finished(self, execution_id: str) -> bool:
        state = self._state(execution_id)
        if state.finished:
            return True
        return state.status in HELD and not self._running and not self._wakes

    def failed(self, executions: Iterable[str]) -> list[str]:
        """Return those of the executions that have failed or ended with warnings: they may have a handler."""
        states = {execution_id: self._state(execution_id) for execution_id in executions}
        return [i for i, s in states.items() if s.status == "failed" or (s.status == "completed" and count_of(s))]

    def _state(self, execution_id: str) -> State:
        """Return the cached state of an execution."""
        state = self._states.get(execution_id)
        if state is None:
            state = self._states[execution_id] = self._control.load(execution_id)  # others may have written to it
        return state

    def _woken(self, commit: Commit) -> None:
        if self._store.routes(commit):
            return
        self._queue.after_commit(partial(self._wakes.append, commit))
        if threading.current_thread() is not self._carrier:
            with self._queue.changed:
                self._queue.changed.notify_all()

    def _act(self) -> bool:
        """Do one thing that can be done now. Return False if there is none."""
        if self._broken:
            raise self._broken.popleft()
        if self._wakes:
            self._route()
            return True
        delivery = self._queue.receive()
        if delivery is None:
            return False
        trigger = trigger_of(delivery.execution_id)
        if trigger is not None:
            fire_due(self._control, *trigger)
            return True
        self._mine.add(delivery.execution_id)
        if delivery.command is None:
            reconcile(self._control, delivery.execution_id, Swept())
            self._states.pop(delivery.execution_id, None)
            self._news.add(delivery.execution_id)
        elif self._alone and (
            (self._running == 0 and self._queue.next_at() is None) or self._worker.runs_inline(delivery.command)
        ):
            self._handle_here(delivery)  # nothing else to do, or it ends at once: no thread needed
        else:
            self._submit(delivery)
        return True

    def _route(self) -> None:
        """Route everything that waits, by execution. If one raises, the others still wait."""
        waiting: dict[str, list[Commit]] = {}
        try:
            while self._wakes:
                commit = self._wakes.popleft()
                waiting.setdefault(commit.stream.execution_id, []).append(commit)
            while waiting:
                execution_id = next(iter(waiting))
                boundaries = [boundary for commit in waiting.pop(execution_id) if (boundary := boundary_of(commit)) is not None]
                if boundaries:
                    self._route_boundaries(execution_id, boundaries)
        finally:  # before those that came meanwhile
            self._wakes.extendleft(commit for commits in reversed(waiting.values()) for commit in reversed(commits))

    def _route_boundaries(self, execution_id: str, boundaries: Sequence[Boundary]) -> None:
        self._states[execution_id] = self._control.route(execution_id, boundaries, own=self.own)
        self._news.add(execution_id)

    def _handle_here(self, delivery: Delivery) -> None:
        """Carry out a command in this thread. The end of the run, its routing and the claims to the next runs are one
        transaction."""
        self._store.router, self._store.route = threading.get_ident(), self._route_end
        try:
            self._handle(delivery)
        finally:
            self._store.route = None

    def _route_end(self, commit: Commit) -> None:
        """Route the end of a run in the transaction that writes it. An error does not concern the worker: the end is routed
        again when it is committed."""
        self._store.route = None  # ends that the routing itself writes come later
        boundary = boundary_of(commit)
        try:
            if boundary is not None:
                self._route_boundaries(commit.stream.execution_id, [boundary])
        except Exception:  # raised again where it is routed next, unless this transaction is lost
            self._queue.after_commit(partial(self._wakes.append, commit))

    def _forget(self) -> None:
        """Forget cached states: perhaps they are not in the store."""
        self._control.forget()
        self._states.clear()

    def _submit(self, delivery: Delivery) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="worker")
        self._running += 1

        def work() -> None:
            try:
                self._handle(delivery)
            finally:
                with self._queue.changed:
                    self._running -= 1
                    self._queue.changed.notify_all()

        self._pool.submit(work).add_done_callback(self._worked)

    def _worked(self, work: Future[None]) -> None:
        """Raise an error of a worker's thread, which is a bug of the engine, in the thread that waits for the execution."""
        wrong = None if work.cancelled() else work.exception()
        if wrong is not None:
            self._broken.append(wrong)
            with self._queue.changed:
                self._queue.changed.notify_all()

    def _handle(self, delivery: Delivery) -> None:
        assert delivery.command is not None
        try:
            if delivery.command.claim is not None and delivery.order >= self._durable:
                durable = self._queue.next_order()
                self._store.sync()  # a task begins when its claim and everything before it are durable
                self._durable = durable
            handled = self._worker.handle(delivery.command)
        except Unavailable as error:
            failed = isinstance(error, StorageFailed)
            # a claim in the schedule is good for one attempt: the run's stream may hold a release now
            again = replace(delivery, command=replace(delivery.command, claim=None))
            self._queue.put_back(again, 0 if failed else 1)
            if failed:
                raise  # someone must act first
            return
        if handled.kind == "hand_back":
            self.holder = handled.holder
            self._queue.put_back(delivery, min(handled.seconds, HELD_LOOK_S))

    def _idle(self, until: int | None) -> None:
        """Reconcile stalled executions, then wait for a commit or for the next timer."""
        self._store.sync()
        now = self._clock.now()
        if now - self._looked >= IDLE_LOOK_S * SECOND:
            self._looked = now
            swept = sweep(self._control, mine=None if self._serves else self._is_mine)
            if self._serves:
                self._forget_ended()
                if now - self._retained >= RETAIN_EVERY_S * SECOND:
                    self._retained = now
                    self.retain()
            if self._others_acted() or swept.looked:  # the first compares with the states of before the sweep
                self._news |= self._mine
                return
        at = self._queue.next_at()
        wait = IDLE_LOOK_S if at is None else min(IDLE_LOOK_S, max(0.0, (at - now) / SECOND))
        if until is not None:
            wait = min(wait, max(0.0, (until - now) / SECOND))
        with self._queue.changed:
            if not self._wakes and wait > 0:
                self._queue.changed.wait(wait)

    # --- sharing the store ----------------------------------------------------------------------------------------------

    def _is_mine(self, execution_id: str) -> bool:
        """Return whether this process runs the execution.

        Other processes handle theirs, and their unfinished executions wait for `adopt`, because a new `noetl run` must not
        continue older executions.
        """
        if execution_id in self._mine or execution_id.startswith(DUE):
            return True  # all processes handle limits
        if execution_id in self._foreign:
            return False
        parent = self._control.load(execution_id).parent
        mine = parent is not None and parent["execution_id"] in self._mine
        (self._mine if mine else self._foreign).add(execution_id)
        return mine

    def _forget_ended(self) -> None:
        """Forget ended executions when serving, so that memory does not grow."""
        for execution_id in list(self._mine):
            head = self._control.index.head(execution_id)
            if head is not None and head.status in TERMINAL:
                self._mine.discard(execution_id)
                self._states.pop(execution_id, None)
                self._news.discard(execution_id)

    def _others_acted(self) -> bool:
        """Return whether another process wrote to an execution of this one, such as a signal, a pause or a cancel.

        The effects are carried out here.
        """
        acted = [each for each in self._mine if self._is_stale(each)]  # before any is loaded: that of a child may load its caller
        for execution_id in acted:
            self._take_up(execution_id)
        return bool(acted)

    def _is_stale(self, execution_id: str) -> bool:
        known = self._states.get(execution_id)
        last = self._store.last(StreamId(execution_id))
        return known is not None and last is not None and last.seq > known.seq

    def adopt(self, execution_id: str) -> None:
        """Continue an execution of another process, at the request of a person: route unrouted boundaries, and send the commands
        of all open runs again. A run that a live process holds stays with it; one whose process has died is taken over at once,
        regardless of earlier takeovers. Raises `NotFound`."""
        self._take_up(execution_id, asked=True)

    def _take_up(self, execution_id: str, *, asked: bool = False) -> None:
        self._mine.add(execution_id)
        self._clock.not_before(self._store.newest(execution_id))
        reconcile(self._control, execution_id, Swept(), asked=asked)
        state = self._states[execution_id] = self._control.load(execution_id)
        if state.seq < 0:
            raise NotFound(f"there is no execution {execution_id}")
        if state.finished:
            return
        scheduled = [r.id for r in state.runs.values() if r.status == "scheduled"]
        commands = commands_of(self._control.playbook(state.digest), state, scheduled)
        for command in commands:
            self._queue.send([self._standing(command, asked)], self._claimed_s(state, command.run_id, asked))
        for child in list(state.children):
            self._take_up(child, asked=asked)

    def _claimed_s(self, state: State, run_id: str, asked: bool) -> int:
        """Return for how many seconds the command of a run is not sent, because a process that lives has it by a claim. This
        process has lost the command of its own claim if a person asks for it."""
        claim = state.runs[run_id].claim
        own = claim is not None and claim["worker"] == self._worker.name
        if claim is None or (asked if own else self._worker.gone is not None and self._worker.gone(claim["worker"])):
            return 0
        return max(0, -(-(claim["until"] - self._clock.now()) // SECOND))

    def _standing(self, command: Command, asked: bool) -> Command:
        """Return the command in its current form: a takeover if a worker has begun the run."""
        last = self._store.last(StreamId(command.execution_id, command.run_id))
        if last is None or last.seq < command.expected_seq:
            return command
        return replace(command, mode="takeover", expected_seq=last.seq + 1, asked=asked)
