"""Operations on the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from noetl_core.api.fields import Field, PlaybookPath, Source, VersionQuery, number, switch, version_of_body
from noetl_core.api.request import Caller, Http, Operation, Request
from noetl_core.api.rights import READS, SEES, STARTS, WRITES
from noetl_core.dsl.versions import Version
from noetl_core.values.request_bounds import MAX_PAST_RUNS

if TYPE_CHECKING:
    from noetl_core.api.shapes import catalog as catalog_shapes
    from noetl_core.api.shapes import views as views_shapes

PATH = "/api/playbooks/{path+}"


class RegisterPlaybook(Request["catalog_shapes.RegisteredPlaybook"]):
    """Register a playbook. A playbook as YAML or JSON, or `{playbook: text}`."""

    http = Http("POST", "/api/playbooks", right=WRITES, status=HTTPStatus.CREATED, refuses=(410, 422))
    source: Source


class ListPlaybooks(Request["catalog_shapes.Playbooks"]):
    """Registered playbooks."""

    http = Http("GET", "/api/playbooks", right=SEES)
    prefix: Annotated[str | None, "only paths with this prefix"] = None
    _: KW_ONLY
    tag: Annotated[str | None, "only playbooks with this tag"] = None
    deleted: Annotated[bool | None, switch("true: deleted playbooks")] = None


class ValidatePlaybook(Request["catalog_shapes.Validation"]):
    """Validate a playbook. A playbook as YAML or JSON, or `{playbook: text}`."""

    http = Http("POST", "/api/playbooks/validate", right=SEES, also=(HTTPStatus.UNPROCESSABLE_ENTITY,))
    source: Source

    def success(self, answer: Any) -> int:
        return HTTPStatus.OK if answer["valid"] else HTTPStatus.UNPROCESSABLE_ENTITY


class GraphPlaybook(Request["views_shapes.PlaybookGraph"]):
    """Steps and arcs of a playbook's text, with their positions. A playbook as YAML or JSON, or `{playbook: text}`."""

    http = Http("POST", "/api/playbooks/graph", right=SEES, refuses=(422,))
    source: Source
    _: KW_ONLY
    layout: Annotated[
        bool | None, switch("1: include the positions of steps and arcs", "0", "1", "false", "true", place="query")
    ] = None


class PlanExecution(Request["catalog_shapes.Plan"]):
    """Forecast the time and the cost of an execution as ranges, from past executions of the registered playbook `path`, or of the
    path in the text `playbook`."""

    http = Http("POST", "/api/playbooks/plan", right=READS, refuses=(404, 422), body="Planned")
    _: KW_ONLY
    path: Annotated[str | None, "path of a registered playbook, or `path@version`"] = None
    version: Annotated[Version, version_of_body("its version, a number or an alias; the latest by default")] = None
    playbook: Annotated[str | None, "text of a playbook, instead of a registered one"] = None
    payload: Annotated[Mapping[str, Any] | None, "merged over the playbook's workload"] = None
    last: Annotated[
        int | None,
        number("the newest executions to learn from, 20 by default", 0, MAX_PAST_RUNS),
    ] = None


class Backfill(Request["catalog_shapes.BackfillStarted"]):
    """Run a playbook for past occurrences of its schedule."""

    http = Http(
        "POST",
        f"{PATH}/backfill",
        right=STARTS,
        status=HTTPStatus.ACCEPTED,
        refuses=(409, 410, 422),
        body="AskedBackfill",
    )
    path: PlaybookPath
    begin: Annotated[str, Field("the first instant (inclusive); without a time zone, that of the schedule", "from")]
    end: Annotated[str, Field("the last instant (exclusive)", "to")]
    _: KW_ONLY
    version: Annotated[Version, version_of_body("version of the playbook, a number or an alias; the latest by default")] = None
    trigger: Annotated[str | None, "name of the schedule, if the playbook has several"] = None
    parallel: Annotated[int | None, "maximum number of concurrent runs, 1 by default"] = None
    again: Annotated[str | None, "run the same occurrences again, as a new backfill with this name"] = None
    preview: Annotated[bool | None, "only list the occurrences that would run"] = None


class SetAlias(Request["catalog_shapes.AboutPlaybook"]):
    """Set the version of an alias, or split it between versions."""

    http = Http("POST", f"{PATH}/aliases", right=WRITES, refuses=(422,), body="Alias")
    path: PlaybookPath
    name: Annotated[str, Field("the alias, for example prod", filled=True)]
    _: KW_ONLY
    version: Annotated[int | None, "its version"] = None
    weights: Annotated[Mapping[str, int] | None, 'its versions, each with its weight: `{"7": 90, "8": 10}`'] = None
    remove: Annotated[bool | None, "true removes the alias"] = None


class TagPlaybook(Request["catalog_shapes.AboutPlaybook"]):
    """Add and remove tags."""

    http = Http("POST", f"{PATH}/tags", right=WRITES, refuses=(422,), body="Tags")
    path: PlaybookPath
    add: Annotated[Sequence[str] | None, "tags to add"] = None
    remove: Annotated[Sequence[str] | None, "tags to remove"] = None


class UndeletePlaybook(Request["catalog_shapes.AboutPlaybook"]):
    """Restore a deleted playbook."""

    http = Http("POST", f"{PATH}/undelete", right=WRITES)
    path: PlaybookPath


class DeletePlaybook(Request["catalog_shapes.AboutPlaybook"]):
    """Delete a playbook: nothing new starts from it. Executions in progress continue, and its versions stay."""

    http = Http("DELETE", PATH, right=WRITES)
    path: PlaybookPath


class AboutPlaybook(Request["catalog_shapes.AboutPlaybook"]):
    """Aliases, tags, deletion and changes of a playbook."""

    http = Http("GET", f"{PATH}/about", right=SEES)
    path: PlaybookPath


class ListVersions(Request["catalog_shapes.PlaybookVersions"]):
    """Versions of a playbook."""

    http = Http("GET", f"{PATH}/versions", right=SEES)
    path: PlaybookPath


class GetPlaybook(Request["catalog_shapes.PlaybookSource"]):
    """A playbook with its text."""

    http = Http("GET", PATH, right=SEES)
    path: PlaybookPath
    version: VersionQuery = None


class CatalogApi(Caller):
    """Methods on the catalog."""

    register = Operation(RegisterPlaybook)
    validate = Operation(ValidatePlaybook)
    playbooks = Operation(ListPlaybooks)
    playbook = Operation(GetPlaybook)
    playbook_versions = Operation(ListVersions)
    about_playbook = Operation(AboutPlaybook)
    tag_playbook = Operation(TagPlaybook)
    delete_playbook = Operation(DeletePlaybook)
    undelete_playbook = Operation(UndeletePlaybook)
    playbook_graph = Operation(GraphPlaybook)
    plan = Operation(PlanExecution)
    backfill = Operation(Backfill)

    def set_alias(self, path: str, name: str, weights: Mapping[int, int] | None) -> catalog_shapes.AboutPlaybook:
        """Set the versions of an alias, each with its weight; None removes it."""
        if weights is None:
            return self.call(SetAlias(path, name, remove=True))
        return self.call(SetAlias(path, name, weights={str(version): weight for version, weight in weights.items()}))
