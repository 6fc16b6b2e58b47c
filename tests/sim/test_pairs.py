"""Any operation inside any other: a sample of `make pairs`, and moments of the pairs that went wrong."""

from __future__ import annotations

import pytest

from tests.properties import TIMES, some
from tests.sim.pairs.cases import Case, carry_out, moments, sample
from tests.sim.pairs.operations import OPERATIONS

SAMPLE = 140 if TIMES else 48


@pytest.mark.sized
def test_a_sample_of_all_pairs_and_moments() -> None:
    """Each case is another pair; `make pairs` carries out all moments of all of them."""
    cases = sample(SAMPLE)
    assert {case.scene for case in cases} == OPERATIONS.keys()
    for case in cases:
        carry_out(case)


def at_every_moment(scene: str, outer: str, inner: str, one_in: int = 1) -> None:
    for at in some(range(0, len(moments(scene, outer)), one_in), 3):
        carry_out(Case(scene, outer, inner, at))


@pytest.mark.one_in(2)
@pytest.mark.sized
@pytest.mark.parametrize("outer", ["redrive", "redrive-set", "redrive-from", "redrive-version", "batch-redrive"])
def test_one_of_two_concurrent_redrives_is_refused(outer: str) -> None:
    """Both found the execution ended, planned for the same position, and came to the same epoch."""
    at_every_moment("ended", outer, "redrive-set")


@pytest.mark.one_in(2)
@pytest.mark.sized
@pytest.mark.parametrize(("scene", "outer", "inner"), [("live", "pause", "resume"), ("paused", "resume", "pause")])
def test_a_pause_and_a_resume_keep_parent_gate_and_children_consistent(scene: str, outer: str, inner: str) -> None:
    at_every_moment(scene, outer, inner, 3)


@pytest.mark.sized
@pytest.mark.parametrize("operation", [name for name in OPERATIONS["last"] if name not in ("end", "sweep", "wake")])
def test_an_operation_overtaken_by_the_end_is_refused(operation: str) -> None:
    """The log contains every acknowledged operation, whenever the execution ends."""
    at_every_moment("last", operation, "end")


@pytest.mark.sized
def test_a_waiter_that_got_its_place_does_not_come_back_into_the_line() -> None:
    """A limit's sweep, after a displacement was decided and before the newcomer's memo of it was written."""
    at_every_moment("line", "start", "limits")
