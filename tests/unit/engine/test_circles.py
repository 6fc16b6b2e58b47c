"""Circles in what waits for what."""

from __future__ import annotations

from noetl_core.engine.limits.cycles import Need, circle, stuck


def test_two_that_wait_for_each_other_are_stuck_and_what_waits_for_them() -> None:
    needs = {"a": Need(("b",)), "b": Need(("a",)), "c": Need(("a",)), "d": Need(("e",)), "e": Need(())}
    assert stuck(needs) == {"a", "b", "c"}
    assert circle(needs, stuck(needs), "a") == ["a", "b"]
    assert circle(needs, stuck(needs), "c") == ()


def test_one_that_ends_frees_what_any_frees() -> None:
    needs = {"w": Need(("x", "y"), any_frees=True), "x": Need(("w",)), "y": Need(())}
    assert stuck(needs) == set()
    needs["y"] = Need(("w",))
    assert stuck(needs) == {"w", "x", "y"}


def test_what_needs_all_is_stuck_with_one() -> None:
    needs = {"x": Need(("w", "free")), "w": Need(("x",), any_frees=True), "free": Need(())}
    assert stuck(needs) == {"x", "w"}


def test_a_node_that_nobody_knows_goes_on() -> None:
    assert stuck({"a": Need(("unknown",))}) == set()


def test_the_way_round_is_the_shortest() -> None:
    needs = {"a": Need(("b", "c")), "b": Need(("d",)), "d": Need(("a",)), "c": Need(("a",))}
    assert circle(needs, stuck(needs), "a") == ["a", "c"]
