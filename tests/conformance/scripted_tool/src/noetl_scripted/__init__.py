"""`kind: scripted`: a task whose outcomes are written in the playbook.

kind: scripted
given: {url: "..."}          # anything; the result of an entry with `echo: true`
outcomes:                    # the first entry that fits answers (`noetl_core.testing.outcomes`)
  - {attempt: 1, error: {kind: timeout}}
  - {ok: {rows: [1, 2]}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall

if TYPE_CHECKING:
    from noetl_core.testing.outcomes import chosen, outcome_of
else:
    try:
        from noetl_scripted.outcomes import chosen, outcome_of  # in its wheel: a layer has no `noetl_core.testing`
    except ModuleNotFoundError:
        from noetl_core.testing.outcomes import chosen, outcome_of


class ScriptedTool:
    """Answers as the playbook says."""

    kind = "scripted"
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        entry = chosen(call.inputs.get("outcomes"), call)
        if entry.get("seconds"):
            call.cancelled.wait(float(entry["seconds"]))
        return outcome_of(entry, call.inputs.get("given"), call.spec)
