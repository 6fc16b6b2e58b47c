"""Operations that change an execution, or many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from noetl_core.api.fields import ExecutionId, Field, version_of_body
from noetl_core.api.request import Caller, Http, Operation, Request
from noetl_core.api.requests.executions import EXECUTION
from noetl_core.api.rights import INLINE, OPERATES
from noetl_core.dsl.versions import Version
from noetl_core.events.shapes import ListedStatus

if TYPE_CHECKING:
    from noetl_core.api.shapes import executions as executions_shapes
    from noetl_core.api.shapes import following as following_shapes

Action = Literal["cancel", "pause", "resume", "redrive"]


class CancelExecution(Request["executions_shapes.Operated"]):
    """Cancel."""

    http = Http("POST", f"{EXECUTION}/cancel", right=OPERATES, status=HTTPStatus.ACCEPTED, body="Cancel", optional=True)
    execution_id: ExecutionId
    _: KW_ONLY
    reason: Annotated[str | None, "why, for the record"] = None
    compensate: Annotated[bool | None, "whether finished steps are undone by their `compensate`"] = None


class PauseExecution(Request["executions_shapes.Operated"]):
    """Pause."""

    http = Http("POST", f"{EXECUTION}/pause", right=OPERATES, status=HTTPStatus.ACCEPTED, body="Nothing", optional=True)
    execution_id: ExecutionId


class ResumeExecution(Request["executions_shapes.Operated"]):
    """Resume."""

    http = Http("POST", f"{EXECUTION}/resume", right=OPERATES, status=HTTPStatus.ACCEPTED, body="Nothing", optional=True)
    execution_id: ExecutionId


class RedriveExecution(Request["executions_shapes.Redriven"]):
    """Run what has ended again."""

    http = Http(
        "POST",
        f"{EXECUTION}/redrive",
        right=OPERATES,
        status=HTTPStatus.ACCEPTED,
        also=(HTTPStatus.OK,),
        refuses=(422,),
        body="Redrive",
        optional=True,
    )
    execution_id: ExecutionId
    _: KW_ONLY
    begin: Annotated[
        str | None,
        Field(
            "`STEP`, `STEP/TASK`, `STEP@3` or `STEP/TASK@0.3`; in a step without a loop, `STEP/TASK@7` is the task's seventh"
            " visit; by default where it failed",
            "from",
        ),
    ] = None
    ctx: Annotated[Mapping[str, Any] | None, "keys of ctx to set; objects merge"] = None
    args: Annotated[Mapping[str, Any] | None, "args of the step to set"] = None
    playbook: Annotated[str | None, "the text of another version of the playbook; it is registered where the caller may"] = None
    version: Annotated[Version, version_of_body("another version of the playbook, a number or an alias")] = None
    preview: Annotated[bool | None, "only say what would run again"] = None

    def also_needs(self) -> Iterator[str]:
        if self.playbook:
            yield INLINE

    def success(self, answer: Any) -> int:
        return HTTPStatus.OK if self.preview else HTTPStatus.ACCEPTED


class SendSignal(Request["executions_shapes.Operated"]):
    """A named signal."""

    http = Http("POST", "/api/events", right=OPERATES, status=HTTPStatus.ACCEPTED, refuses=(404, 409), body="Signal")
    execution_id: Annotated[str, Field("the execution it is for", filled=True)]
    name: Annotated[str, Field("what `kind: callback` with `signal: name` waits for", filled=True)]
    data: Annotated[Any, "what it brings"] = None
    signal_id: Annotated[str | None, Field("of the same id only the first counts", "id")] = None


class Which(TypedDict, total=False):
    """Which executions a batch is for."""

    ids: Annotated[Sequence[str] | None, Field("these", least=1, most=100)]
    status: Annotated[str | None, Field("of this status", schema=ListedStatus)]
    path: Annotated[str | None, "of this playbook"]
    since: Annotated[str | None, "started at this instant (ISO 8601) or later"]
    until: Annotated[str | None, "started at this instant or before"]
    label: Annotated[str | None, "with these labels: `key:value` or `key`, several separated by commas"]


Given = TypedDict(
    "Given",
    {
        "reason": Annotated[str | None, "of cancelling: why, for the record"],
        "compensate": Annotated[bool | None, "of cancelling: whether finished steps are undone"],
        "from": Annotated[str | None, "of redriving: where, as in a redrive of one"],
    },
    total=False,
)
"""What the operations of a batch are given."""


class OperateBatch(Request["following_shapes.Batch"]):
    """One operation on many executions, a page at a time."""

    http = Http(
        "POST",
        "/api/executions/batch",
        right=OPERATES,
        status=HTTPStatus.ACCEPTED,
        also=(HTTPStatus.OK,),
        refuses=(404, 422),
        body="Batch",
    )
    filter: Annotated[Which, "which executions: one of its keys at least"]
    action: Annotated[Action, "what is done"]
    _: KW_ONLY
    given: Annotated[Given | None, Field("what it is given", "with")] = None
    preview: Annotated[bool | None, "only say to which"] = None
    limit: Annotated[int | None, "executions at most, 50 by default, up to 100"] = None
    cursor: Annotated[str | None, "go on after the page that gave this cursor"] = None

    def success(self, answer: Any) -> int:
        return HTTPStatus.OK if self.preview else HTTPStatus.ACCEPTED


class OperatingApi(Caller):
    """Methods that change executions."""

    cancel = Operation(CancelExecution)
    pause = Operation(PauseExecution)
    resume = Operation(ResumeExecution)
    redrive = Operation(RedriveExecution)
    signal = Operation(SendSignal)

    def batch(
        self,
        action: Action,
        *,
        ids: Sequence[str] | None = None,
        status: str | None = None,
        path: str | None = None,
        since: str | None = None,
        until: str | None = None,
        label: str | None = None,
        reason: str | None = None,
        compensate: bool | None = None,
        begin: str | None = None,
        preview: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> following_shapes.Batch:
        """Do an operation to the executions of a status, a playbook, a time or with labels (`key:value,key`), or to those with
        these ids, a page at a time; with `preview` only say to which."""
        which: Which = {"ids": ids, "status": status, "path": path, "since": since, "until": until, "label": label}
        given: Given = {"reason": reason, "compensate": compensate, "from": begin}
        return self.call(OperateBatch(which, action, given=given, preview=preview, limit=limit, cursor=cursor))
