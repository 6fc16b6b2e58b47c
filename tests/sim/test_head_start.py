"""A router leaves a fresh boundary to the worker that asks about it: for a moment, and no longer, whatever becomes of the ask."""

from __future__ import annotations

import pytest

from noetl_core.control.asks import HEAD_START_S, head_start
from noetl_core.engine.records import Commit, StreamId
from noetl_core.worker.claiming.asker import Asker
from tests.sim import world as sim_world
from tests.sim.interleavings import STEPS, chain, done
from tests.sim.ports import SECOND, Faults
from tests.sim.world import World

SPARE_S = 0.01
"""The time that the clock of a world counts for its own calls."""


def asking(faults: Faults | None = None) -> World:
    return World(faults or Faults(), asks=True)


def routed_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sim_world, "head_start", lambda _commit, _now: 0.0)


def left_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sim_world, "head_start", lambda commit, _now: 3600.0 if commit.asks else 0.0)


def every_ask_is_answered() -> None:
    world = asking(Faults(stream_first=1.0))
    done(world, world.start(chain()).execution_id)
    assert world.faults.seen["stream_first"] == STEPS
    assert [c.step for _, c in world.asking.replies] == [f"s{n}" for n in range(1, STEPS)]
    assert [c.step for c in world.queue.sent] == ["start"], "no step needs the queue"


def nothing_depends_on_an_ask() -> None:
    world = asking(Faults(refuse_ask=1.0))
    began = world.clock.time
    done(world, world.start(chain()).execution_id)
    assert world.clock.time - began < (STEPS * HEAD_START_S + SPARE_S) * SECOND
    assert [c.step for c in world.queue.sent] == ["start", *(f"s{n}" for n in range(1, STEPS))]


def test_asks_are_answered_although_the_stream_is_faster() -> None:
    every_ask_is_answered()


def test_a_router_that_does_not_wait_wastes_the_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    routed_at_once(monkeypatch)
    with pytest.raises(AssertionError):
        every_ask_is_answered()


def test_a_boundary_with_a_refused_ask_is_routed_after_the_head_start() -> None:
    nothing_depends_on_an_ask()


def test_a_router_that_leaves_a_boundary_for_ever_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    left_for_ever(monkeypatch)
    with pytest.raises(AssertionError):
        nothing_depends_on_an_ask()


@pytest.mark.parametrize(
    ("asks", "age_s", "left_s"),
    [
        (True, 0.0, HEAD_START_S),
        (True, 0.25 * HEAD_START_S, 0.75 * HEAD_START_S),
        (True, HEAD_START_S, 0.0),
        (True, 3600.0, 0.0),
        (True, -0.001, 0.0),
        (True, -3600.0, 0.0),
        (False, 0.0, 0.0),
    ],
)
def test_the_head_start_is_bounded_whatever_the_clocks_say(asks: bool, age_s: float, left_s: float) -> None:
    now = 1_800_000_000 * SECOND
    commit = Commit(StreamId("7", "r1"), 1, now - round(age_s * SECOND), "n", (), wake=True, asks=asks)
    assert head_start(commit, now) == pytest.approx(left_s)


def marks(world: World) -> list[bool]:
    execution_id = world.start(chain()).execution_id
    done(world, execution_id)
    runs = [commits for stream, commits in world.store.streams.items() if stream.run_id is not None]
    assert len(runs) == STEPS
    assert not any(commit.asks for commits in runs for commit in commits if not commit.wake)
    return [commits[-1].asks for commits in runs]


def test_a_commit_states_that_its_worker_asks_only_if_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert marks(asking()) == [True] * STEPS
    assert marks(World(Faults())) == [False] * STEPS
    monkeypatch.setattr(Asker, "is_paused", True)
    paused = asking()
    assert marks(paused) == [False] * STEPS
    assert not paused.asking.asked, "its breaker is open"
