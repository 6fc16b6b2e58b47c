"""The protocols of tools: a tool gets a value that describes the call, and returns exactly one outcome (formal specification
5)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from noetl_core.engine.outcome import Outcome
from noetl_core.ports import KeyValues, PackageFinder, ResultStore
from noetl_core.values.frozen import frozen

if TYPE_CHECKING:
    from noetl_core.tools.calls.event_loop import EventLoop
    from noetl_core.tools.grants import Grant, Token

SecretReader = Callable[[str], Mapping[str, Any]]
"""Credentials by name, as `Secrets.get` gives them: `{type, data: {...}}` or the fields. Raises `NotFound` or `KeyError`."""


class Log(Protocol):
    """Takes the output of a task, one line at a time; `stream` is stdout or stderr."""

    def __call__(self, line: str, stream: str = ..., /) -> None: ...


class References(Protocol):
    """Access to references for kinds that take them (`KindSpec.references`). All other inputs are already values."""

    def owns(self, value: Any) -> bool:
        """Return whether `value` is a reference to an object of the execution or its family, and not data that looks like one."""
        ...

    def opened(self, reference: Any, name: str) -> Any:
        """Return the value of an owned reference, without replacing the references in it. Raises as `load`."""
        ...

    def load(self, value: Any, name: str, limit: int | None = None, *, texts: bool = False) -> Any:
        """Return `value`, of input `name`, with every reference in it replaced: at most `limit` bytes are loaded (None:
        `max_input_bytes`). With `texts`, large values may stay `JsonText`.

        Raises `BadInput`, `NotFound`, `TooLarge`.
        """
        ...


class Published(Protocol):
    """Objects that executions publish for all others (`kind: artifact`)."""

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        """Return an object, or its bytes from `start` to `end` (exclusive). Raises `NotFound`."""
        ...


def _silent(_line: str, _stream: str = "stdout", /) -> None:
    """Ignore the output of a task."""


class AccessTokens(Protocol):
    """Access tokens for one execution."""

    async def token(self, grant: Grant, refused: Token | None = None) -> Token:
        """Return a token other than `refused`, which a service did not accept. Raises `TokenRefused`, `BadInput`."""
        ...


def _open(_secret: Any, /) -> None:
    """Conceal nothing."""


@frozen
class Outside:
    """The record of an attempt's outside work (`OutsideTool`).

    `kept` is the data that the tool wants recorded. `looks` is how often `run` has answered that the work is in progress. While
    it is 0 the work may or may not have begun, because the worker that was to begin it may have died.
    """

    kept: Mapping[str, Any]
    looks: int = 0


@frozen
class ToolCall:
    """One attempt of one task.

    `inputs` are rendered values of any size under the names the author wrote; inputs in which the kind takes references are read
    through `references`. Values from the keychain may still be `expr.Secret` (`invoke` opens them for every tool). `spec` is the
    effective spec of the task, rendered, without `policy`. `task_run_id` is stable over retries and crashes: it is the
    idempotency key to pass on. `visit` is the ordinal of the task's visit in its pass, `path` the indexes of the iteration,
    outermost first. `timeout_s` limits the whole attempt (None: the worker's own deadline). After `resume_after_s`, a tool that
    saves its progress may answer `Outcome.unfinished` (None: never). `requirements` are those of the playbook
    (`executor.spec.python`), which `packages` finds. `cancelled` is set when the outcome is no longer needed. `log` takes the
    output of the task, one line at a time. `conceal` takes secrets that the tool itself received; they are masked in the answer,
    like those of its inputs. `published` reads the artifacts of all executions. `outside` is the record of the outside work; None
    for other kinds, and before it is recorded.
    """

    kind: str
    inputs: Mapping[str, Any]
    spec: Mapping[str, Any] = field(default_factory=dict)
    execution_id: str = ""
    step: str = ""
    task: str = ""
    task_run_id: str = ""
    step_run: str = ""
    """The run of the step."""
    attempt: int = 1
    visit: int = 1
    path: tuple[int, ...] = ()
    timeout_s: float | None = None
    resume_after_s: float | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    results: ResultStore | None = None
    published: Published | None = None
    references: References | None = None
    secrets: SecretReader | None = None
    tokens: AccessTokens | None = None
    requirements: tuple[str, ...] = ()
    packages: PackageFinder | None = None
    key_values: KeyValues | None = None
    log: Log = _silent
    conceal: Callable[[Any], None] = _open
    outside: Outside | None = None
    names: Mapping[str, Any] = field(default_factory=dict)
    """`args`, `workload` and `ctx` as templates of the task see them: they may hold references and secrets."""


class Tool(Protocol):
    """The implementation of one kind. One instance serves the whole process, from many threads."""

    kind: str
    inline: bool
    """True: `run` neither blocks nor touches the world, so the worker may call it without a thread, timer or heartbeat."""

    def run(self, call: ToolCall) -> Outcome:
        """Do the work. Expected failures are outcomes (`Outcome.failed`), not exceptions; it may raise `BadInput` for the
        author."""
        ...


class StoringTool(Tool, Protocol):
    """A tool that may write its inputs to the result store, where nothing removes secrets from them."""

    def stored(self, inputs: Mapping[str, Any]) -> Collection[str]:
        """Return the canonical names of the inputs whose values this call may store: they must contain no secrets."""
        ...


class SourceTool(Tool, Protocol):
    """A tool whose rows `transfer` moves (docs/tools/transfer.md)."""

    source: Collection[str]
    """The inputs that a source of this kind takes besides `kind`. All others are rejected."""

    def export(self, call: ToolCall) -> Outcome:
        """Write the rows of the source in `call.inputs` to a file of the execution, in an order that the file keeps.

        Return the reference to it (`stored_rows`). It may be accompanied by `types`: DuckDB's types of the columns by name
        (`DECIMAL(38, 2)`, `TIMESTAMPTZ`, `BLOB`, `JSON`). From these, targets that create tables or typed files know more about a
        value than JSON expresses. A call that is repeated, because its worker died, writes the same file again."""
        ...


class PunctualTool(Tool, Protocol):
    """A tool whose `run` blocks, but returns by `timeout_s`, and soon after `cancelled` is set. A worker with nothing else to do
    calls it without a thread."""

    punctual: bool


class TextTool(Tool, Protocol):
    """A tool that passes its inputs on as JSON: they may have `values.large_json.JsonText` in place of large values."""

    takes_texts: bool


class OutsideTool(Tool, Protocol):
    """A tool whose work a service does outside, for minutes or days, while no worker waits for it.

    The engine records that the work is about to begin, suspends the run, and only then calls `run`, which begins the work. While
    `run` answers `Outcome.outside`, the run is suspended and `run` is called again at the time that the tool gave. If the attempt
    ends in another way (cancellation, timeout), `stop` is called, repeatedly until it reports that nothing runs any more.

    Every call may be repeated, because a worker may die at any point: `run` must begin nothing twice for one `task_run_id` and
    `attempt`. After any other outcome, no work of the attempt may be in progress.
    """

    def planned(self, call: ToolCall) -> Mapping[str, Any]:
        """Check the call without side effects, and return the data to record before the work begins: plain data without secrets
        by which `run` and `stop` find the work. Raises as `run`."""
        ...

    def stop(self, call: ToolCall) -> Outcome:
        """End the work that `call.outside` names, if it is in progress. `call.inputs` is empty. After a retryable failure it is
        called again later."""
        ...


class EventedTool(Tool, Protocol):
    """A tool whose calls need no thread of their own: they wait for sockets on the worker's event loop."""

    async def answer(self, call: ToolCall, loop: EventLoop) -> Outcome:
        """Do the work of `run` on the asyncio loop of `loop`; raise the same exceptions as `run`. `event_loop.Stopped` is raised
        at
        an `await` once the outcome is no longer needed."""
        ...


class ToolFailed(Exception):
    """The task has failed with `outcome`. For failures deep below a tool's `run`."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error.message if outcome.error else outcome.status)
        self.outcome = outcome


class BadInput(Exception):
    """The kind does not accept the rendered inputs or spec. Who acts: the author; not retryable, kind `schema`."""
