"""The only way to call a tool, so that every kind fails and keeps secrets in the same way.

The tool gets its inputs under their canonical names, with secrets opened. Its answer (result, error, helpers, log lines) is
scrubbed of the secret texts that went in, because they must reach no log, object or event (docs/access.md). A result may contain
`expr.Secret` values of its own, which the worker seals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from noetl_core.dsl.kinds import canonical_inputs
from noetl_core.engine.outcome import ERROR_KINDS, Outcome
from noetl_core.expr import reveal
from noetl_core.ports import Forbidden, NotFound, PortError, TooLarge
from noetl_core.tools.base import BadInput, EventedTool, OutsideTool, SecretReader, Tool, ToolCall, ToolFailed
from noetl_core.tools.masking.results import ScrubbedResults
from noetl_core.tools.masking.scrub import Scrubber, holds_secret
from noetl_core.values.result_refs import Altered

if TYPE_CHECKING:
    from noetl_core.tools.calls.event_loop import EventLoop


MOST_KEPT: Final = 4_096
"""The most bytes of a tool's record of outside work, which every poll commits again."""
LONGEST_LOOK_S: Final = 86_400


def invoke(tool: Tool, call: ToolCall) -> Outcome:
    """Run `tool` once and return its outcome. An exception of a tool becomes an outcome."""
    opened, scrubber = _opened(tool, call)
    if opened is None:
        return _refused(call)
    try:
        outcome = _answered(call.kind, tool.run(opened))
    except Exception as error:  # mistakes of a tool must end the task, not the worker
        outcome = _failed(call.kind, error)
    return scrubber.outcome(outcome) if scrubber else outcome


def invoke_planned(tool: OutsideTool, call: ToolCall) -> Outcome:
    """Return `Outcome.outside` with the data to record before the outside work begins, or why it cannot begin."""
    opened, scrubber = _opened(tool, call)
    if opened is None:
        return _refused(call)
    try:
        outcome = _answered(call.kind, Outcome.outside(tool.planned(opened), 0))
    except Exception as error:  # as above
        outcome = _failed(call.kind, error)
    return scrubber.outcome(outcome) if scrubber else outcome


def invoke_stop(tool: OutsideTool, call: ToolCall) -> Outcome:
    """End the outside work that `call` names. An exception of a tool becomes an outcome."""
    try:
        return _answered(call.kind, tool.stop(call))
    except Exception as error:  # as above
        return _failed(call.kind, error)


async def invoke_evented(tool: EventedTool, call: ToolCall, loop: EventLoop) -> Outcome:
    """Like `invoke`, but concurrently with other calls on `loop`."""
    opened, scrubber = _opened(tool, call)
    if opened is None:
        return _refused(call)
    try:
        outcome = _answered(call.kind, await tool.answer(opened, loop))
    except Exception as error:  # mistakes of a tool must end the task, not the worker
        outcome = _failed(call.kind, error)
    return scrubber.outcome(outcome) if scrubber else outcome


def _opened(tool: Tool, call: ToolCall) -> tuple[ToolCall | None, Scrubber]:
    """Return the call for the tool, with secrets opened, and the scrubber for its answer; no call if there are secrets and the
    tool may not take any."""
    scrubber = Scrubber()
    secret = holds_secret(call.inputs)
    inputs: Any = canonical_inputs(call.kind, call.inputs)
    if secret and not _takes_secrets(tool, inputs):
        return None, scrubber
    if secret:
        scrubber.learn_secrets(call.inputs)
        inputs = reveal(inputs)
    opened = replace(
        call,
        inputs=inputs,
        secrets=None if call.secrets is None else _reader(call.secrets, scrubber),
        results=None if call.results is None else ScrubbedResults(call.results, scrubber),
        log=lambda line, stream="stdout", /: call.log(scrubber.text(line), stream),
        conceal=scrubber.learn,
    )
    return opened, scrubber


def _takes_secrets(tool: Tool, inputs: Mapping[str, Any]) -> bool:
    """Return whether the tool may get secrets: inputs that it stores must contain none."""
    stored = getattr(tool, "stored", None)  # `base.StoringTool`
    return getattr(tool, "takes_secrets", True) and not (
        stored is not None and any(holds_secret(inputs.get(name)) for name in stored(inputs))
    )


def _refused(call: ToolCall) -> Outcome:
    return Outcome.failed("schema", f"{call.kind}: the task refuses secrets, because its inputs would be stored", retryable=False)


def _failed(kind: str, error: Exception) -> Outcome:
    """Return the outcome for an exception of a tool."""
    if isinstance(error, ToolFailed):
        return _answered(kind, error.outcome)
    if isinstance(error, BadInput):
        return Outcome.failed("schema", f"{kind}: {error}", retryable=False)
    if isinstance(error, TooLarge):
        return Outcome.failed("limit", f"{kind}: {error}", retryable=False)
    if isinstance(error, NotFound):
        return Outcome.failed("not_found", f"{kind}: {error}", retryable=False)
    if isinstance(error, Forbidden):
        return Outcome.failed("auth", f"{kind}: {error}", retryable=False)
    if isinstance(error, Altered):
        return Outcome.failed("storage", f"{kind}: {error}", retryable=False)
    if isinstance(error, PortError):
        return Outcome.failed("storage", f"{kind}: {error}")
    return Outcome.failed("unknown", f"{kind}: {type(error).__name__}: {error}", code=type(error).__name__)


def _answered(kind: str, outcome: Any) -> Outcome:
    """Return the answer of a tool if it is a valid outcome, otherwise a failure: a defect of a plugin must end the task, not the
    worker."""
    if (
        not isinstance(outcome, Outcome)
        or outcome.status not in ("ok", "error", "unfinished", "outside")
        or not isinstance(outcome.helpers, Mapping)
    ):
        return Outcome.failed("unknown", f"{kind}: the tool answered {outcome!r:.200}, which is not an outcome", retryable=False)
    if outcome.status == "outside" and (why := _not_kept(outcome)):
        return Outcome.failed("unknown", f"{kind}: the tool keeps {why}", retryable=False)
    error = outcome.error
    if outcome.status == "error" and error is None:
        return Outcome.failed("unknown", f"{kind}: the tool failed without an error")
    if error is None or (isinstance(error.message, str) and error.kind in ERROR_KINDS):
        return outcome
    known = error.kind if error.kind in ERROR_KINDS else "unknown"
    return replace(outcome, error=replace(error, kind=known, message=str(error.message)))


def _not_kept(outcome: Outcome) -> str:
    """Return why a tool's record of outside work is invalid; an empty text if it is valid."""
    look_in = outcome.meta.get("look_in_s")
    if isinstance(look_in, bool) or not isinstance(look_in, int | float) or not 0 <= look_in <= LONGEST_LOOK_S:
        return f"look_in_s {look_in!r:.50}, which is not a number from 0 to {LONGEST_LOOK_S}"
    try:
        size = len(json.dumps(outcome.result, allow_nan=False))
    except (TypeError, ValueError):
        return "what is not JSON"
    return f"{size:,} bytes, and the log takes at most {MOST_KEPT:,}" if size > MOST_KEPT else ""


def _reader(secrets: SecretReader, scrubber: Scrubber) -> SecretReader:
    """Return a reader over `secrets` that has every value it reads scrubbed from the answer."""

    def read(name: str) -> Mapping[str, Any]:
        value: Mapping[str, Any] = reveal(secrets(name))
        scrubber.learn(value)
        return value

    return read
