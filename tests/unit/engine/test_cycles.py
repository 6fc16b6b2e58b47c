"""Cycles in wait-for graphs (`engine.limits.cycles`): who is stuck, and the shortest cycle."""

from __future__ import annotations

from noetl_core.engine.limits.cycles import Need, circle, stuck


def test_nodes_in_a_circle_and_nodes_that_wait_for_them_are_stuck() -> None:
    needs = {"a": Need(("b",)), "b": Need(("a",)), "c": Need(("a",)), "d": Need(("e",)), "e": Need(())}
    assert stuck(needs) == {"a", "b", "c"}
    assert circle(needs, stuck(needs), "a") == ["a", "b"]
    assert circle(needs, stuck(needs), "c") == ()


def test_one_free_need_frees_a_node_that_needs_any() -> None:
    needs = {"w": Need(("x", "y"), any_frees=True), "x": Need(("w",)), "y": Need(())}
    assert stuck(needs) == set()
    needs["y"] = Need(("w",))
    assert stuck(needs) == {"w", "x", "y"}


def test_one_stuck_need_blocks_a_node_that_needs_all() -> None:
    needs = {"x": Need(("w", "free")), "w": Need(("x",), any_frees=True), "free": Need(())}
    assert stuck(needs) == {"x", "w"}


def test_a_need_of_an_unknown_node_blocks_nothing() -> None:
    assert stuck({"a": Need(("unknown",))}) == set()


def test_the_reported_circle_is_the_shortest() -> None:
    needs = {"a": Need(("b", "c")), "b": Need(("d",)), "d": Need(("a",)), "c": Need(("a",))}
    assert circle(needs, stuck(needs), "a") == ["a", "c"]
