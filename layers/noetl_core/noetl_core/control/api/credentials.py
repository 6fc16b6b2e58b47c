"""Routes of credentials: what they are called and made of; what they hold only for callers who may read secrets."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler.openapi.params import Body, Path
from pydantic import Field

from noetl_core.client import service_shapes
from noetl_core.control.api.callers import CREDENTIALS_READ, CREDENTIALS_WRITE, SECRETS
from noetl_core.control.api.parameters import JsonBody, Text, asked
from noetl_core.control.api.resolver import Resolver

Name = Annotated[str, Path(description="of the credential; it may have slashes in it")]


class Kept(JsonBody):
    """A credential."""

    name: Text = Field(description="by which playbooks refer to it", min_length=1)
    data: dict[str, Any] = Field(description="its fields", min_length=1)
    type: Text | None = Field(default=None, description="postgres, http, ...")
    description: Text | None = Field(default=None, description="for people")
    paths: list[Text] | None = Field(
        default=None,
        description="patterns of the paths of the playbooks it is for (`reports/*`), needed on a stack, where `*` is every"
        " registered playbook; elsewhere every playbook by default",
    )


def add(app: Resolver) -> None:
    """Add them."""
    operations = app.service.operations

    @app.operation(
        "GET",
        "/api/credentials",
        "Credentials, and which playbooks they are for",
        service_shapes.Credentials,
        right=CREDENTIALS_READ,
    )
    def list_credentials(prefix: Annotated[str | None, asked("that begin so")] = None) -> Any:
        return operations.credentials(prefix)

    @app.operation(
        "POST",
        "/api/credentials",
        "Keep a credential, in place of the one of that name",
        service_shapes.Credential,
        right=CREDENTIALS_WRITE,
        status=HTTPStatus.CREATED,
        refuses=(422,),
    )
    def put_credential(body: Annotated[Kept, Body()]) -> Any:
        return operations.put_credential(body.name, body.data, type=body.type, description=body.description, paths=body.paths)

    @app.operation(
        "GET",
        "/api/credentials/{name+}",
        "Type and fields of a credential, not what they hold",
        service_shapes.Credential,
        right=CREDENTIALS_READ,
    )
    def get_credential(
        name: Name,
        include_data: Annotated[
            Literal["false", "true"], asked("true: what they hold, for callers who may read secrets")
        ] = "false",
    ) -> Any:
        shown = include_data == "true"
        if shown:
            app.demand(SECRETS)
        return operations.credential(name, include_data=shown)

    @app.operation("DELETE", "/api/credentials/{name+}", "Forget a credential", service_shapes.Deleted, right=CREDENTIALS_WRITE)
    def delete_credential(name: Name) -> Any:
        return operations.delete_credential(name)
