"""A collision test per row of the table of ids."""

from __future__ import annotations

from itertools import product

import pytest

from noetl_core.engine import ids


def _distinct(values: list[str]) -> None:
    assert len(set(values)) == len(values)


def test_tokens_differ_by_execution_source_arc_and_epoch() -> None:
    _distinct([ids.token_id(x, r, a, e) for x, r, a, e in product(["1", "2", "11"], [None, "r1", "r2"], range(12), range(3))])


def test_the_start_token_is_not_the_token_of_a_run_called_like_its_arc() -> None:
    assert ids.token_id("1", None, 0) != ids.token_id("1", "0", 0)


def test_step_runs_differ_by_tokens_and_epoch_but_not_by_their_order() -> None:
    _distinct([ids.step_run_id("1", t, e) for t, e in product([["a"], ["b"], ["a", "b"], ["ab"], []], range(3))])
    assert ids.step_run_id("1", ["a", "b"]) == ids.step_run_id("1", ["b", "a"])


def test_chunk_runs_differ_by_run_chunk_and_epoch() -> None:
    _distinct([ids.chunk_run_id("1", r, c, e) for r, c, e in product(["r1", "r11"], range(15), range(3))])


def test_page_two_never_has_page_ones_idempotency_key() -> None:
    _distinct(
        [
            ids.task_run_id("r1", p, t, v)
            for p, t, v in product([(), (0,), (1,), (0, 1), (1, 0), (10,)], ["fetch", "f"], range(1, 12))
        ]
    )


def test_redrives_compensations_and_stops_have_ids_of_their_own() -> None:
    tokens = [ids.redriven_token_id("1", t, e) for t, e in product(["t1", "t2", "again:t1"], range(1, 5))]
    _distinct([*tokens, ids.token_id("1", "t1", 0, 1), ids.token_id("1", "t1", 0, 2)])
    named = list(product(["1", "12"], ["r1", "2r1", "r11"]))
    _distinct([make(x, r) for make in (ids.compensation_run_id, ids.stop_run_id) for x, r in named])


def test_a_retry_and_a_takeover_keep_the_key() -> None:
    assert ids.task_run_id("r1", (3,), "fetch", 2) == ids.task_run_id("r1", [3], "fetch", 2)


def test_children_differ_by_parent_and_task_visit() -> None:
    _distinct([ids.child_execution_id(p, t) for p, t in product(["1", "2", "12"], ["k1", "k2", "2k1"])])


def test_waits_differ_by_attempt_and_kind() -> None:
    _distinct([ids.wait_id("k1", a, w) for a, w in product(range(1, 12), ["timer", "child", "signal", "callback"])])


@pytest.mark.parametrize(
    "made", [ids.execution_id_from_key("k"), ids.child_execution_id("1", "k"), ids.execution_id_at(1 << 50, 7)]
)
def test_execution_ids_are_decimal_below_2_to_the_63(made: str) -> None:
    assert made.isdecimal()
    assert 0 <= int(made) < 1 << 63


def test_execution_ids_are_ordered_by_time() -> None:
    at = [ids.execution_id_at(t, 2_000_000 - t) for t in range(1_700_000_000_000_000, 1_700_000_000_000_000 + 10_000, 1000)]
    assert [int(x) for x in at] == sorted(int(x) for x in at)
