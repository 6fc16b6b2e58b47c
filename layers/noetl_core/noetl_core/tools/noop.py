"""`kind: noop`: a task that exists for its policy. Its result is one of its inputs."""

from __future__ import annotations

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall


class NoopTool:
    """Inputs `result`, `data`, `args`: the first one given is the result (null without any); `message` goes to the log."""

    kind = "noop"
    inline = True

    def run(self, call: ToolCall) -> Outcome:
        if "message" in call.inputs:
            call.log(str(call.inputs["message"]))
        return Outcome.ok(next((call.inputs[name] for name in ("result", "data", "args") if name in call.inputs), None))
