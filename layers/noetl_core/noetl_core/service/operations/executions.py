"""Starts, reads and follows executions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from noetl_core.api.refused import BadRequest, execution_id, iteration_path
from noetl_core.api.requests.executions import (
    GetChanges,
    GetCtx,
    GetExecution,
    GetState,
    GetStats,
    ListEvents,
    ListExecutions,
    RenderTemplate,
    StartExecution,
)
from noetl_core.control.admit import StartRequest, admit
from noetl_core.ports import TooLarge
from noetl_core.service.operations.base import Operations
from noetl_core.service.requested_versions import path_and_version
from noetl_core.views import changes
from noetl_core.views.executions import executions, labels, listing, statistics
from noetl_core.views.history import event_pages, pages

if TYPE_CHECKING:
    from noetl_core.api.shapes import executions as shapes
    from noetl_core.api.shapes.following import Changes, Stats


@StartExecution.answered
def start_execution(on: Operations, request: StartExecution) -> shapes.Started:
    """Start an execution. Raises the errors of `admit`."""
    if not (request.path or request.playbook or request.playbook_id):
        raise BadRequest("a request must name a playbook", "body.path", "give path (and version), playbook_id, or playbook")
    control = on.control()
    path, version = request.path, request.version
    if path is not None:
        path, version = path_and_version(path, version)
    if request.parent is not None:
        executions.load(control, execution_id(request.parent["execution_id"]))
    start = StartRequest(
        path=path,
        version=version,
        digest=request.playbook_id,
        playbook=request.playbook,
        payload=request.payload or {},
        ctx=request.ctx or {},
        idempotency_key=request.idempotency_key,
        parent=request.parent,
        trace_id=request.trace_id,
        labels=labels.checked(request.labels or {}),
        priority=request.priority,
        strict=bool(request.strict),
        registers=on.registers,
    )
    started = admit(control, start)
    found = {
        "execution_id": started.execution_id,
        "status": started.status,
        "playbook": executions.version_as_dict(started.playbook),
        "created": started.created,
        "warnings": list(started.warnings),
    }
    return cast("shapes.Started", found)


@ListExecutions.answered
def list_executions(on: Operations, request: ListExecutions) -> shapes.Executions:
    return listing.page(
        on.control(),
        on.cursor_key,
        status=request.status,
        path=request.path,
        since=request.since,
        until=request.until,
        limit=listing.LISTED if request.limit is None else request.limit,
        cursor=request.cursor,
        search=request.search,
        label=request.label,
        text=request.q,
        oldest_first=request.order == "oldest",
    )


@GetExecution.answered
def get_execution(on: Operations, request: GetExecution) -> shapes.Execution:
    return cast("shapes.Execution", executions.summary(on.control(), request.execution_id))


@ListEvents.answered
def list_events(on: Operations, request: ListEvents) -> shapes.Events:
    path = None if request.iteration is None else iteration_path(request.iteration, "query.iteration")
    names = event_pages.event_names(request.name)
    keys = changes.event_keys(request.fields)
    found = event_pages.page(
        on.control(),
        request.execution_id,
        on.cursor_key(),
        event_pages.Filter(names, request.step, request.task, request.status, path),
        after=request.after,
        before=request.before,
        at=request.at,
        tail=request.tail,
        limit=pages.MAX_PAGE if request.limit is None else request.limit,
    )
    events = [changes.trimmed(event, keys) for event in found.events]
    page = {"events": events, "cursor": found.cursor, "more": found.more, "back": found.back}
    return cast("shapes.Events", page if found.position is None else {**page, "position": found.position})


@GetChanges.answered
def get_changes(on: Operations, request: GetChanges) -> Changes | None:
    """Return the state and the events since the cursor `after`; None if nothing has changed since the answer with the tag
    `known`, which returned that cursor."""
    control, key = on.control(), on.cursor_key()
    limit = changes.EVENTS if request.limit is None else request.limit
    keys, after, known = changes.event_keys(request.fields), request.after, request.known
    if known and after and known == changes.tag_of(after) and changes.unchanged(control, request.execution_id, after, key):
        return None
    return changes.changes(control, request.execution_id, key, after=after, limit=limit, fields=keys)


@GetState.answered
def get_state(on: Operations, request: GetState) -> shapes.ExecutionState:
    return cast("shapes.ExecutionState", executions.state_at(on.control(), request.execution_id, request.at))


@GetCtx.answered
def get_ctx(on: Operations, request: GetCtx) -> shapes.Ctx:
    return {"execution_id": request.execution_id, "ctx": executions.load(on.control(), request.execution_id).ctx}


@RenderTemplate.answered
def render_template(on: Operations, request: RenderTemplate) -> shapes.Rendered:
    """Evaluate a template. With `task` or `iteration`, it reads the names that the task saw; an event of the task as `at` selects
    both, and the step."""
    from noetl_core.views.steps.render import render_context  # 3 ms, with the next: only this operation needs it
    from noetl_core.views.steps.task_names import TaskSelector

    if request.template is None:
        raise BadRequest("template is missing", "body.template", "text with templates, or data that contains such text")
    execution = execution_id(request.execution_id)
    path = None if request.iteration is None else iteration_path(request.iteration, "body.iteration")
    found = render_context(on.control(), execution, request.template, TaskSelector(request.step, request.task, path), request.at)
    if len(json.dumps(found["value"], default=str)) > pages.MAX_PAGE_BYTES:
        raise TooLarge(f"the value of the template exceeds {pages.MAX_PAGE_BYTES} bytes")
    return found


@GetStats.answered
def get_stats(on: Operations, request: GetStats) -> Stats:
    since = None if request.since is None else listing.instant(request.since)
    return statistics.stats(on.control(), path=request.path, since=since, label_filter=labels.parse_label_filter(request.label))
