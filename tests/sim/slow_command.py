"""The `noetl` command with slow scripted tools: the process that `tests.sim.kills` kills.

Run as `python -m tests.sim.slow_command FACTS ARGUMENT...`; FACTS is a JSON file that says how tools fail. Nothing of the simulator is
imported, so that the process starts as fast as the real one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import noetl_core.runtime.local
from noetl_cli.main import main
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.tools.registry import ToolRegistry

TAKES_S = 0.1
KINDS = ("http", "noop")


def answer(facts: Mapping[str, Any], call: ToolCall) -> Outcome:
    """Answer like the simulator's tools: by task, visit and attempt (`fails`), by the iteration (`failing`), or by the input."""
    if "fails" in facts:
        fails = facts["fails"][int(call.task[1:])]
        if fails[(call.visit * 2 + call.attempt) % len(fails)]:
            return Outcome.failed("server_error", call.task)
        return Outcome.ok(f"{call.task}/{call.visit}/{call.attempt}")
    if "failing" in facts:
        at = str(call.inputs["url"]).removeprefix("http://x/")
        return Outcome.failed("server_error", at) if int(at.split("-")[0]) in facts["failing"] else Outcome.ok(at)
    if call.task == "fails":
        return Outcome.failed("client_error", "no room")
    return Outcome.ok(call.inputs.get("result", call.inputs.get("args")))


class Slow:
    """Answers according to the facts, after a short delay."""

    inline = False

    def __init__(self, kind: str, facts: Mapping[str, Any]) -> None:
        self.kind, self._facts = kind, facts

    def run(self, call: ToolCall) -> Outcome:
        time.sleep(TAKES_S)
        return answer(self._facts, call)


if __name__ == "__main__":
    facts = json.loads(Path(sys.argv[1]).read_text())
    registry = ToolRegistry({kind: Slow(kind, facts) for kind in KINDS})
    vars(noetl_core.runtime.local)["ToolRegistry"] = lambda: registry
    sys.argv = ["noetl", *sys.argv[2:]]
    main()
