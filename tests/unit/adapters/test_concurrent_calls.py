"""Calls side by side: all end, in whatever order; one that takes too long ends by itself or is left behind."""

from __future__ import annotations

import threading
import time

import pytest

from noetl_core.adapters.aws.functions import concurrent_calls as module
from noetl_core.adapters.aws.functions.concurrent_calls import Call, NotBegun, in_time, side_by_side
from noetl_core.ports import Deadline, OutOfTime


def plenty() -> float:
    return 60.0


def fail(_: Deadline) -> None:
    raise ValueError("this one fails")


def noting(done: list[int], number: int) -> Call:
    return lambda _: done.append(number)


def endless(deadline: Deadline) -> None:
    while True:
        deadline.check()
        time.sleep(0.001)


def test_no_calls_have_no_outcomes() -> None:
    """A batch may hold nothing but what cannot be read."""
    assert side_by_side([], 4, lambda: 1.0) == []


def test_a_failing_call_does_not_stop_the_others() -> None:
    done: list[int] = []
    outcomes = side_by_side([noting(done, 1), fail, noting(done, 3)], 2, plenty)
    assert outcomes[0] is None and outcomes[2] is None
    assert isinstance(outcomes[1], ValueError)
    assert sorted(done) == [1, 3]


def test_as_many_calls_run_at_once_as_requested() -> None:
    together = threading.Barrier(4)
    outcomes = side_by_side([lambda _: together.wait(20)] * 8, 4, plenty)
    assert outcomes == [None] * 8, "four wait for each other, twice"


def test_threads_are_used_again() -> None:
    together = threading.Barrier(3)

    def once() -> int:
        side_by_side([lambda _: together.wait(20)] * 3, 3, plenty)
        return sum(thread.name == module.NAME for thread in threading.enumerate())

    until, before = time.monotonic() + 20, 0
    while before != (before := once()):
        assert time.monotonic() < until, "every call starts threads"
        time.sleep(0.001)  # a thread that has answered is free a moment later


def test_a_call_that_checks_its_deadline_ends_there_and_the_others_go_on() -> None:
    done: list[int] = []
    limits = iter([0.05, 60, 60])
    outcomes = side_by_side(
        [endless, noting(done, 1), noting(done, 2)], 1, lambda: next(limits), grace_s=60
    )  # the grace is so long that nothing is left behind
    assert isinstance(outcomes[0], OutOfTime)
    assert "took longer than 0.05 s" in str(outcomes[0])
    assert outcomes[1:] == [None, None]
    assert done == [1, 2]


def test_no_handler_of_errors_on_the_way_keeps_a_call_going() -> None:
    def careless(deadline: Deadline) -> None:
        while True:
            try:
                endless(deadline)
            except Exception:
                continue

    (error,) = side_by_side([careless], 1, lambda: 0.05, grace_s=60)
    assert isinstance(error, OutOfTime)


@pytest.mark.parametrize("calls", [1, 2])
def test_a_call_that_checks_nothing_is_left_behind_and_goes_on(calls: int) -> None:
    """As one that waits in a library."""
    go_on, ended, done = threading.Event(), threading.Event(), list[int]()

    def slow(_: Deadline) -> None:
        go_on.wait(60)
        ended.set()

    limits = iter([0.05, 60])
    outcomes = side_by_side([slow, noting(done, 1)][:calls], 2, lambda: next(limits), grace_s=0.05)
    assert isinstance(outcomes[0], OutOfTime)
    assert done == [1][: calls - 1]
    go_on.set()
    assert ended.wait(10)


def test_calls_that_wait_for_the_thread_of_one_left_behind_get_another() -> None:
    blocked, done = threading.Event(), list[int]()
    limits = iter([0.05, 60, 60])
    calls: list[Call] = [lambda _: blocked.wait(60), noting(done, 1), noting(done, 2)]
    outcomes = side_by_side(calls, 1, lambda: next(limits), grace_s=0.05)
    assert isinstance(outcomes[0], OutOfTime)
    assert outcomes[1:] == [None, None]
    assert done == [1, 2]
    blocked.set()


def test_calls_without_time_left_are_not_begun() -> None:
    limits = iter([60.0, 0.0, 0.0])
    done: list[int] = []
    outcomes = side_by_side([noting(done, n) for n in range(3)], 1, lambda: next(limits))
    assert done == [0]
    assert isinstance(outcomes[1], NotBegun) and isinstance(outcomes[2], NotBegun)
    assert isinstance(side_by_side([fail], 1, lambda: 0.0)[0], NotBegun)


def test_the_pulse_is_called_while_the_caller_waits() -> None:
    pulses = threading.Semaphore(0)
    assert side_by_side([lambda _: pulses.acquire(timeout=20)] * 2, 2, plenty, pulse=pulses.release) == [None, None]


def test_one_call_gives_its_result_or_raises_its_error() -> None:
    assert in_time(lambda deadline: deadline.limit_s, 60) == 60
    with pytest.raises(ValueError, match="this one fails"):
        in_time(fail, 60)
    with pytest.raises(OutOfTime, match=r"took longer than 0\.05 s"):
        in_time(endless, 0.05)
