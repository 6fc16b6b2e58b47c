"""The one way a task's tool is called, so that every kind fails and keeps secrets in the same way.

The tool gets its inputs under their canonical names, with secrets opened. Its answer - result, error, helpers, log lines - is
scrubbed of the secret texts that went in: they must reach no log, object or event (docs/access.md). A result may contain
`expr.Secret` values of its own, which the worker seals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from noetl_core.dsl.kinds import canonical_inputs
from noetl_core.engine.outcome import ERROR_KINDS, Outcome
from noetl_core.expr import reveal
from noetl_core.ports import Forbidden, NotFound, PortError, TooLarge
from noetl_core.result_refs import Altered
from noetl_core.tools.base import BadInput, EventedTool, SecretReader, Tool, ToolCall, ToolFailed
from noetl_core.tools.scrub import Scrubber, holds_secret
from noetl_core.tools.scrubbed_results import ScrubbedResults

if TYPE_CHECKING:
    from noetl_core.tools.event_loop import EventLoop


def invoke(tool: Tool, call: ToolCall) -> Outcome:
    """Run `tool` once and return its outcome. An exception of a tool becomes an outcome."""
    opened, scrubber = _opened(tool, call)
    if opened is None:
        return _refused(call)
    try:
        outcome = _answered(call.kind, tool.run(opened))
    except Exception as error:  # of a tool, whose mistakes must end the task, not the worker
        outcome = _failed(call.kind, error)
    return scrubber.outcome(outcome) if scrubber else outcome


async def invoke_evented(tool: EventedTool, call: ToolCall, loop: EventLoop) -> Outcome:
    """Do what `invoke` does, beside other calls on `loop`."""
    opened, scrubber = _opened(tool, call)
    if opened is None:
        return _refused(call)
    try:
        outcome = _answered(call.kind, await tool.answer(opened, loop))
    except Exception as error:  # of a tool, whose mistakes must end the task, not the worker
        outcome = _failed(call.kind, error)
    return scrubber.outcome(outcome) if scrubber else outcome


def _opened(tool: Tool, call: ToolCall) -> tuple[ToolCall | None, Scrubber]:
    """Return the call as the tool gets it, secrets opened, and what removes them from its answer; no call where the tool takes no
    secrets and is given some."""
    scrubber = Scrubber()
    secret = holds_secret(call.inputs)
    given: Any = canonical_inputs(call.kind, call.inputs)
    if secret and not _takes_secrets(tool, given):
        return None, scrubber
    if secret:
        scrubber.learn_secrets(call.inputs)
        given = reveal(given)
    opened = replace(
        call,
        inputs=given,
        secrets=None if call.secrets is None else _reader(call.secrets, scrubber),
        results=None if call.results is None else ScrubbedResults(call.results, scrubber),
        log=lambda line, stream="stdout", /: call.log(scrubber.text(line), stream),
        conceal=scrubber.learn,
    )
    return opened, scrubber


def _takes_secrets(tool: Tool, given: Mapping[str, Any]) -> bool:
    """Return whether the tool may be given the secrets among its inputs: what it stores must hold none."""
    stored = getattr(tool, "stored", None)  # `base.StoringTool`
    return getattr(tool, "takes_secrets", True) and not (
        stored is not None and any(holds_secret(given.get(name)) for name in stored(given))
    )


def _refused(call: ToolCall) -> Outcome:
    return Outcome.failed("schema", f"{call.kind}: refuses secrets: what it is given would be stored", retryable=False)


def _failed(kind: str, error: Exception) -> Outcome:
    """Return the outcome that an exception of a tool stands for."""
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
    """Return what a tool answered, if it is a valid outcome. Kinds may come from plugins, and their mistakes must end the
    task, not the worker."""
    if (
        not isinstance(outcome, Outcome)
        or outcome.status not in ("ok", "error", "unfinished")
        or not isinstance(outcome.helpers, Mapping)
    ):
        return Outcome.failed("unknown", f"{kind}: the tool answered no outcome but {outcome!r:.200}", retryable=False)
    error = outcome.error
    if outcome.status == "error" and error is None:
        return Outcome.failed("unknown", f"{kind}: the tool failed without an error")
    if error is None or (isinstance(error.message, str) and error.kind in ERROR_KINDS):
        return outcome
    known = error.kind if error.kind in ERROR_KINDS else "unknown"
    return replace(outcome, error=replace(error, kind=known, message=str(error.message)))


def _reader(secrets: SecretReader, scrubber: Scrubber) -> SecretReader:
    """Return `secrets` as a reader that records every value it reads as one that must not appear in the answer."""

    def read(name: str) -> Mapping[str, Any]:
        value = reveal(secrets(name))
        scrubber.learn(value)
        return value  # type: ignore[no-any-return]

    return read
