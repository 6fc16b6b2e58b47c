"""A simulated service whose work takes hours, and the tool kind of a plugin that uses it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl_core.engine.outcome import Outcome
from noetl_core.ports import Unavailable
from noetl_core.tools.base import BadInput, ToolCall
from tests.sim.ports import SECOND, Faults, SimClock


@dataclass
class Crane:
    """Lifts loads, each for a number of seconds, under a name; the same name lifts nothing twice."""

    faults: Faults
    clock: SimClock
    lifted: dict[str, int] = field(default_factory=dict)
    """The time at which each load is up, by name."""
    lowered: set[str] = field(default_factory=set)
    begun: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)

    def lift(self, name: str, seconds: float) -> None:
        def begin() -> None:
            if name not in self.lifted:
                self.begun[name] += 1
                self.lifted[name] = self.clock.time + int(seconds * SECOND)

        self.faults.around(begin)

    def lower(self, name: str) -> None:
        def end() -> None:
            self.stops[name] += 1
            if name in self.lifted:
                self.lowered.add(name)

        self.faults.around(end)

    def hanging(self) -> set[str]:
        """Return the loads in progress. There must be none once the execution has ended."""
        return {name for name, up in self.lifted.items() if name not in self.lowered and up > self.clock.time}


@dataclass
class CraneTool:
    """`kind: crane` with `seconds`; its calls are subject to the world's faults."""

    crane: Crane
    calls: list[ToolCall] = field(default_factory=list)
    look_in_s: float = 60
    before: Callable[[ToolCall], None] | None = None
    refusals: list[Outcome] = field(default_factory=list)
    """The errors with which the first calls of `stop` fail."""
    kind: str = "crane"
    inline: bool = True

    def planned(self, call: ToolCall) -> Mapping[str, Any]:
        if "seconds" not in call.inputs:
            raise BadInput("`seconds` is missing")
        return {"name": f"{call.task_run_id}-{call.attempt}"}

    def run(self, call: ToolCall) -> Outcome:
        self.calls.append(call)
        if self.before is not None:
            self.before(call)
        assert call.outside is not None, "it was recorded before"
        name = call.outside.kept["name"]
        try:
            self.crane.lift(name, call.inputs["seconds"])
        except Unavailable:
            return Outcome.outside(call.outside.kept, self.look_in_s)  # it may have begun
        if name in self.crane.lowered:
            return Outcome.failed("cancelled", "somebody has lowered it", retryable=False)
        if self.crane.lifted[name] > self.crane.clock.time:
            return Outcome.outside({**call.outside.kept, "seen": True}, self.look_in_s)
        if call.inputs.get("breaks", 0) >= call.attempt:
            return Outcome.failed("server_error", "the rope broke")
        return Outcome.ok({"up": call.inputs.get("load")})

    def stop(self, call: ToolCall) -> Outcome:
        assert call.outside is not None
        assert not call.inputs
        if self.refusals:
            return self.refusals.pop()
        self.crane.lower(call.outside.kept["name"])
        return Outcome.ok()
