"""Sends work from the control plane to workers and routers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from noetl_core.engine.records import Command
from noetl_core.values.frozen import frozen


@frozen
class Waiting:
    """Numbers of messages in one queue: visible, received and not yet deleted, delayed."""

    waiting: int = 0
    in_flight: int = 0
    delayed: int = 0


@frozen
class Backlog:
    """Waiting commands by pool, wakes of the control plane, and dead letters by the queue from which they come."""

    pools: Mapping[str, Waiting]
    control: Waiting
    dead_letters: Mapping[str, int]


@frozen
class DeadLetter:
    """A message of `execution_id` that failed every time: a wake, or (with `run_id`) a command."""

    execution_id: str
    run_id: str | None = None
    step: str | None = None
    expected_seq: int = 0


class CommandQueue(Protocol):
    """The queues to which the control plane sends work. Messages are delivered at least once, in no order."""

    def send(self, commands: Sequence[Command], delay_s: int = 0) -> Sequence[Command]:
        """Send each command to its pool (delay 0-900 s). Returns the commands that could not be sent."""
        ...

    def wake(self, *executions: str, delay_s: int = 0) -> None:
        """Ask the router to reconcile executions after `delay_s` (0-900 s)."""
        ...

    def depth(self, pool: str | None) -> int:
        """Return the approximate number of commands of `pool`, or of wakes (None), that wait to be received."""
        ...

    def backlog(self) -> Backlog:
        """Return the approximate numbers of messages in all queues."""
        ...
