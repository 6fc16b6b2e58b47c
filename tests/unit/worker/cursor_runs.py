"""Runs of cursor loops whose source is a real one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import Tool, ToolCall
from noetl_core.tools.registry import ToolRegistry
from noetl_core.worker.service import Worker
from tests.sim.ports import Crash

from .one_run import OneRun, Script, Scripted, echo


class Source:
    """The tool of a source, whose calls count among the ports' at which a worker may die."""

    inline = False

    def __init__(self, run: ClaimingRun, tool: Tool) -> None:
        self._run, self._tool, self.kind = run, tool, tool.kind

    def run(self, call: ToolCall) -> Outcome:
        what = call.task.removeprefix("cursor.")
        self._run.asked.append(what)
        self._run.seen(what)
        return self._run.faults.around(lambda: self._tool.run(call))


@dataclass
class ClaimingRun(OneRun):
    """One run of a cursor loop, whose source `tool` is asked. `asked` is for what, in order; `seen` hears of each before it is."""

    tool: Tool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.asked: list[str] = []
        self.seen: Callable[[str], None] = lambda what: None

    def worker(self) -> Worker:
        worker = super().worker()
        assert self.tool is not None
        kinds = {kind: Scripted(self.script, self.calls, kind) for kind in ("noop", "http")}
        worker.tools = ToolRegistry({**kinds, self.tool.kind: Source(self, self.tool)})
        return worker

    @property
    def ran(self) -> list[int]:
        """The rows that tasks got, in order."""
        return [call.inputs["result"] for call in self.calls]

    def to_the_end(self) -> int:
        """Run until the run is over, with another worker whenever one has died. Returns how many died."""
        died, mode = 0, "first"
        while True:
            try:
                self.handle(mode, len(self.commits))
            except Crash:
                died, mode = died + 1, "takeover" if self.commits else "first"
                self.wait(61)
                continue
            if self.last.name != "StepSuspended":
                return died
            mode = "resume"


def overtaken_before_its_claim(run: ClaimingRun) -> None:
    """The worker is frozen before it claims, and thaws after another has claimed the same frame."""
    stale: list[ClaimingRun] = []

    def seen(what: str) -> None:
        if not stale:
            stale.append(run)
            run.seen = lambda what: None
            run.wait(61)
            assert run.handle("takeover").kind == "done"

    run.seen = seen
    assert run.handle().kind == "dropped"


def dying_at(row: object) -> Script:
    """The worker dies in the task of a row, the first time."""
    deaths: list[object] = []

    def script(call: ToolCall) -> Outcome:
        if call.inputs["result"] == row and not deaths:
            deaths.append(row)
            raise Crash
        return echo(call)

    return script
