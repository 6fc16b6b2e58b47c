"""Cases: which there are, and how one is carried out."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from noetl_core.control.admit import KeyReused
from noetl_core.control.callbacks import Answered, Gone
from noetl_core.control.core import Control
from noetl_core.control.lifecycle.operate import NotNow
from noetl_core.engine.redrive.plan import BadRedrive
from tests.sim.pairs import checks
from tests.sim.pairs.moments import Moments
from tests.sim.pairs.operations import OPERATIONS, Evidence, Operation
from tests.sim.pairs.scenes import SCENES, Scene

REFUSALS = (NotNow, Gone, Answered, KeyReused, BadRedrive)
"""Exceptions of an operation that was refused and left no fact in the log: 409, 410 or 422."""


class Case(NamedTuple):
    """`inner` runs at the moment `at` of `outer`: 0 is before its first port call, 1 after it, and so on."""

    scene: str
    outer: str
    inner: str
    at: int

    def __str__(self) -> str:
        return "/".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> Case:
        """Return the case of a name, such as `live/pause/resume/13`. Raises `ValueError`."""
        scene, outer, inner, at = text.split("/")
        if not {outer, inner} <= OPERATIONS.get(scene, {}).keys():
            raise ValueError(f"{text} is not a case: scenes and their operations are in tests/sim/pairs")
        return cls(scene, outer, inner, int(at))


class Failed(AssertionError):
    """A case failed; the message says which, when, and how to run it alone."""


@cache
def prepared(scene: str) -> Scene:
    return SCENES[scene]()


@cache
def moments(scene: str, operation: str) -> Sequence[str]:
    """Return the names of the moments of an operation that nothing disturbs."""
    calm = prepared(scene).copy()
    faults = _moments(calm)
    faults.watching = True
    _outcome(OPERATIONS[scene][operation], calm, calm.world.controls[0])
    return tuple(faults.names)


def cases() -> Iterator[Case]:
    """Yield every case: every ordered pair of operations of each scene, at every moment of the first."""
    for scene, known in OPERATIONS.items():
        for outer in known:
            for inner in known:
                for at in range(len(moments(scene, outer))):
                    yield Case(scene, outer, inner, at)


def sample(count: int, seed: int = 0) -> list[Case]:
    """Return a fixed sample of the cases, each of another pair."""
    everything = list(cases())
    random.Random(seed).shuffle(everything)
    return list({case[:3]: case for case in everything}.values())[:count]


def carry_out(case: Case, seed: int = 0) -> None:
    """Carry out a case. Raises `Failed`."""
    scene = prepared(case.scene).copy(seed)
    faults, known = _moments(scene), OPERATIONS[case.scene]
    one, other = scene.world.controls
    scene.paused_alone = "pause-child" in (case.outer, case.inner)
    outcomes: list[Evidence] = []
    faults.at, faults.inner = case.at, lambda: outcomes.append(_outcome(known[case.inner], scene, other))
    try:
        faults.watching = True
        outcomes.append(_outcome(known[case.outer], scene, one))
        faults.watching = False
        checks.check_now(scene)
        checks.rest(scene.world)
        checks.check_rest(scene)
        checks.check_end(scene)
        assert all(evidence is None or evidence() for evidence in outcomes), "an operation was acknowledged and is not in the log"
    except Exception as error:
        moment = faults.names[case.at] if case.at < len(faults.names) else "after it"
        alone = f"python -m tests.sim.pairs {case} --seed {seed}"
        raise Failed(f"{case.inner} inside {case.outer}, {moment} ({case.scene}); alone: {alone}\n  {error}") from error


def _outcome(operation: Operation, scene: Scene, control: Control) -> Evidence:
    try:
        return operation(scene, control)
    except REFUSALS:
        return None


def _moments(scene: Scene) -> Moments:
    assert isinstance(scene.world.faults, Moments)
    return scene.world.faults
