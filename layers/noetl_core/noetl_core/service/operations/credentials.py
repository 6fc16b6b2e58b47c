"""Answers requests about credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl_core.api.requests.credentials import DeleteCredential, GetCredential, ListCredentials, PutCredential
from noetl_core.control import credentials
from noetl_core.service.operations.base import Operations

if TYPE_CHECKING:
    from noetl_core.api.shapes.service import Credential, Credentials, Deleted


@ListCredentials.answered
def list_credentials(on: Operations, request: ListCredentials) -> Credentials:
    return {"credentials": credentials.listed(on.secrets(), request.prefix or "")}


@GetCredential.answered
def get_credential(on: Operations, request: GetCredential) -> Credential:
    return credentials.one(on.secrets(), request.name, include_data=bool(request.include_data))


@PutCredential.answered
def put_credential(on: Operations, request: PutCredential) -> Credential:
    if request.paths is None and on.paths_required:
        raise credentials.without_paths(request.name)
    return credentials.put(
        on.secrets(),
        request.name,
        request.data,
        type=request.type,
        description=request.description,
        paths=request.paths,
        by=on.by(),
    )


@DeleteCredential.answered
def delete_credential(on: Operations, request: DeleteCredential) -> Deleted:
    return credentials.delete(on.secrets(), request.name)
