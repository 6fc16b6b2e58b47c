"""Routes of the catalog."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler.openapi.params import Body
from pydantic import Field

from noetl_core import strict_json
from noetl_core.client import catalog_shapes, view_shapes
from noetl_core.control.api.callers import SEES, STARTS, WRITES, name_of
from noetl_core.control.api.parameters import Flag, JsonBody, PlaybookPath, Switch, Text, VersionNumber, Whole, asked, on
from noetl_core.control.api.reading import body_text
from noetl_core.control.api.resolver import Resolver
from noetl_core.control.catalog_operations import SOURCE
from noetl_core.control.refusals import BadRequest
from noetl_core.dsl.versions import BadVersion, version_of

TEXT = "A playbook as YAML or JSON, or `{playbook: text}`"
BODY = {
    "requestBody": {
        "required": True,
        "description": TEXT,
        "content": {"application/yaml": {"schema": {"type": "string"}}, "application/json": {"schema": {"type": "object"}}},
    }
}


class Alias(JsonBody):
    """What an alias stands for: `version`, or `weights`; or that it is removed."""

    name: Text = Field(description="the alias, such as prod", min_length=1)
    version: Whole | None = Field(default=None, description="the version that it stands for")
    weights: dict[str, Whole] | None = Field(
        default=None, description='the versions that it stands for, each with its weight: `{"7": 90, "8": 10}`'
    )
    remove: Flag | None = Field(default=None, description="true removes the alias")

    def stands_for(self) -> dict[int, int] | None:
        """Return the weights; None: the alias is removed. Raises `BadRequest`."""
        said = [name for name in ("version", "weights", "remove") if getattr(self, name) not in (None, False)]
        if len(said) != 1:
            raise BadRequest("an alias stands for a version, or for weights, or is removed", "body", "give one of the three")
        if self.weights is not None:
            try:
                return {whole(version): weight for version, weight in self.weights.items()}
            except BadVersion as error:
                raise BadRequest(str(error), "body.weights") from None
        return None if self.version is None else {self.version: 1}


class AskedBackfill(JsonBody):
    """Which occurrences to run."""

    begin: Text = Field(alias="from", description="the first instant; without a zone it is of the schedule's")
    end: Text = Field(alias="to", description="the instant before which the last one is")
    version: VersionNumber | None = Field(
        default=None, description="of the playbook, a number or an alias; the latest by default"
    )
    trigger: Text | None = Field(default=None, description="the schedule, where the playbook has several")
    parallel: Whole | None = Field(default=None, description="how many run at a time, 1 by default")
    again: Text | None = Field(default=None, description="another word makes another backfill of the same occurrences")
    preview: Flag | None = Field(default=None, description="only say what would run")


class Tags(JsonBody):
    """Which tags to add and to remove."""

    add: list[Text] | None = Field(default=None, description="tags to add")
    remove: list[Text] | None = Field(default=None, description="tags to remove")


def whole(version: str) -> int:
    """Return the number of a version. Raises `BadVersion`."""
    number = version_of(version)
    if not isinstance(number, int):
        raise BadVersion(f"{version[:80]!r} is no number of a version")
    return number


def source(text: str) -> tuple[str, str]:
    """A playbook's text, and what it is called in diagnostics: the body itself (YAML or JSON), or `{"playbook": "..."}`."""
    try:
        value = strict_json.loads(text)
    except ValueError:  # the reader of playbooks says what is wrong with it
        return text, SOURCE
    if isinstance(value, dict) and isinstance(value.get("playbook"), str) and len(value) == 1:
        return value["playbook"], "<body.playbook>"
    return text, SOURCE


