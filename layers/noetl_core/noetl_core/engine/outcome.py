"""The outcome envelope: every tool invocation produces exactly one (formal specification 5, pipeline execution "Outcome
envelope")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, get_args

from noetl_core.events.shapes import Failure, TaskOutcome
from noetl_core.values.frozen import frozen
from noetl_core.values.large_json import JsonText

ErrorKind = Literal[
    "connection", "timeout", "rate_limit", "auth", "not_found", "client_error", "server_error", "schema", "parse", "template",
    "db_connection", "db_constraint", "db_deadlock", "db_timeout", "storage", "limit", "cancelled", "ctx_conflict", "python",
    "unsupported", "unknown", "admission", "lost",
]  # fmt: skip
"""Error kinds (resolution 24), and `admission` (12) and `lost` (a run fenced after its workers kept dying)."""

ERROR_KINDS: frozenset[str] = frozenset(get_args(ErrorKind))

RETRYABLE_KINDS: frozenset[str] = frozenset(
    {"connection", "timeout", "rate_limit", "server_error", "db_connection", "db_deadlock", "db_timeout", "storage"}
)
"""Kinds that are `retryable` unless the tool says otherwise."""

LONGEST: dict[str, int] = {"kind": 64, "message": 4_096}
"""The most characters of an error's texts: they are copied to the step, the execution, its head and its parent. `details` may
be large."""


@frozen
class ErrorInfo:
    """`outcome.error`: the error, for rules to match and for people to read (resolution 24)."""

    kind: ErrorKind
    message: str
    retryable: bool | None = None
    code: str | int | None = None
    details: Any = None

    def as_dict(self) -> Failure:
        """Return the form that templates and events have. `retryable` follows from the kind when the tool did not set it."""
        retryable = self.kind in RETRYABLE_KINDS if self.retryable is None else self.retryable
        out: Failure = {"kind": self.kind, "message": self.message, "retryable": retryable}
        if self.code is not None:
            out["code"] = self.code
        if self.details is not None:
            out["details"] = self.details
        return out


@frozen
class Outcome:
    """The final outcome of one tool invocation.

    `result` is plain data (JSON types) or a reference. `helpers` are the sections of the kind, by name: `{"http": {"status":
    200, "headers": {...}}}`, `{"pg": {...}}`, `{"py": {...}}`. The worker fills `meta` (attempt, duration_ms, started_at,
    finished_at); a tool may add to it. `text` is the JSON text of `result`, if the tool has it.
    """

    status: Literal["ok", "error", "unfinished", "outside"]
    result: Any = None
    error: ErrorInfo | None = None
    helpers: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    text: JsonText | None = None

    @classmethod
    def ok(cls, result: Any = None, **helpers: Any) -> Outcome:
        return cls("ok", result=result, helpers=helpers)

    @classmethod
    def failed(
        cls,
        kind: ErrorKind,
        message: str,
        *,
        retryable: bool | None = None,
        code: str | int | None = None,
        details: Any = None,
        **helpers: Any,
    ) -> Outcome:
        return cls("error", error=ErrorInfo(kind, message, retryable, code, details), helpers=helpers)

    @classmethod
    def unfinished(cls) -> Outcome:
        """The task has done a part of its work and kept it, and its invocation has no time for more: no outcome yet. The worker
        suspends the run, and calls the tool again with the same task run."""
        return cls("unfinished")

    @classmethod
    def outside(cls, kept: Mapping[str, Any], look_in_s: float) -> Outcome:
        """Return an outcome for work that continues outside (`tools.base.OutsideTool`): no result yet. The worker records `kept`,
        which is plain data without secrets, suspends the run, and calls the tool again in `look_in_s` seconds."""
        return cls("outside", result=dict(kept), meta={"look_in_s": look_in_s})

    def as_dict(self) -> TaskOutcome:
        """Return the envelope that templates see as `outcome` and that `TaskProcessed` stores."""
        out: Any = {"status": self.status, **self.helpers, "meta": dict(self.meta)}
        if self.status == "ok":
            out["result"] = self.result
        if self.error is not None:
            out["error"] = self.error.as_dict()
        outcome: TaskOutcome = out
        return outcome
