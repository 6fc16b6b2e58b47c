"""States the operations that start, read and follow executions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from noetl_core.api.fields import ExecutionId, Field, number, version_of_body
from noetl_core.api.request import Caller, Http, Operation, Request
from noetl_core.api.rights import INLINE, READS, STARTS
from noetl_core.dsl.versions import Version
from noetl_core.events.shapes import ListedStatus
from noetl_core.values.request_bounds import MAX_PAGE, MAX_PRIORITY

if TYPE_CHECKING:
    from noetl_core.api.shapes import executions as executions_shapes
    from noetl_core.api.shapes import following as following_shapes

EXECUTION = "/api/executions/{execution_id}"
Limit = Annotated[int | None, number("maximum number of results", 1, MAX_PAGE)]
Cursor = Annotated[str | None, "continue after the page that returned this cursor"]


class ParentOf(TypedDict):
    """The execution that another one belongs to."""

    execution_id: str


class StartExecution(Request["executions_shapes.Started"]):
    """Start an execution. It runs the registered playbook `path` (and `version`) or `playbook_id`, or the text `playbook`."""

    http = Http("POST", "/api/executions", right=STARTS, status=HTTPStatus.ACCEPTED, refuses=(404, 409, 410, 422), body="Start")
    _: KW_ONLY
    path: Annotated[str | None, "path of a registered playbook, or `path@version`"] = None
    version: Annotated[Version, version_of_body("its version, a number or an alias; the latest by default")] = None
    playbook_id: Annotated[str | None, "digest of a registered playbook, instead of path and version"] = None
    playbook: Annotated[str | None, "text of a playbook, instead of a registered one"] = None
    payload: Annotated[Mapping[str, Any] | None, "merged over the playbook's workload"] = None
    ctx: Annotated[Mapping[str, Any] | None, "ctx at the start"] = None
    idempotency_key: Annotated[
        str | None,
        Field(
            "the same key and body start one execution; the Idempotency-Key header is equivalent",
            header="Idempotency-Key",
            header_about="as `idempotency_key` in the body",
        ),
    ] = None
    parent: Annotated[ParentOf | None, "{execution_id}: the execution to which lists assign this one; the two share nothing"] = (
        None
    )
    trace_id: Annotated[str | None, "shown in every event"] = None
    labels: Annotated[Mapping[str, str] | None, "labels for lists, as key: value, at most 20; keys of A-Z, a-z, 0-9 and ._/-"] = (
        None
    )
    priority: Annotated[
        float | None,
        Field(
            "among waiters for a limit, higher ones come first; overrides `priority` of the playbook",
            least=-MAX_PRIORITY,
            most=MAX_PRIORITY,
        ),
    ] = None
    strict: Annotated[
        bool | None,
        "true: undefined values in templates, and errors that no rule matches, are failures; the playbook and the stack"
        " set the default",
    ] = None

    def also_needs(self) -> Iterator[str]:
        if self.playbook:
            yield INLINE


class ListExecutions(Request["executions_shapes.Executions"]):
    """Executions, newest first unless `order` is `oldest`."""

    http = Http("GET", "/api/executions", right=READS)
    _: KW_ONLY
    status: Annotated[str | None, Field("only executions with this status", schema=ListedStatus)] = None
    path: Annotated[str | None, "only executions of this playbook"] = None
    since: Annotated[str | None, "only executions started at this instant (ISO 8601) or later"] = None
    until: Annotated[str | None, "only executions started at this instant (ISO 8601) or earlier"] = None
    limit: Limit = None
    cursor: Cursor = None
    search: Annotated[
        str | None, "only executions with these search attributes: a query string (`customer=acme&total=12`), itself URL-encoded"
    ] = None
    label: Annotated[
        str | None, "only executions with this label, key:value or key; several, separated by commas, must all match"
    ] = None
    q: Annotated[
        str | None,
        "only executions whose id is this text or begins or ends with it, or whose path, error, labels or search attributes"
        " contain it",
    ] = None
    order: Annotated[Literal["newest", "oldest"] | None, "by the instant of their start; by default the newest first"] = None


class GetExecution(Request["executions_shapes.Execution"]):
    """Summary of an execution."""

    http = Http("GET", EXECUTION, right=READS)
    execution_id: ExecutionId


class ListEvents(Request["executions_shapes.Events"]):
    """History in causal order."""

    http = Http("GET", f"{EXECUTION}/events", right=READS, answers="executions_shapes.EventParts")
    execution_id: ExecutionId
    _: KW_ONLY
    after: Annotated[str | None, "a cursor, or the id of an event"] = None
    before: Annotated[str | None, "the id of an event: the page ends before it"] = None
    at: Annotated[str | None, "the beginning of the page: the id of an event, an instant, or a number from 0"] = None
    tail: Annotated[int | None, number("number of events from the end", 1, MAX_PAGE)] = None
    name: Annotated[str | None, "only events with these names, separated by commas; `StepDone` and `step.done` mean the same"] = (
        None
    )
    step: Annotated[str | None, "only events of this step"] = None
    task: Annotated[str | None, "only events of this task"] = None
    status: Annotated[
        str | None, Field("only events with this status", schema=Literal["in_progress", "success", "error", "paused"])
    ] = None
    iteration: Annotated[str | None, "only events of this iteration (617; in nested loops 3.5) and of the iterations in it"] = (
        None
    )
    fields: Annotated[str | None, "keys of events to show, separated by commas"] = None
    limit: Limit = None


class GetState(Request["executions_shapes.ExecutionState"]):
    """State now or at an event."""

    http = Http("GET", f"{EXECUTION}/state", right=READS)
    execution_id: ExecutionId
    at: Annotated[str | None, "the id of an event: the state just after it"] = None


class GetCtx(Request["executions_shapes.Ctx"]):
    """ctx of an execution."""

    http = Http("GET", "/api/vars/{execution_id}", right=READS)
    execution_id: ExecutionId


class RenderTemplate(Request["executions_shapes.Rendered"]):
    """The value of a template, without secrets."""

    http = Http("POST", "/api/context/render", right=READS, refuses=(404, 409, 422), body="Render")
    execution_id: Annotated[str, Field("the execution whose workload, ctx and steps the template reads", filled=True)]
    template: Annotated[Any, "text with templates, or data that contains such text"]
    step: Annotated[str | None, "a step whose args and event the template reads too"] = None
    at: Annotated[str | None, "the id of an event: evaluate as of just after it"] = None
    _: KW_ONLY
    task: Annotated[str | None, "a task of the step: use the names that its templates saw"] = None
    iteration: Annotated[str | None, "an iteration: its index, `617`; in nested loops the index in each loop, `3.5`"] = None


class GetStats(Request["following_shapes.Stats"]):
    """Executions by status and by playbook."""

    http = Http("GET", "/api/executions/stats", right=READS)
    _: KW_ONLY
    path: Annotated[str | None, "only executions of this playbook"] = None
    since: Annotated[
        str | None,
        "only executions started at this instant (ISO 8601) or later; by default, ended ones started in the last 24 hours, and"
        " all others",
    ] = None
    label: Annotated[str | None, "only executions with this label, key:value or key; several separated by commas"] = None


class GetChanges(Request["following_shapes.Changes | None"]):
    """State, and events since a cursor. The answer is None if nothing has changed since the answer with the tag `known`."""

    http = Http("GET", f"{EXECUTION}/changes", right=READS, also=(HTTPStatus.NOT_MODIFIED,))
    execution_id: ExecutionId
    _: KW_ONLY
    after: Annotated[str | None, "the cursor of the previous answer; without it, all steps and the last events"] = None
    limit: Annotated[int | None, number("maximum number of events; 0: state alone", 0, MAX_PAGE)] = None
    fields: Annotated[str | None, "keys of events to show, separated by commas"] = None
    known: Annotated[
        str | None,
        Field(
            "the ETag of the answer whose cursor is passed, to check whether it is current",
            "If-None-Match",
            place="header",
            quoted=True,
        ),
    ] = None

    def success(self, answer: Any) -> int:
        return HTTPStatus.NOT_MODIFIED if answer is None else HTTPStatus.OK

    def headers(self, answer: Any) -> Mapping[str, str]:
        return {"ETag": f'"{self.known if answer is None else answer["etag"]}"'}


class ExecutionsApi(Caller):
    """Methods that start, read and follow executions."""

    start = Operation(StartExecution)
    executions = Operation(ListExecutions)
    execution = Operation(GetExecution)
    events = Operation(ListEvents)
    changes = Operation(GetChanges)
    state = Operation(GetState)
    ctx = Operation(GetCtx)
    render = Operation(RenderTemplate)
    stats = Operation(GetStats)
