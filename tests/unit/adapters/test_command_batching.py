"""Commands of several executions leave in full requests, and what is not sent is known by its execution."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from noetl_core.adapters.aws.gathering import GatheringQueue
from noetl_core.engine.records import Command
from noetl_core.ports import Backlog, Unavailable


class Queue:
    """Records requests; refuses commands of the executions in `refused`."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.refused: set[str] = set()
        self.down = False

    def send(self, commands: Sequence[Command], delay_s: int = 0) -> Sequence[Command]:
        if self.down:
            raise Unavailable("no queue")
        self.requests.append([command.execution_id for command in commands])
        return [command for command in commands if command.execution_id in self.refused]

    def wake(self, *executions: str, delay_s: int = 0) -> None: ...

    def depth(self, pool: str | None) -> int:
        return 0

    def backlog(self) -> Backlog:
        raise NotImplementedError("commands are sent; nobody asks for the backlog")


def command(execution: int, pool: str = "default") -> Command:
    return Command(
        execution_id=str(execution),
        run_id=f"r{execution}",
        step="s",
        pool=pool,
        expected_seq=0,
        mode="first",
        digest="d",
        as_of=0,
        expires_at=0,
    )


@pytest.fixture
def below() -> Queue:
    return Queue()


def test_commands_of_a_hundred_executions_are_ten_requests(below: Queue) -> None:
    queue = GatheringQueue(below)
    with queue.gathering() as unsent:
        for number in range(100):
            assert queue.send([command(number)]) == []
    assert [len(request) for request in below.requests] == [10] * 10
    assert not unsent


def test_each_pool_has_requests_of_its_own_and_the_rest_leaves_at_the_end(below: Queue) -> None:
    queue = GatheringQueue(below)
    with queue.gathering():
        for number in range(12):
            queue.send([command(number, "python" if number % 3 == 0 else "default")])
        assert below.requests == []
    assert sum(map(len, below.requests)) == 12


def test_flush_sends_gathered_commands_before_the_batch_ends(below: Queue) -> None:
    queue = GatheringQueue(below)
    with queue.gathering():
        queue.send([command(1)])
        queue.flush()
        assert below.requests == [["1"]]
    assert below.requests == [["1"]]


def test_executions_with_refused_commands_are_named(below: Queue) -> None:
    below.refused = {"3"}
    queue = GatheringQueue(below)
    with queue.gathering() as unsent:
        for number in range(5):
            queue.send([command(number)])
    assert unsent == {"3"}


def test_a_queue_failure_leaves_only_the_commands_of_its_request_unsent(below: Queue) -> None:
    queue = GatheringQueue(below)
    with queue.gathering() as unsent:
        for number in range(10):
            queue.send([command(number)])
        below.down = True
        for number in range(10, 13):
            queue.send([command(number)])
    assert unsent == {"10", "11", "12"}


def test_outside_of_a_batch_commands_leave_at_once(below: Queue) -> None:
    queue = GatheringQueue(below)
    below.refused = {"1"}
    assert [c.execution_id for c in queue.send([command(1), command(2)])] == ["1"]
    with queue.gathering():
        queue.send([command(3)], delay_s=5)
        assert below.requests[-1] == ["3"], "a delay is not everybody's"
