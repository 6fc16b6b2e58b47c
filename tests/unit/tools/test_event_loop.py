"""The event loop: coroutines that wait for sockets, instants and other threads, on the thread that drives it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from noetl_core.tools.calls.event_loop import EventLoop, LoopTask, Stopped, drop

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    with EventLoop() as loop:
        yield loop


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    pairs = [socket.socketpair() for _ in range(50)]
    for ours, _ in pairs:
        ours.setblocking(False)
    yield pairs
    for pair in pairs:
        for end in pair:
            end.close()


async def received(sock: socket.socket) -> bytes:
    """Return the bytes that the other end sends."""
    return await asyncio.get_running_loop().sock_recv(sock, 10)


async def stopped_at() -> str:
    try:
        await asyncio.sleep(60)
    except Stopped:
        return "stopped"
    return "slept"


def turned(loop: EventLoop) -> None:
    """Turn until nothing is on its way."""
    until = time.monotonic() + 10
    while loop and time.monotonic() < until:
        loop.turn(0.5)
    assert not loop


def test_many_wait_on_one_thread_and_go_on_as_their_sockets_become_ready(loop: EventLoop, pairs: list[Pair]) -> None:
    threads, ended = threading.active_count(), list[object]()
    for ours, _ in pairs:
        loop.start(received(ours), lambda task: ended.append(task.result))
    loop.turn(0)
    assert not ended and threading.active_count() == threads
    for n, (_, theirs) in enumerate(reversed(pairs)):
        theirs.send(b"%d" % n)
    turned(loop)
    assert sorted(ended, key=str) == sorted((b"%d" % n for n in range(50)), key=str)


def test_a_turn_ends_when_a_call_has_ended_and_the_others_go_on(loop: EventLoop, pairs: list[Pair]) -> None:
    short, long = loop.start(asyncio.sleep(0.02)), loop.start(received(pairs[1][0]))
    began = time.monotonic()
    while not short.done:
        loop.turn(30)
    assert time.monotonic() - began < 20 and not long.done
    pairs[1][1].send(b"x")
    turned(loop)
    assert long.result == b"x"


def test_a_wake_ends_a_turn_also_when_it_comes_before(loop: EventLoop) -> None:
    loop.start(asyncio.sleep(60))
    threading.Timer(0.02, loop.wake).start()
    began = time.monotonic()
    loop.turn(30)
    loop.wake()
    loop.turn(30)
    assert time.monotonic() - began < 20


def test_a_stopped_task_is_interrupted_where_it_waits(loop: EventLoop) -> None:
    tasks = [loop.start(stopped_at()) for _ in range(2)]
    loop.turn(0)
    loop.stop(tasks[0])
    assert tasks[0].result == "stopped" and not tasks[1].done
    loop.stop(tasks[0])  # once more does nothing


def test_closing_stops_all_that_is_on_its_way_or_has_not_begun() -> None:
    begun, ended = list[int](), list[LoopTask]()

    async def one(n: int) -> str:
        begun.append(n)
        return await stopped_at()

    with EventLoop(most=2) as two:
        for n in range(4):
            two.start(one(n), ended.append)
        two.turn(0)
    assert begun == [0, 1] and len(ended) == 4
    assert sorted(str(task.result) for task in ended) == ["None", "None", "stopped", "stopped"]
    assert sum(isinstance(task.error, Stopped) for task in ended) == 2


def test_no_more_than_the_limit_are_on_their_way_and_the_others_follow_in_order(pairs: list[Pair]) -> None:
    begun = list[int]()

    async def one(n: int) -> None:
        begun.append(n)
        await received(pairs[n][0])

    def turned_until(many: int) -> None:
        until = time.monotonic() + 10
        while len(begun) < many and time.monotonic() < until:
            three.turn(0.1)

    with EventLoop(most=3) as three:
        for n in range(9):
            three.start(one(n))
        three.turn(0)
        assert begun == [0, 1, 2]
        for n in (1, 2, 0):
            pairs[n][1].send(b"x")
        turned_until(6)
        assert begun == [0, 1, 2, 3, 4, 5]
        for _, theirs in pairs:
            theirs.send(b"x")
        turned(three)
    assert begun == list(range(9))


def test_thousands_that_end_at_once_follow_each_other() -> None:
    async def at_once() -> None:
        pass

    with EventLoop(most=1) as one:
        first = one.start(stopped_at())
        rest = [one.start(at_once()) for _ in range(5_000)]
        one.stop(first)
        turned(one)
    assert all(task.error is None for task in rest)


def test_an_error_is_the_tasks_and_ends_no_other(loop: EventLoop, pairs: list[Pair]) -> None:
    async def fails() -> None:
        raise ValueError("mine")

    bad, good = loop.start(fails()), loop.start(received(pairs[0][0]))
    pairs[0][1].send(b"x")
    turned(loop)
    assert str(bad.error) == "mine" and good.result == b"x"
    with pytest.raises(ValueError, match="mine"):
        loop.run(fails(), threading.Event())


def test_a_run_may_be_driven_from_a_coroutine_of_another_loop() -> None:
    async def of_an_application() -> str:
        with EventLoop() as loop:
            task = loop.start(asyncio.sleep(0.01, "slept"))
            turned(loop)
        assert asyncio.get_running_loop()
        return str(task.result)

    assert asyncio.run(of_an_application()) == "slept"


class Owner:
    """The owner of a kept object."""


class Noted:
    """An object that an owner keeps on a loop."""

    def __init__(self) -> None:
        self.closed = 0

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed += 1


def closed(kept: object) -> int:
    assert isinstance(kept, Noted)
    return kept.closed


def test_a_kept_object_serves_later_loops_and_closes_with_its_owner() -> None:
    owner, seen = Owner(), list[object]()

    def run() -> None:
        with EventLoop() as loop:
            seen.append(loop.kept(owner, Noted))

    for _ in range(3):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    with EventLoop() as loop, EventLoop() as other:
        assert loop.kept(owner, Noted) is seen[0] and other.kept(owner, Noted) is not seen[0]
        of_other = other.kept(owner, Noted)
        drop(owner)
        assert closed(of_other) == 0, "the loop is in use"
    assert len(set(seen)) == 1 and closed(seen[0]) == closed(of_other) == 1


def test_a_fork_gets_no_loop_of_its_parent() -> None:
    owner = Owner()
    with EventLoop() as loop:
        kept = loop.kept(owner, Noted)
    child = os.fork()
    if child == 0:
        with EventLoop() as loop:
            os._exit(1 if loop.kept(owner, Noted) is kept else 0)
    with EventLoop() as loop:
        assert loop.kept(owner, Noted) is kept
    assert os.waitpid(child, 0)[1] == 0
