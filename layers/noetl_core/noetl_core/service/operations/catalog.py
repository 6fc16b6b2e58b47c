"""Answers requests about the catalog: playbooks, their versions, and the records of their paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl_core.api.refused import BadRequest
from noetl_core.api.requests.catalog import (
    AboutPlaybook,
    Backfill,
    DeletePlaybook,
    GetPlaybook,
    GraphPlaybook,
    ListPlaybooks,
    ListVersions,
    PlanExecution,
    RegisterPlaybook,
    SetAlias,
    TagPlaybook,
    UndeletePlaybook,
    ValidatePlaybook,
)
from noetl_core.control.admit import register
from noetl_core.control.catalog import versions
from noetl_core.control.core import Control
from noetl_core.control.deployment.inbound_sources import warnings
from noetl_core.control.lifecycle import backfill
from noetl_core.control.refusals import diagnostic
from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import check, check_payloads
from noetl_core.dsl.versions import BadVersion, version_of
from noetl_core.ports import NotFound, PathRecord
from noetl_core.service.operations.base import Operations
from noetl_core.service.requested_versions import path_and_version
from noetl_core.values.instants import to_rfc3339
from noetl_core.views.executions import executions
from noetl_core.views.explain import answers

if TYPE_CHECKING:
    from noetl_core.api.shapes import catalog as shapes
    from noetl_core.api.shapes.views import PlaybookGraph

SOURCE = "<body>"
"""The name of a playbook's text in its diagnostics."""


@RegisterPlaybook.answered
def register_playbook(on: Operations, request: RegisterPlaybook) -> shapes.RegisteredPlaybook:
    control = on.control()
    playbook, version = register(control, request.source, SOURCE)
    found = _warnings(control, playbook) + _unfit_payloads(control, request.source, playbook)
    return {**executions.version_as_dict(version), "name": playbook.name, "warnings": found}


@ValidatePlaybook.answered
def validate_playbook(on: Operations, request: ValidatePlaybook) -> shapes.Validation:
    control = on.control()
    playbook, found = check(control.playbook.pinned(request.source), SOURCE, called=control.playbook.called)
    diagnostics = [diagnostic(d) for d in found]
    if playbook is None:
        return {"valid": False, "diagnostics": diagnostics, "warnings": []}
    about: shapes.ValidPlaybook = {"path": playbook.path, **executions.inputs_of(playbook)}
    return {"valid": True, "diagnostics": diagnostics, "warnings": _warnings(control, playbook), "playbook": about}


@GraphPlaybook.answered
def graph_playbook(on: Operations, request: GraphPlaybook) -> PlaybookGraph:
    return answers.playbook_graph(on.control(), request.source, layout=bool(request.layout))


@PlanExecution.answered
def plan_execution(on: Operations, request: PlanExecution) -> shapes.Plan:
    from noetl_core.views.explain import past_runs  # 1 ms: short runs request no forecast

    control = on.control()
    if (request.path is None) == (request.playbook is None):
        raise BadRequest("pass exactly one of path and playbook", "body.path", "give path (and version), or playbook")
    if request.playbook is not None:
        playbook = control.playbook.parse(request.playbook, "<body.playbook>")
    else:
        path, version = path_and_version(str(request.path), request.version)
        playbook = control.playbook(versions.resolve(control, path, version).digest)
    last = past_runs.LAST if request.last is None else request.last
    memory = on.facts.get("worker_memory_mb")
    return past_runs.plan(control, playbook, request.payload or {}, last, int(memory) if memory else None)


@ListPlaybooks.answered
def list_playbooks(on: Operations, request: ListPlaybooks) -> shapes.Playbooks:
    """List the playbooks that may be started; with `deleted`, those that are deleted."""
    known, prefix = on.control().catalog, request.prefix or ""
    records = {record.path: record for record in known.all_about(prefix)}
    found: list[shapes.ListedPlaybook] = []
    for version in known.list(prefix):
        about = records.get(version.path) or PathRecord(version.path)
        if (about.deleted_at is not None) == bool(request.deleted) and (request.tag is None or request.tag in about.tags):
            found.append(_listed(executions.version_as_dict(version), about))
    return {"playbooks": found}


@GetPlaybook.answered
def get_playbook(on: Operations, request: GetPlaybook) -> shapes.PlaybookSource:
    control = on.control()
    return executions.playbook_source(control, versions.resolve(control, *path_and_version(request.path, request.version)))


@ListVersions.answered
def list_versions(on: Operations, request: ListVersions) -> shapes.PlaybookVersions:
    found = on.control().catalog.versions(request.path)
    if not found:
        raise NotFound(f"no playbook {request.path}")
    return {"versions": [executions.version_as_dict(v) for v in found]}


