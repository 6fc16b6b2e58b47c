"""Operations that start executions, look at them and follow them."""

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
Limit = Annotated[int | None, number("at most so many", 1, MAX_PAGE)]
Cursor = Annotated[str | None, "go on after the page that gave this cursor"]


class ParentOf(TypedDict):
    """An execution that another one belongs to."""

    execution_id: str


class StartExecution(Request["executions_shapes.Started"]):
    """Start an execution.

    It is one of the registered playbook `path` (and `version`) or `playbook_id`, or of the text `playbook`.
    """

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
            "the same key and body start one execution; the Idempotency-Key header says the same",
            header="Idempotency-Key",
            header_about="as `idempotency_key` in the body",
        ),
    ] = None
    parent: Annotated[
        ParentOf | None, "{execution_id}: the execution this one belongs to, for lists; it shares nothing with it"
    ] = None
    trace_id: Annotated[str | None, "shown in every event"] = None
    labels: Annotated[
        Mapping[str, str] | None, "key: value, 20 at most, by which lists find it; keys of A-Z, a-z, 0-9 and ._/-"
    ] = None
    priority: Annotated[
        float | None,
        Field(
            "among those that wait for a limit, the higher ones first; before `priority` of the playbook",
            least=-MAX_PRIORITY,
            most=MAX_PRIORITY,
        ),
    ] = None
    strict: Annotated[
        bool | None,
        "true: undefined values in templates, and errors that no rule matches, are failures; otherwise as the playbook and the"
        " stack say",
    ] = None

    def also_needs(self) -> Iterator[str]:
        if self.playbook:
            yield INLINE


class ListExecutions(Request["executions_shapes.Executions"]):
    """Executions, newest first."""

    http = Http("GET", "/api/executions", right=READS)
    _: KW_ONLY
    status: Annotated[str | None, Field("of this status", schema=ListedStatus)] = None
    path: Annotated[str | None, "of this playbook"] = None
    since: Annotated[str | None, "started at this instant (ISO 8601) or later"] = None
    limit: Limit = None
    cursor: Cursor = None
    search: Annotated[
        str | None, "with these search attributes, as a query has them: `customer=acme&total=12`, encoded once more"
    ] = None
    label: Annotated[str | None, "with this label, key:value or key; with all of several, separated by commas"] = None
    q: Annotated[str | None, "whose id begins so, or whose playbook's path has this in it"] = None


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
    at: Annotated[str | None, "the page begins with it: the id of an event, an instant, or a number from 0"] = None
    tail: Annotated[int | None, number("the last ones, so many", 1, MAX_PAGE)] = None
    name: Annotated[str | None, "of these names, StepDone or step.done, separated by commas"] = None
    step: Annotated[str | None, "of this step"] = None
    task: Annotated[str | None, "of this task"] = None
    status: Annotated[str | None, Field("of this status", schema=Literal["in_progress", "success", "error", "paused"])] = None
    iteration: Annotated[str | None, "of this iteration and those in it, 617 or 3.5"] = None
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
    """What a template would give, without secrets."""

    http = Http("POST", "/api/context/render", right=READS, refuses=(404, 409, 422), body="Render")
    execution_id: Annotated[str, Field("whose workload, ctx and steps it reads", filled=True)]
    template: Annotated[Any, "text with templates, or data that holds such"]
    step: Annotated[str | None, "whose args and event it reads too"] = None
    at: Annotated[str | None, "the id of an event: as everything was just after it"] = None
    _: KW_ONLY
    task: Annotated[str | None, "a task of the step: the names that its templates saw"] = None
    iteration: Annotated[str | None, "in which iteration: its index, `617`; in nested loops all, `3.5`"] = None


class GetStats(Request["following_shapes.Stats"]):
    """Executions by status and by playbook."""

    http = Http("GET", "/api/executions/stats", right=READS)
    _: KW_ONLY
    path: Annotated[str | None, "of this playbook"] = None
    since: Annotated[
        str | None, "started at this instant (ISO 8601) or later; by default any, and of those that have ended the last 24 hours"
    ] = None
    label: Annotated[str | None, "with this label, key:value or key; several separated by commas"] = None


class GetChanges(Request["following_shapes.Changes | None"]):
    """State, and what has happened since a cursor.

    The answer is None if nothing has changed since the answer with the tag `known`.
    """

    http = Http("GET", f"{EXECUTION}/changes", right=READS, also=(HTTPStatus.NOT_MODIFIED,))
    execution_id: ExecutionId
    _: KW_ONLY
    after: Annotated[str | None, "the cursor of the answer before; without it all steps and the last events"] = None
    limit: Annotated[int | None, number("events at most; 0: state alone", 0, MAX_PAGE)] = None
    fields: Annotated[str | None, "keys of events to show, separated by commas"] = None
    known: Annotated[
        str | None,
        Field("the ETag of the answer whose cursor is given: is it still so?", "If-None-Match", place="header", quoted=True),
    ] = None

    def success(self, answer: Any) -> int:
        return HTTPStatus.NOT_MODIFIED if answer is None else HTTPStatus.OK

    def headers(self, answer: Any) -> Mapping[str, str]:
        return {"ETag": f'"{self.known if answer is None else answer["etag"]}"'}


class ExecutionsApi(Caller):
    """Methods that start executions, look at them and follow them."""

    start = Operation(StartExecution)
    executions = Operation(ListExecutions)
    execution = Operation(GetExecution)
    events = Operation(ListEvents)
    changes = Operation(GetChanges)
    state = Operation(GetState)
    ctx = Operation(GetCtx)
    render = Operation(RenderTemplate)
    stats = Operation(GetStats)
