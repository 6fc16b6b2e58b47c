"""Calls side by side: all end, in whatever order; one that takes too long ends for itself."""

from __future__ import annotations

import queue
import threading
import time
from functools import partial

import pytest

from noetl_core.adapters.aws import side_by_side as module
from noetl_core.adapters.aws.invocation import OutOfTime
from noetl_core.adapters.aws.side_by_side import NotBegun, side_by_side


def plenty() -> float:
    return 60.0


def fail() -> None:
    raise ValueError("this one fails")


def test_no_calls_have_no_outcomes() -> None:
    """A batch may hold nothing but what cannot be read."""
    assert side_by_side([], 4, lambda: 1.0) == []


def test_each_call_ends_for_itself() -> None:
    done: list[int] = []
    outcomes = side_by_side([partial(done.append, 1), fail, partial(done.append, 3)], 2, plenty)
    assert outcomes[0] is None and outcomes[2] is None
    assert isinstance(outcomes[1], ValueError)
    assert sorted(done) == [1, 3]


def test_calls_run_at_the_same_time_as_many_as_asked_for() -> None:
    together = threading.Barrier(4)
    outcomes = side_by_side([lambda: together.wait(20)] * 8, 4, plenty)
    assert outcomes == [None] * 8, "four wait for each other, twice"


def test_a_single_call_is_made_in_the_callers_thread() -> None:
    threads: list[int] = []
    assert side_by_side([lambda: threads.append(threading.get_ident())], 16, plenty) == [None]
    assert threads == [threading.get_ident()]


def test_threads_are_used_again() -> None:
    together = threading.Barrier(3)

    def once() -> int:
        side_by_side([lambda: together.wait(20)] * 3, 3, plenty)
        until = time.monotonic() + 20
        while module._threads._idle < 3 and time.monotonic() < until:
            time.sleep(0.001)
        return sum(thread.name == module.NAME for thread in threading.enumerate())

    assert once() == once() == once()


def test_a_call_that_computes_too_long_is_interrupted_and_the_others_end() -> None:
    interrupted = threading.Event()

    def endless() -> None:
        try:
            while True:
                time.sleep(0.001)
        except OutOfTime:
            interrupted.set()
            raise

    done: list[int] = []
    limits = iter([0.05, 60, 60])
    outcomes = side_by_side([endless, partial(done.append, 1), partial(done.append, 2)], 1, lambda: next(limits))
    assert isinstance(outcomes[0], OutOfTime)
    assert outcomes[1:] == [None, None], "they had to wait for its thread, and got another"
    assert interrupted.wait(10)


def test_a_call_that_hears_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.05)
    blocked, done = threading.Event(), list[int]()
    limits = iter([0.05, 60])
    outcomes = side_by_side([lambda: blocked.wait(60), partial(done.append, 1)], 2, lambda: next(limits))
    assert isinstance(outcomes[0], OutOfTime)
    assert done == [1]
    blocked.set()


def test_without_interruption_a_call_is_left_behind_and_goes_on() -> None:
    go_on, ended = threading.Event(), threading.Event()

    def slow() -> None:
        go_on.wait(60)
        ended.set()

    limits = iter([0.05, 60])
    outcomes = side_by_side([slow, lambda: None], 2, lambda: next(limits), interrupt=False)
    assert isinstance(outcomes[0], OutOfTime)
    go_on.set()
    assert ended.wait(10)


def test_what_there_is_no_time_for_is_not_begun() -> None:
    limits = iter([60.0, 0.0, 0.0])
    done: list[int] = []
    outcomes = side_by_side([partial(done.append, n) for n in range(3)], 1, lambda: next(limits))
    assert done == [0]
    assert isinstance(outcomes[1], NotBegun) and isinstance(outcomes[2], NotBegun)
    assert isinstance(side_by_side([fail], 1, lambda: 0.0)[0], NotBegun)


def test_whoever_waits_looks_after_what_was_gathered() -> None:
    pulses = threading.Semaphore(0)
    assert side_by_side([lambda: pulses.acquire(timeout=20)] * 2, 2, plenty, pulse=pulses.release) == [None, None]


def test_a_single_call_that_takes_too_long_is_interrupted_and_its_clients_are_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forgotten: list[bool] = []
    monkeypatch.setattr(module, "forget_clients", lambda: forgotten.append(True))
    (error,) = side_by_side([lambda: time.sleep(60)], 1, lambda: 0.01)
    assert isinstance(error, OutOfTime)
    assert forgotten


def test_a_call_is_not_interrupted_within_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose locks would stay locked."""
    monkeypatch.setattr(module, "GRACE_S", 0.3)
    pool: queue.Queue[int] = queue.Queue()
    heard: list[str] = []

    def wait_in_a_library() -> None:
        try:
            pool.get(timeout=60)
            heard.append("nothing")
        except OutOfTime:
            heard.append("OutOfTime")

    limits = iter([0.01, 60.0])
    outcomes = side_by_side([wait_in_a_library, lambda: None], 2, lambda: next(limits))
    assert isinstance(outcomes[0], OutOfTime), "it was left behind"
    pool.put(1)
    until = time.monotonic() + 20
    while not heard and time.monotonic() < until:
        time.sleep(0.001)
    assert heard == ["nothing"]
