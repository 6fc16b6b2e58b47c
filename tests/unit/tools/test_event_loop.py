"""The event loop: coroutines that wait for sockets, instants and other threads, on the thread that drives it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from noetl_core.tools.event_loop import EventLoop, LoopTask, Signal, Stopped

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


async def received(loop: EventLoop, sock: socket.socket, seconds: float) -> bytes | None:
    """What the other end sends in time."""
    return sock.recv(10) if await loop.readable(sock, time.monotonic() + seconds) else None


async def stopped_at(loop: EventLoop) -> str:
    try:
        await loop.sleep(60)
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
        loop.start(received(loop, ours, 10), lambda task: ended.append(task.result))
    assert not ended and threading.active_count() == threads
    for n, (_, theirs) in enumerate(reversed(pairs)):
        theirs.send(b"%d" % n)
    turned(loop)
    assert sorted(ended, key=str) == sorted((b"%d" % n for n in range(50)), key=str)


def test_a_wait_ends_at_its_time_and_the_others_go_on(loop: EventLoop, pairs: list[Pair]) -> None:
    short = loop.start(received(loop, pairs[0][0], 0.02))
    long = loop.start(received(loop, pairs[1][0], 10))
    while not short.done:
        loop.turn(1)
    assert short.result is None and not long.done
    pairs[1][1].send(b"x")
    turned(loop)
    assert long.result == b"x"


def test_what_has_arrived_counts_before_what_is_due(loop: EventLoop, pairs: list[Pair]) -> None:
    """Whoever drives the loop may come late, because he was busy: an answer that is there is no timeout."""
    tasks = [loop.start(received(loop, ours, 0.01)) for ours, _ in pairs]
    for _, theirs in pairs:
        theirs.send(b"x")
    time.sleep(0.03)
    loop.turn(0)
    assert [task.result for task in tasks] == [b"x"] * len(pairs)


def test_a_signal_wakes_from_another_thread_also_when_it_is_set_before(loop: EventLoop) -> None:
    async def wait(signal: Signal, seconds: float) -> bool:
        return await signal.wait(time.monotonic() + seconds)

    early, late, never = Signal(loop), Signal(loop), Signal(loop)
    early.set()
    tasks = [loop.start(wait(early, 10)), loop.start(wait(late, 10)), loop.start(wait(never, 0.05))]
    assert [task.done for task in tasks] == [True, False, False]
    thread = threading.Thread(target=late.set)
    thread.start()
    turned(loop)
    thread.join()
    assert [task.result for task in tasks] == [True, True, False]


def test_a_wake_for_another_reason_ends_no_sleep(loop: EventLoop) -> None:
    slept = loop.start(loop.sleep(0.05))
    began = time.monotonic()
    loop.wake(slept)
    loop.turn(1)
    assert not slept.done
    turned(loop)
    assert time.monotonic() - began >= 0.05


def test_a_wake_ends_a_turn(loop: EventLoop) -> None:
    loop.start(loop.sleep(60))
    threading.Timer(0.02, loop.wake).start()
    began = time.monotonic()
    loop.turn(30)
    assert time.monotonic() - began < 20


def test_who_is_stopped_hears_it_where_he_waits(loop: EventLoop) -> None:
    tasks = [loop.start(stopped_at(loop)) for _ in range(2)]
    loop.stop(tasks[0])
    assert tasks[0].result == "stopped" and not tasks[1].done
    loop.stop(tasks[0])  # once more does nothing


def test_closing_stops_all_that_is_on_its_way_or_has_not_begun() -> None:
    begun, ended = list[int](), list[LoopTask]()

    async def one(loop: EventLoop, n: int) -> str:
        begun.append(n)
        return await stopped_at(loop)

    with EventLoop(most=2) as two:
        for n in range(4):
            two.start(one(two, n), ended.append)
    assert begun == [0, 1] and len(ended) == 4
    assert [task.result for task in ended[:2]] == ["stopped", "stopped"]
    assert all(isinstance(task.error, Stopped) for task in ended[2:])


def test_no_more_than_the_limit_are_on_their_way_and_the_others_follow_in_order(pairs: list[Pair]) -> None:
    begun = list[int]()

    async def one(loop: EventLoop, n: int) -> None:
        begun.append(n)
        await received(loop, pairs[n][0], 10)

    with EventLoop(most=3) as three:
        for n in range(9):
            three.start(one(three, n))
        assert begun == [0, 1, 2]
        for n in (1, 2, 0):
            pairs[n][1].send(b"x")
        three.turn(1)
        assert begun == [0, 1, 2, 3, 4, 5]
        for _, theirs in pairs:
            theirs.send(b"x")
        turned(three)
    assert begun == list(range(9))


def test_thousands_that_end_at_once_follow_each_other() -> None:
    async def at_once() -> None:
        pass

    with EventLoop(most=1) as one:
        first = one.start(stopped_at(one))
        rest = [one.start(at_once()) for _ in range(5_000)]
        one.stop(first)
        one.turn(0)
    assert all(task.error is None for task in rest)


def test_an_error_is_the_tasks_and_ends_no_other(loop: EventLoop, pairs: list[Pair]) -> None:
    async def fails() -> None:
        raise ValueError("mine")

    bad, good = loop.start(fails()), loop.start(received(loop, pairs[0][0], 10))
    pairs[0][1].send(b"x")
    turned(loop)
    assert str(bad.error) == "mine" and good.result == b"x"
    with pytest.raises(ValueError, match="mine"):
        loop.run(fails(), threading.Event())


def test_a_socket_that_takes_the_number_of_a_closed_one_is_waited_for(loop: EventLoop) -> None:
    async def again() -> list[bytes | None]:
        got = []
        for _ in range(20):
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            theirs.send(b"x")
            got.append(await received(loop, ours, 10))
            ours.close()
            theirs.close()
        return got

    assert loop.run(again(), threading.Event()) == [b"x"] * 20
