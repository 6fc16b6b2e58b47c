"""Turns: what waits runs side by side, what computes takes a processor, a takeover runs alone."""

from __future__ import annotations

import threading

import pytest

from noetl_core.worker.turns import NoTurn, Turns


def test_commands_that_wait_run_side_by_side() -> None:
    turns = Turns(1)
    with turns.turn("waits", 0), turns.turn("waits", 0), turns.turn("computes", 0):
        pass


def test_as_many_compute_as_there_are_processors() -> None:
    turns = Turns(2)
    with turns.turn("computes", 0), turns.turn("computes", 0), pytest.raises(NoTurn), turns.turn("computes", 0):
        pass
    with turns.turn("computes", 0):
        pass


def test_a_takeover_runs_alone() -> None:
    turns = Turns(2)
    with turns.turn("waits", 0), pytest.raises(NoTurn), turns.turn("alone", 0):
        pass
    with turns.turn("alone", 0):
        for share in ("waits", "computes", "alone"):
            with pytest.raises(NoTurn), turns.turn(share, 0):
                pass


def test_a_command_begins_when_the_one_before_has_ended() -> None:
    turns, began = Turns(1), threading.Event()

    def second() -> None:
        with turns.turn("computes", 20):
            began.set()

    thread = threading.Thread(target=second)
    with turns.turn("computes", 0):
        thread.start()
        assert not began.is_set()
    assert began.wait(20)
    thread.join()


def test_a_turn_is_given_back_by_one_that_fails() -> None:
    turns = Turns(1)
    with pytest.raises(ValueError), turns.turn("alone", 0):
        raise ValueError
    with turns.turn("alone", 0):
        pass


def test_a_turn_that_waits_takes_a_processor_for_a_run_that_computes_if_one_is_free() -> None:
    turns = Turns(1)
    with turns.turn("waits", 0) as first, turns.turn("waits", 0) as second:
        assert first.may_compute()
        assert not second.may_compute()
        first.become("waits")
        assert second.may_compute()
        second.become("computes")
        with pytest.raises(NoTurn), turns.turn("computes", 0):
            pass
    with turns.turn("computes", 0) as third:
        assert third.may_compute()
