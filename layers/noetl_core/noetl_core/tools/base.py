"""What a tool is: it gets a value that describes the call, and returns exactly one outcome (formal specification 5)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from noetl_core.engine.outcome import Outcome
from noetl_core.ports import KeyValues, PackageFinder, ResultStore

if TYPE_CHECKING:
    from noetl_core.tools.event_loop import EventLoop
    from noetl_core.tools.grants import Grant, Token

SecretReader = Callable[[str], Mapping[str, Any]]
"""Credentials by name, as `Secrets.get` gives them: `{type, data: {...}}` or the fields. Raises `NotFound` or `KeyError`."""


class Log(Protocol):
    """Takes the output of a task, one line at a time; `stream` is stdout or stderr."""

    def __call__(self, line: str, stream: str = ..., /) -> None: ...


class References(Protocol):
    """What kinds that take references can do with them (`KindSpec.references`). All other inputs are values already."""

    def owns(self, value: Any) -> bool:
        """Return whether `value` is a reference to an object of the execution or its family. Data that only looks like one is
        data."""
        ...

    def opened(self, reference: Any, name: str) -> Any:
        """Return the value of a reference that is owned, with the references in it as they are. Raises as `load`."""
        ...

    def load(self, value: Any, name: str, limit: int | None = None) -> Any:
        """Return `value`, of input `name`, with every reference in it replaced: at most `limit` bytes are loaded (None:
        `max_input_bytes`).

        Raises `BadInput`, `NotFound`, `TooLarge`.
        """
        ...


class Published(Protocol):
    """Objects that executions put for all others to read (`kind: artifact`)."""

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        """Return such an object, or its bytes from `start` to `end` (exclusive). Raises `NotFound`."""
        ...


def _silent(_line: str, _stream: str = "stdout", /) -> None:
    """Ignore the output of a task."""


class AccessTokens(Protocol):
    """Access tokens for one execution."""

    async def token(self, grant: Grant, refused: Token | None = None) -> Token:
        """Return a token; another one than `refused`, which a service did not take. Raises `TokenRefused`, `BadInput`."""
        ...


def _open(_secret: Any, /) -> None:
    """Conceal nothing."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One attempt of one task.

    `inputs` are rendered values under the names the author wrote, whatever their size; inputs in which the kind takes
    references are read through `references`. Values from the keychain may still be `expr.Secret` (`invoke` opens them for
    every tool). `spec` is the effective spec of the task, rendered, without `policy`. `task_run_id` is stable over retries
    and crashes: it is the idempotency key to pass on. `visit` is the ordinal of the task's visit in its pass, `path` the
    indexes of the iteration, outermost first. `timeout_s` limits the whole attempt (None: the worker's own deadline).
    After `resume_after_s` a tool that keeps what it has done may answer `Outcome.unfinished` (None: there is no such time).
    `requirements` are those of the playbook (`executor.spec.python`), which `packages` finds. `cancelled` is set when the
    outcome is no longer needed. `log` takes the output of the task, one line at a time.
    `conceal` takes what the tool itself got to know as a secret: it is masked in the answer, like those of its inputs.
    `published` are the objects that executions of any family put for all others.
    """

    kind: str
    inputs: Mapping[str, Any]
    spec: Mapping[str, Any] = field(default_factory=dict)
    execution_id: str = ""
    step: str = ""
    task: str = ""
    task_run_id: str = ""
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
    """A tool that may write what it is given to the result store, where nothing removes secrets from it."""

    def stored(self, inputs: Mapping[str, Any]) -> Collection[str]:
        """Return the inputs, by canonical name, whose values may come to be stored by this call: they must hold no secrets."""
        ...


class PunctualTool(Tool, Protocol):
    """A tool whose `run` blocks, and returns by `timeout_s`, or soon after `cancelled` is set: a worker with nothing else to do
    calls it without a thread."""

    punctual: bool


class EventedTool(Tool, Protocol):
    """A tool whose calls need no thread of their own: they wait for sockets on the worker's event loop."""

    async def answer(self, call: ToolCall, loop: EventLoop) -> Outcome:
        """Do the work of `run`, on the asyncio loop that `loop` turns, and raise what `run` may raise. The coroutine is cancelled
        where it waits (`event_loop.Stopped`) once the outcome is no longer needed."""
        ...


class ToolFailed(Exception):
    """The task has failed, with this outcome: for a tool that finds out far below its `run`."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error.message if outcome.error else outcome.status)
        self.outcome = outcome


class BadInput(Exception):
    """The rendered inputs or spec are not what the kind accepts. Who acts: the author; not retryable, kind `schema`."""