def add(app: Resolver) -> None:
    """Add them."""
    operations = app.service.operations

    @app.operation(
        "POST",
        "/api/playbooks",
        f"Register. {TEXT}",
        catalog_shapes.RegisteredPlaybook,
        right=WRITES,
        status=HTTPStatus.CREATED,
        refuses=(410, 422),
        extensions=BODY,
    )
    def register_playbook() -> Any:
        return operations.register(*source(body_text(app.current_event)))

    @app.operation("GET", "/api/playbooks", "Registered playbooks", catalog_shapes.Playbooks, right=SEES)
    def list_playbooks(
        prefix: Annotated[str | None, asked("whose path begins so")] = None,
        tag: Annotated[str | None, asked("that have this tag")] = None,
        deleted: Annotated[Literal["false", "true"], asked("true: those that are deleted")] = "false",
    ) -> Any:
        return operations.playbooks(prefix, tag=tag, deleted=deleted == "true")

    @app.operation(
        "POST",
        "/api/playbooks/validate",
        f"Validate. {TEXT}",
        {HTTPStatus.OK: catalog_shapes.Validation, HTTPStatus.UNPROCESSABLE_ENTITY: catalog_shapes.Validation},
        right=SEES,
        extensions=BODY,
    )
    def validate_playbook() -> Any:
        found = operations.validate(source(body_text(app.current_event))[0])
        return found, HTTPStatus.OK if found["valid"] else HTTPStatus.UNPROCESSABLE_ENTITY

    @app.operation(
        "POST",
        "/api/playbooks/graph",
        f"Steps and arcs of a text, as they would be drawn. {TEXT}",
        view_shapes.PlaybookGraph,
        right=SEES,
        refuses=(422,),
        extensions=BODY,
    )
    def graph_playbook(layout: Annotated[Switch, asked("1: with where steps and arcs are drawn")] = "0") -> Any:
        return operations.playbook_graph(source(body_text(app.current_event))[0], layout=on(layout))

    @app.operation(
        "POST",
        "/api/playbooks/{path+}/backfill",
        "Run a playbook for the occurrences of its schedule in the past",
        catalog_shapes.BackfillStarted,
        right=STARTS,
        status=HTTPStatus.ACCEPTED,
        refuses=(409, 410, 422),
    )
    def backfill(path: PlaybookPath, body: Annotated[AskedBackfill, Body()]) -> Any:
        return operations.backfill(
            path,
            body.begin,
            body.end,
            version=body.version,
            trigger=body.trigger,
            parallel=body.parallel,
            again=body.again,
            preview=body.preview,
        )

    @app.operation(
        "POST",
        "/api/playbooks/{path+}/aliases",
        "Let an alias stand for a version, or split it between some",
        catalog_shapes.AboutPlaybook,
        right=WRITES,
        refuses=(422,),
    )
    def set_alias(path: PlaybookPath, body: Annotated[Alias, Body()]) -> Any:
        return operations.set_alias(path, body.name, body.stands_for(), by=name_of(app.caller))

    @app.operation(
        "POST", "/api/playbooks/{path+}/tags", "Add and remove tags", catalog_shapes.AboutPlaybook, right=WRITES, refuses=(422,)
    )
    def tag_playbook(path: PlaybookPath, body: Annotated[Tags, Body()]) -> Any:
        return operations.tag_playbook(path, body.add or (), body.remove or (), by=name_of(app.caller))

    @app.operation(
        "POST",
        "/api/playbooks/{path+}/undelete",
        "Let a deleted playbook start again",
        catalog_shapes.AboutPlaybook,
        right=WRITES,
    )
    def undelete_playbook(path: PlaybookPath) -> Any:
        return operations.undelete_playbook(path, by=name_of(app.caller))

    @app.operation(
        "DELETE",
        "/api/playbooks/{path+}",
        "Let nothing new start from a playbook; what runs goes on, and its versions stay",
        catalog_shapes.AboutPlaybook,
        right=WRITES,
    )
    def delete_playbook(path: PlaybookPath) -> Any:
        return operations.delete_playbook(path, by=name_of(app.caller))

    @app.operation(
        "GET",
        "/api/playbooks/{path+}/about",
        "Aliases, tags, deletion, and who changed what",
        catalog_shapes.AboutPlaybook,
        right=SEES,
    )
    def about_playbook(path: PlaybookPath) -> Any:
        return operations.about_playbook(path)

    @app.operation(
        "GET", "/api/playbooks/{path+}/versions", "Versions of a playbook", catalog_shapes.PlaybookVersions, right=SEES
    )
    def list_versions(path: PlaybookPath) -> Any:
        return operations.playbook_versions(path)

    @app.operation("GET", "/api/playbooks/{path+}", "One playbook with its text", catalog_shapes.PlaybookSource, right=SEES)
    def get_playbook(
        path: PlaybookPath, version: Annotated[str | None, asked("a number or an alias, the latest by default")] = None
    ) -> Any:
        return operations.playbook(path, version)
