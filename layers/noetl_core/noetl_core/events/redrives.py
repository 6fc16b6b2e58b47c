"""Defines the parts of earlier runs that a redrive keeps or restores: plain JSON, as it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired

from noetl_core.events.shapes import ChunkDone, Counts, Failure, LoopPlan, ResultPointer, TokenEvent
from noetl_core.events.typed import TypedDict


class Rerun(TypedDict, total=False):
    """The part of an earlier run that is run again; everything else is carried over."""

    failed: bool
    """Everything that had failed or not ended."""
    path: list[int]
    """The indexes of an iteration. It is run again, with the iterations that enclose it and those within it."""
    task: str
    """The task from which on everything is run again."""
    visit: int
    """The first visit of that task that is run again, with everything after it; counted as in `TaskProcessed`. Without
    this key, everything from the first visit of the task on is run again."""
    pages: dict[str, str]
    """With `failed`, this mapping names the target of the jump for each task that a jump back repeats. Each page begins with a
    visit of this target. If the repeated task failed, its page is read again from that target."""
    ctx: list[str]
    """Writes to these keys are dropped: an operator has set them."""


class CarriedOver(TypedDict, total=False):
    """The parts of earlier runs that a redriven run keeps: `loop` for a distributed loop, `runs` for any other run."""

    runs: list[tuple[str, Rerun]]
    """Pairs of a run and the part of it that is run again, oldest first; a pair is a list of two in JSON."""
    loop: CarriedOverLoop


class CarriedOverLoop(TypedDict):
    """The parts of an earlier distributed loop that a redriven one keeps."""

    plan: LoopPlan
    done: dict[str, ChunkDone]
    """The chunks that are kept, by their index."""
    chunks: dict[str, CarriedOver]
    """The chunks that are run again, by their index, each with the parts that it keeps."""
    before: NotRequired[dict[str, CarriedOver]]
    """The parts of earlier runs that the kept chunks had themselves kept. A later redrive of these chunks needs them."""


class RemainingStep(TypedDict, total=False):
    """The values that `steps.<name>` shows for a step of which this redrive repeats runs. They come from the step's last run that
    is not repeated. The mapping is empty if there is no such run."""

    status: str | None
    at: ResultPointer | None
    loop: Counts | None


if TYPE_CHECKING:
    RedrivenFrom = TypedDict("RedrivenFrom", {"from": NotRequired[str]})  # no class can give a key this name
else:

    class RedrivenFrom(TypedDict):
        """The place from which an execution is redriven."""

    RedrivenFrom.__annotations__ = {"from": "NotRequired[str]"}


class RestoredToken(TypedDict):
    """A token that a redrive restores."""

    token: str
    of: str
    """The token that it replaces."""
    step: str
    run: NotRequired[str]
    arc: NotRequired[int]
    args: NotRequired[dict[str, Any]]
    event: NotRequired[TokenEvent]
    joined: NotRequired[list[str]]
    priority: NotRequired[float]
    rounds: NotRequired[dict[str, int]]
    prior: NotRequired[CarriedOver]


class ChunkLineage(TypedDict):
    """A chunk in a run's lineage; without `seq` it has not ended."""

    run: str
    seq: NotRequired[int]
    succeeded: NotRequired[int]
    failed: NotRequired[int]
    writes: NotRequired[bool]
    result: NotRequired[Any]
    innermost: NotRequired[Counts | None]
    error: NotRequired[Failure]


class RepeatedArcs(TypedDict):
    """A run whose arcs a redrive evaluates again."""

    run: str
    step: str
    args: dict[str, Any]
    event: TokenEvent
