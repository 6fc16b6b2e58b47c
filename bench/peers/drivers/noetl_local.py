"""NoETL in one process, on a store in the folder that the command line names, as durable as it says: `process` or `power`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Literal, cast

from bench.playbooks import chain, map_of_calls, map_over, python
from protocol import Ask, expect, serve

from noetl_core import __version__
from noetl_core.control.admit import StartRequest
from noetl_core.runtime.local import LocalWiring


class Runner:
    """One store for all executions, as a user's is."""

    def __init__(self, folder: Path, durable: Literal["process", "power"]) -> None:
        self.local = LocalWiring(folder / f"{durable}.sqlite", durable)

    def timed(self, source: str, executions: int = 1) -> tuple[float, list[dict[str, Any]]]:
        """Seconds from the first request to the last end, and the results."""
        began = time.perf_counter()
        started = [self.local.start(StartRequest(playbook=source)).execution_id for _ in range(executions)]
        self.local.run(*started)
        seconds = time.perf_counter() - began
        states = [self.local.control.load(execution_id) for execution_id in started]
        expect({state.status for state in states}, {"completed"})
        return seconds, [cast(dict[str, Any], state.result) for state in states]

    def result_of(self, source: str, key: str, wanted: int) -> float:
        seconds, (result,) = self.timed(source)
        expect(result["value"][key], wanted)
        return seconds


def main() -> None:
    durable = sys.argv[2]
    assert durable in ("process", "power")
    runner = Runner(Path(sys.argv[1]), cast(Literal["process", "power"], durable))

    def items(ask: Ask, **spec: object) -> float:
        source = map_over(ask["items"], "noop", ask["in_flight"], **spec)
        return runner.result_of(source, "sum", ask["items"] * (ask["items"] - 1))

    def calls(ask: Ask) -> float:
        source = map_of_calls(ask["items"], ask["url"], ask["in_flight"])
        return runner.result_of(source, "sum", ask["items"] * (ask["items"] - 1) // 2)

    try:
        cases = {
            "chain": lambda ask: runner.timed(chain(ask["steps"]))[0],
            "python": lambda ask: runner.result_of(chain(ask["steps"], python, last=True), "last", 2 * (ask["steps"] - 1)),
            "map": items,
            "each": lambda ask: items(ask, commit_every=1),
            "http": calls,
            "executions": lambda ask: runner.timed(chain(ask["steps"]), ask["executions"])[0],
        }
        serve({"version": __version__}, cases)
    finally:
        runner.local.close()


if __name__ == "__main__":
    main()
