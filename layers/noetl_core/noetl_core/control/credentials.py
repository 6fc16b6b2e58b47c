"""Shows credentials through the API: names and metadata, values only to callers who may read them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from noetl_core.api.refused import BadRequest
from noetl_core.control.refusals import PathsMissing
from noetl_core.ports import NotFound, Secrets

if TYPE_CHECKING:
    from noetl_core.api.shapes.service import Credential, Deleted
    from noetl_core.events.shapes import By

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@=+-]{0,127}(/[A-Za-z0-9][A-Za-z0-9_.@=+-]{0,127}){0,3}")
MAX_BYTES = 60_000
"""Maximum size of a credential in bytes; Secrets Manager takes 65,536."""


def listed(secrets: Secrets, prefix: str = "") -> list[Credential]:
    """Return the credentials whose names begin with `prefix`, without their fields."""
    return [_listed(secrets, name) for name in secrets.names() if name.startswith(prefix)]


def _listed(secrets: Secrets, name: str) -> Credential:
    try:
        return _metadata(name, secrets.get(name))
    except NotFound:  # not a credential, or deleted in the meantime
        return {"name": name}


def put(
    secrets: Secrets,
    name: str,
    data: Mapping[str, Any],
    *,
    type: str | None = None,
    description: str | None = None,
    paths: Sequence[str] | None = None,
    by: By | None = None,
) -> Credential:
    """Store a credential; an existing one of that name is replaced. Raises `BadRequest`."""
    if not NAME.fullmatch(name):
        hint = "letters, digits and _ . @ = + -, in up to four parts divided by /"
        raise BadRequest(f"{name[:60]!r} is not a valid credential name", "body.name", hint)
    if not data:
        raise BadRequest("data is empty", "body.data", "give the credential's fields: {user: ..., password: ...}")
    if paths is not None and not (paths and all(isinstance(p, str) and p for p in paths)):
        raise BadRequest(
            "paths must be a list of at least one pattern of playbook paths",
            "body.paths",
            "without paths, every playbook may use the credential",
        )
    fields = {"type": type, "description": description, "data": data, "paths": paths, "by": by}
    value = {k: v for k, v in fields.items() if v is not None}
    if len(repr(value)) > MAX_BYTES:
        raise BadRequest(f"a credential has at most {MAX_BYTES} bytes", "body.data")
    secrets.put(name, value)
    return _metadata(name, value)


def without_paths(name: str) -> PathsMissing:
    """Return the error for a credential that does not name the playbooks that may use it."""
    message = f"credential {name[:60]!r} does not name the playbooks that may use it; a stack requires this"
    return PathsMissing(message, "body.paths", "--paths 'team/*' (paths: [\"team/*\"]); --paths '*': every registered playbook")


def one(secrets: Secrets, name: str, *, include_data: bool = False) -> Credential:
    """Return the metadata of a credential; with `include_data`, its fields too. Raises `NotFound`."""
    value = secrets.get(_known(name))
    view = _metadata(name, value)
    if include_data:
        view["data"] = _data(value)
    return view


def delete(secrets: Secrets, name: str) -> Deleted:
    """Delete a credential. Raises `NotFound`."""
    secrets.get(_known(name))
    secrets.delete(name)
    return {"name": name, "deleted": True}


def _known(name: str) -> str:
    """Return the name. Raises `NotFound` for an invalid one."""
    if not NAME.fullmatch(name):
        raise NotFound(f"there is no credential {name[:60]!r}")
    return name


def _data(value: Mapping[str, Any]) -> Any:
    return value["data"] if isinstance(value.get("data"), Mapping) else value


def _metadata(name: str, value: Mapping[str, Any]) -> Credential:
    wrapped = isinstance(value.get("data"), Mapping)
    facts = {k: value[k] for k in ("type", "description") if wrapped and k in value}
    view = {"name": name, **facts, "fields": sorted(map(str, _data(value))), "paths": value.get("paths")}
    if wrapped and "by" in value:
        view["by"] = value["by"]
    return cast("Credential", view)
