"""States the operations that change an execution, or many."""

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
    """Cancel an execution."""

    http = Http("POST", f"{EXECUTION}/cancel", right=OPERATES, status=HTTPStatus.ACCEPTED, body="Cancel", optional=True)
    execution_id: ExecutionId
    _: KW_ONLY
    reason: Annotated[str | None, "reason to record"] = None
    compensate: Annotated[bool | None, "true: afterwards, run the `compensate` tasks of finished steps"] = None


class PauseExecution(Request["executions_shapes.Operated"]):
    """Pause an execution."""

    http = Http("POST", f"{EXECUTION}/pause", right=OPERATES, status=HTTPStatus.ACCEPTED, body="Nothing", optional=True)
    execution_id: ExecutionId


class ResumeExecution(Request["executions_shapes.Operated"]):
    """Resume an execution."""

    http = Http("POST", f"{EXECUTION}/resume", right=OPERATES, status=HTTPStatus.ACCEPTED, body="Nothing", optional=True)
    execution_id: ExecutionId


class RedriveExecution(Request["executions_shapes.Redriven"]):
    """Run an ended execution again."""

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
            " visit; by default, the failure",
            "from",
        ),
    ] = None
    ctx: Annotated[Mapping[str, Any] | None, "keys of ctx to set; objects merge"] = None
    args: Annotated[Mapping[str, Any] | None, "args of the step to set"] = None
    playbook: Annotated[str | None, "the text of another version of the playbook; it is registered if the caller may do so"] = (
        None
    )
    version: Annotated[Version, version_of_body("another version of the playbook, a number or an alias")] = None
    preview: Annotated[bool | None, "only return the parts that would run again"] = None

    def also_needs(self) -> Iterator[str]:
        if self.playbook:
            yield INLINE

    def success(self, answer: Any) -> int:
        return HTTPStatus.OK if self.preview else HTTPStatus.ACCEPTED


class SendSignal(Request["executions_shapes.Operated"]):
    """Send a named signal to an execution."""

    http = Http("POST", "/api/events", right=OPERATES, status=HTTPStatus.ACCEPTED, refuses=(404, 409), body="Signal")
    execution_id: Annotated[str, Field("the receiving execution", filled=True)]
    name: Annotated[str, Field("the name of the awaited signal (`kind: callback` with `signal: name`)", filled=True)]
    data: Annotated[Any, "data of the signal"] = None
    signal_id: Annotated[str | None, Field("idempotency id: of signals with the same id, only the first counts", "id")] = None


class Which(TypedDict, total=False):
    """Selects the executions of a batch."""

    ids: Annotated[Sequence[str] | None, Field("these", least=1, most=100)]
    status: Annotated[str | None, Field("only executions with this status", schema=ListedStatus)]
    path: Annotated[str | None, "only executions of this playbook"]
    since: Annotated[str | None, "only executions started at this instant (ISO 8601) or later"]
    until: Annotated[str | None, "only executions started at this instant or before"]
    label: Annotated[str | None, "only executions with these labels: `key:value` or `key`, several separated by commas"]


Given = TypedDict(
    "Given",
    {
        "reason": Annotated[str | None, "reason to record (cancel only)"],
        "compensate": Annotated[bool | None, "true: undo finished steps (cancel only)"],
        "from": Annotated[str | None, "start of the redrive, as for a single execution (redrive only)"],
    },
    total=False,
)
"""Arguments of the operation of a batch. OpenAPI has this class's name."""


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
    filter: Annotated[Which, "selection of executions: at least one of its keys"]
    action: Annotated[Action, "the operation"]
    _: KW_ONLY
    arguments: Annotated[Given | None, Field("arguments of the operation", "with")] = None
    preview: Annotated[bool | None, "only return the selected executions"] = None
    limit: Annotated[int | None, "maximum number of executions, 50 by default, up to 100"] = None
    cursor: Annotated[str | None, "continue after the page that returned this cursor"] = None

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
        """Operate on the executions with a status, of a playbook, of a time, with labels (`key:value,key`) or with these ids, a
        page at a time; with `preview`, only list them."""
        which: Which = {"ids": ids, "status": status, "path": path, "since": since, "until": until, "label": label}
        arguments: Given = {"reason": reason, "compensate": compensate, "from": begin}
        return self.call(OperateBatch(which, action, arguments=arguments, preview=preview, limit=limit, cursor=cursor))
