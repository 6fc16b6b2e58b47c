"""Operations on the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from noetl_core.api.fields import Field, PlaybookPath, Source, VersionQuery, switch, version_of_body
from noetl_core.api.request import Caller, Http, Operation, Request
from noetl_core.api.rights import SEES, STARTS, WRITES
from noetl_core.dsl.versions import Version

if TYPE_CHECKING:
    from noetl_core.api.shapes import catalog as catalog_shapes
    from noetl_core.api.shapes import views as views_shapes

PATH = "/api/playbooks/{path+}"


class RegisterPlaybook(Request["catalog_shapes.RegisteredPlaybook"]):
    """Register. A playbook as YAML or JSON, or `{playbook: text}`."""

    http = Http("POST", "/api/playbooks", right=WRITES, status=HTTPStatus.CREATED, refuses=(410, 422))
    source: Source


class ListPlaybooks(Request["catalog_shapes.Playbooks"]):
    """Registered playbooks."""

    http = Http("GET", "/api/playbooks", right=SEES)
    prefix: Annotated[str | None, "whose path begins so"] = None
    _: KW_ONLY
    tag: Annotated[str | None, "that have this tag"] = None
    deleted: Annotated[bool | None, switch("true: those that are deleted")] = None


class ValidatePlaybook(Request["catalog_shapes.Validation"]):
    """Validate. A playbook as YAML or JSON, or `{playbook: text}`."""

    http = Http("POST", "/api/playbooks/validate", right=SEES, also=(HTTPStatus.UNPROCESSABLE_ENTITY,))
    source: Source

    def success(self, answer: Any) -> int:
        return HTTPStatus.OK if answer["valid"] else HTTPStatus.UNPROCESSABLE_ENTITY


class GraphPlaybook(Request["views_shapes.PlaybookGraph"]):
    """Steps and arcs of a text, as they would be drawn. A playbook as YAML or JSON, or `{playbook: text}`."""

    http = Http("POST", "/api/playbooks/graph", right=SEES, refuses=(422,))
    source: Source
    _: KW_ONLY
    layout: Annotated[bool | None, switch("1: with where steps and arcs are drawn", "0", "1", "false", "true", place="query")] = (
        None
    )


class Backfill(Request["catalog_shapes.BackfillStarted"]):
    """Run a playbook for the occurrences of its schedule in the past."""

    http = Http(
        "POST",
        f"{PATH}/backfill",
        right=STARTS,
        status=HTTPStatus.ACCEPTED,
        refuses=(409, 410, 422),
        body="AskedBackfill",
    )
    path: PlaybookPath
    begin: Annotated[str, Field("the first instant; without a zone it is of the schedule's", "from")]
    end: Annotated[str, Field("the instant before which the last one is", "to")]
    _: KW_ONLY
    version: Annotated[Version, version_of_body("of the playbook, a number or an alias; the latest by default")] = None
    trigger: Annotated[str | None, "the schedule, where the playbook has several"] = None
    parallel: Annotated[int | None, "how many run at a time, 1 by default"] = None
    again: Annotated[str | None, "another word makes another backfill of the same occurrences"] = None
    preview: Annotated[bool | None, "only say what would run"] = None


class SetAlias(Request["catalog_shapes.AboutPlaybook"]):
    """Let an alias stand for a version, or split it between some."""

    http = Http("POST", f"{PATH}/aliases", right=WRITES, refuses=(422,), body="Alias")
    path: PlaybookPath
    name: Annotated[str, Field("the alias, such as prod", filled=True)]
    _: KW_ONLY
    version: Annotated[int | None, "the version that it stands for"] = None
    weights: Annotated[
        Mapping[str, int] | None, 'the versions that it stands for, each with its weight: `{"7": 90, "8": 10}`'
    ] = None
    remove: Annotated[bool | None, "true removes the alias"] = None


class TagPlaybook(Request["catalog_shapes.AboutPlaybook"]):
    """Add and remove tags."""

    http = Http("POST", f"{PATH}/tags", right=WRITES, refuses=(422,), body="Tags")
    path: PlaybookPath
    add: Annotated[Sequence[str] | None, "tags to add"] = None
    remove: Annotated[Sequence[str] | None, "tags to remove"] = None


class UndeletePlaybook(Request["catalog_shapes.AboutPlaybook"]):
    """Let a deleted playbook start again."""

    http = Http("POST", f"{PATH}/undelete", right=WRITES)
    path: PlaybookPath


class DeletePlaybook(Request["catalog_shapes.AboutPlaybook"]):
    """Let nothing new start from a playbook; what runs goes on, and its versions stay."""

    http = Http("DELETE", PATH, right=WRITES)
    path: PlaybookPath


class AboutPlaybook(Request["catalog_shapes.AboutPlaybook"]):
    """Aliases, tags, deletion, and who changed what."""

    http = Http("GET", f"{PATH}/about", right=SEES)
    path: PlaybookPath


class ListVersions(Request["catalog_shapes.PlaybookVersions"]):
    """Versions of a playbook."""

    http = Http("GET", f"{PATH}/versions", right=SEES)
    path: PlaybookPath


class GetPlaybook(Request["catalog_shapes.PlaybookSource"]):
    """One playbook with its text."""

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
    backfill = Operation(Backfill)

    def set_alias(self, path: str, name: str, weights: Mapping[int, int] | None) -> catalog_shapes.AboutPlaybook:
        """Point an alias to versions, each with its weight; None removes it."""
        if weights is None:
            return self.call(SetAlias(path, name, remove=True))
        return self.call(SetAlias(path, name, weights={str(version): weight for version, weight in weights.items()}))
