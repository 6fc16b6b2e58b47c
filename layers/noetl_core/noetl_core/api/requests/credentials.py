"""Operations on credentials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from noetl_core.api.fields import Field, switch
from noetl_core.api.request import Caller, Http, Operation, Request
from noetl_core.api.rights import CREDENTIALS_READ, CREDENTIALS_WRITE, SECRETS

if TYPE_CHECKING:
    from noetl_core.api.shapes import service as service_shapes

NAME = "/api/credentials/{name+}"
Name = Annotated[str, "of the credential; it may have slashes in it"]


class ListCredentials(Request["service_shapes.Credentials"]):
    """Credentials, and the playbooks that may use them."""

    http = Http("GET", "/api/credentials", right=CREDENTIALS_READ)
    prefix: Annotated[str | None, "only names with this prefix"] = None


class PutCredential(Request["service_shapes.Credential"]):
    """Store a credential; an existing one of that name is replaced."""

    http = Http("POST", "/api/credentials", right=CREDENTIALS_WRITE, status=HTTPStatus.CREATED, refuses=(422,), body="Kept")
    name: Annotated[str, Field("its name in playbooks", filled=True)]
    data: Annotated[Mapping[str, Any], Field("its fields", filled=True)]
    _: KW_ONLY
    type: Annotated[str | None, "postgres, http, ..."] = None
    description: Annotated[str | None, "for people"] = None
    paths: Annotated[
        Sequence[str] | None,
        "patterns of the paths of playbooks that may use it (`reports/*`); required on a stack, where `*` is every registered"
        " playbook; elsewhere every playbook by default",
    ] = None


class GetCredential(Request["service_shapes.Credential"]):
    """Type and fields of a credential, not their values."""

    http = Http("GET", NAME, right=CREDENTIALS_READ)
    name: Name
    _: KW_ONLY
    include_data: Annotated[bool | None, switch("true: include the values, for callers who may read secrets")] = None

    def also_needs(self) -> Iterator[str]:
        if self.include_data:
            yield SECRETS


class DeleteCredential(Request["service_shapes.Deleted"]):
    """Delete a credential."""

    http = Http("DELETE", NAME, right=CREDENTIALS_WRITE)
    name: Name


class CredentialsApi(Caller):
    """Methods on credentials."""

    credentials = Operation(ListCredentials)
    credential = Operation(GetCredential)
    put_credential = Operation(PutCredential)
    delete_credential = Operation(DeleteCredential)
