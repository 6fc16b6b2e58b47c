"""Chunks, windows and the merging of ctx writes (resolutions 9 and 10)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_core.engine.loops import MAX_CHUNKS, REDUCERS, CtxConflict, chunk_plan, condense, merge_ctx, tolerated


@given(
    total=st.integers(0, 200_000),
    limit=st.integers(1, 500),
    size=st.none() | st.integers(1, 5_000),
    waits=st.booleans(),
)
def test_a_plan_covers_the_collection_and_its_window_never_exceeds_the_limit(
    total: int, limit: int, size: int | None, waits: bool
) -> None:
    plan = chunk_plan(total, limit, size, waits=waits)
    assert plan.window * plan.per_chunk <= limit
    assert plan.per_chunk <= plan.chunk_size
    assert plan.chunks * plan.chunk_size >= total
    assert (plan.chunks - 1) * plan.chunk_size < total or total == 0
    assert plan.window >= 1
    if size is not None:
        assert plan.chunk_size == size
    else:
        assert plan.chunks <= MAX_CHUNKS


@pytest.mark.parametrize(
    ("seconds", "size"),
    [(None, 100), (0.0, 1_000), (0.001, 1_000), (0.05, 1_000), (0.5, 100), (1, 50), (60, 10), (1e9, 10)],
)
def test_the_chunk_size_follows_the_known_duration_of_an_iteration(seconds: float | None, size: int) -> None:
    plan = chunk_plan(100_000, 25, seconds=seconds)
    assert plan.per_chunk == 5
    assert plan.chunk_size == max(size, 100), "never more than a thousand chunks"
    small = chunk_plan(5_000, 25, seconds=seconds)
    assert small.chunk_size == min(size, 125), "and every slot of the window has several"
    assert chunk_plan(5_000, 25, 7, seconds=seconds).chunk_size == 7, "what is written is not second-guessed"


@pytest.mark.parametrize("limit", [2, 3, 7, 10, 13, 32, 100])
def test_the_window_uses_the_whole_limit_and_stays_full_to_the_end(limit: int) -> None:
    plan = chunk_plan(1_000, limit)
    assert plan.window * plan.per_chunk == limit
    assert plan.chunks >= 4 * plan.window


def test_a_body_that_waits_gets_one_item_a_chunk() -> None:
    plan = chunk_plan(20, 6, waits=True)
    assert (plan.chunk_size, plan.per_chunk, plan.window, plan.chunks) == (1, 1, 6, 20)


@pytest.mark.parametrize(
    ("reducer", "base", "writes", "result"),
    [
        ("last", None, [1, 2, 3], 3),
        ("append", None, [1, 2], [1, 2]),
        ("append", [0], [1, [2]], [0, 1, [2]]),
        ("extend", [0], [[1], [2, 3], 4], [0, 1, 2, 3, 4]),
        ("sum", None, [1, 2.5], 3.5),
        ("sum", 10, [1, 2], 13),
        ("min", None, [3, 1, 2], 1),
        ("max", 9, [3, 1], 9),
        ("merge", {"a": 1}, [{"b": 2}, {"a": 3}], {"a": 3, "b": 2}),
        ("count", None, ["x", "x"], 2),
        ("count", 5, ["x"], 6),
    ],
)
def test_reducers(reducer: str, base: Any, writes: list[Any], result: Any) -> None:
    merged = merge_ctx([(i, {"k": w}) for i, w in enumerate(writes)], {"k": reducer}, {} if base is None else {"k": base})
    assert merged == {"k": result}


def test_equal_writes_are_one_and_different_ones_conflict() -> None:
    assert merge_ctx([(0, {"k": 1}), (4, {"k": 1, "j": 2})], {}, {"k": 9}) == {"k": 1, "j": 2}
    with pytest.raises(CtxConflict, match=r"iterations 0 and 4 wrote different values to ctx\.k"):
        merge_ctx([(0, {"k": 1}), (4, {"k": 2})], {}, {})


@pytest.mark.parametrize(
    ("reducer", "base", "value"),
    [
        ("sum", "a", 1),
        ("append", {"a": 1}, 1),
        ("merge", {}, [1]),
        ("min", 1, "a"),
    ],
)
def test_a_reducer_that_cannot_take_a_value_says_so(reducer: str, base: Any, value: Any) -> None:
    with pytest.raises(CtxConflict, match=rf"reducer {reducer} of ctx\.k cannot take the value of iteration 3"):
        merge_ctx([(3, {"k": value})], {"k": reducer}, {"k": base})


@given(st.lists(st.tuples(st.integers(0, 30), st.dictionaries(st.sampled_from("ab"), st.integers(0, 9))), max_size=12))
def test_chunks_merge_like_the_whole(writes: list[tuple[int, dict[str, int]]]) -> None:
    """Merging in one go, or a part over what another part left, is the same for reducers that combine."""
    reducers = {"a": "sum", "b": "max"}
    ordered = sorted(writes, key=lambda w: w[0])
    half = len(ordered) // 2
    first = merge_ctx(ordered[:half], reducers, {})
    assert merge_ctx(ordered, reducers, {}) == {**first, **merge_ctx(ordered[half:], reducers, first)}


VALUES = st.one_of(
    st.integers(-3, 3), st.booleans(), st.floats(-1, 1), st.text("ab", max_size=2), st.lists(st.integers(), max_size=1)
)
WRITES = st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), max_size=12)


@given(WRITES, st.dictionaries(st.sampled_from("abc"), st.sampled_from(sorted(REDUCERS))), st.integers(0, 12))
def test_condensed_writes_merge_to_the_same(patches: list[dict[str, Any]], reducers: dict[str, str], cut: int) -> None:
    """The value, its type, and the conflict with the iterations it names."""

    def merged(writes: list[tuple[Any, Any]]) -> str:
        try:
            return repr(sorted(merge_ctx(writes, reducers, {"a": 1}).items()))
        except CtxConflict as conflict:
            return str(conflict)

    whole: list[tuple[Any, Any]] = list(enumerate(patches))
    parts = [*condense(whole[:cut], reducers), *condense(whole[cut:], reducers)]
    assert merged(parts) == merged(whole)
    assert merged(condense(parts, reducers)) == merged(whole)


def test_writes_of_a_thousand_iterations_are_condensed_to_one() -> None:
    writes = [(n, {"sum": n, "high": n, "seen": True}) for n in range(1_000)]
    assert condense(writes, {"sum": "sum", "high": "max"}) == [(0, {"sum": 499_500, "high": 999, "seen": True})]


def test_tolerated_failures() -> None:
    assert [tolerated(c, p, 200) for c, p in ((0, 0), (3, 0), (0, 2.5), (3, 1), (1, 1))] == [0, 3, 5, 3, 2]


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), (0, False), (1.0, True), ([1], [True]), ({"a": [1]}, {"a": [1.0]}), ("1", 1), (None, False)],
)
def test_values_of_other_types_do_not_agree(one: Any, other: Any) -> None:
    writes = [(0, {"k": one}), (1, {"k": other})]
    for told in (writes, condense(writes, {})):
        with pytest.raises(CtxConflict, match=r"different values to ctx\.k"):
            merge_ctx(told, {}, {})


def test_equal_values_agree_whatever_the_order_of_their_keys() -> None:
    writes = [(0, {"k": {"a": [1, None], "b": True}}), (1, {"k": {"b": True, "a": [1, None]}})]
    assert merge_ctx(condense(writes, {}), {}, {}) == {"k": {"a": [1, None], "b": True}}