@AboutPlaybook.answered
def about_playbook(on: Operations, request: AboutPlaybook) -> shapes.AboutPlaybook:
    control = on.control()
    latest = control.catalog.get(request.path)
    return _about(control.catalog.about(request.path), latest.version)


@SetAlias.answered
def set_alias(on: Operations, request: SetAlias) -> shapes.AboutPlaybook:
    control = on.control()
    return _changed(control, versions.set_alias(control, request.path, request.name, _weights(request)))


@TagPlaybook.answered
def tag_playbook(on: Operations, request: TagPlaybook) -> shapes.AboutPlaybook:
    control = on.control()
    return _changed(control, versions.set_tags(control, request.path, request.add or (), request.remove or ()))


@DeletePlaybook.answered
def delete_playbook(on: Operations, request: DeletePlaybook) -> shapes.AboutPlaybook:
    control = on.control()
    return _changed(control, versions.delete(control, request.path))


@UndeletePlaybook.answered
def undelete_playbook(on: Operations, request: UndeletePlaybook) -> shapes.AboutPlaybook:
    control = on.control()
    return _changed(control, versions.undelete(control, request.path))


@Backfill.answered
def start_backfill(on: Operations, request: Backfill) -> shapes.BackfillStarted:
    """Run a playbook for the occurrences of its schedule from `begin` to before `end`; with `preview`, only list them."""
    control = on.control()
    path, version = path_and_version(request.path, request.version)
    parallel = 1 if request.parallel is None else request.parallel
    selection = backfill.Backfill(path, request.begin, request.end, version, request.trigger, parallel, request.again or "")
    planned = backfill.plan(control, selection)
    instants = [each["backfill"]["scheduled_at"] for each in planned.occurrences]
    found: shapes.BackfillStarted = {
        "playbook": executions.version_as_dict(control.catalog.get(path, planned.version)),
        "trigger": planned.trigger,
        "occurrences": len(instants),
        "first": instants[0],
        "last": instants[-1],
    }
    if request.preview:
        return found
    started = backfill.start_backfill(control, selection, planned)
    return {**found, "execution_id": started.execution_id, "created": started.created}


def _weights(request: SetAlias) -> dict[int, int] | None:
    """Return the versions of an alias, with their weights; None to remove it. Raises `BadRequest`."""
    passed = [value for value in (request.version, request.weights, request.remove) if value is not None and value is not False]
    if len(passed) != 1:
        raise BadRequest("pass exactly one of version, weights and remove", "body", "give one of the three")
    if request.weights is not None:
        return {_number(version): weight for version, weight in request.weights.items()}
    return None if request.version is None else {request.version: 1}


def _number(version: str) -> int:
    try:
        number = version_of(version)
    except BadVersion as error:
        raise BadRequest(str(error), "body.weights") from None
    if not isinstance(number, int):
        raise BadRequest(f"{version[:80]!r} is not a version number", "body.weights")
    return number


def _warnings(control: Control, playbook: Playbook) -> list[str]:
    """Return warnings about what this stack lacks for a playbook."""
    tools = control.worker_tools
    return warnings(control.inbound_sources, playbook) + ([] if tools is None else list(tools.lacking(playbook)))


def _unfit_payloads(control: Control, source: str, playbook: Playbook) -> list[str]:
    """Return which payloads of a playbook do not fit the registered playbooks that it calls."""
    if not any(task.kind == "playbook" for task in playbook.all_tasks):
        return []
    known = control.playbook
    return [finding.brief for finding in check_payloads(known.pinned(source), known.called)]


def _changed(control: Control, record: PathRecord) -> shapes.AboutPlaybook:
    return _about(record, control.catalog.get(record.path).version)


def _listed(version: shapes.PlaybookVersion, about: PathRecord) -> shapes.ListedPlaybook:
    found: shapes.ListedPlaybook = {"path": version["path"], "version": version["version"], "digest": version["digest"]}
    if about.aliases:
        found["aliases"] = _aliases(about)
    if about.tags:
        found["tags"] = list(about.tags)
    if about.deleted_at is not None:
        found["deleted_at"] = to_rfc3339(about.deleted_at)
    return found


def _about(record: PathRecord, latest: int) -> shapes.AboutPlaybook:
    return {
        "path": record.path,
        "latest": latest,
        "aliases": _aliases(record),
        "tags": list(record.tags),
        "deleted_at": None if record.deleted_at is None else to_rfc3339(record.deleted_at),
        "changes": [{"at": to_rfc3339(c.at), "by": c.by, "what": c.what} for c in record.changes],
    }


def _aliases(record: PathRecord) -> dict[str, dict[str, int]]:
    return {name: {str(v): w for v, w in sorted(weights.items())} for name, weights in sorted(record.aliases.items())}
