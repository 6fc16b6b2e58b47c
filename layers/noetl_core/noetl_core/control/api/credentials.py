"""Routes of credentials: what they are called and made of; what they hold only for callers who may read secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from noetl_core.control.api.call import BadRequest, Call, Field, NoRoute, Route
from noetl_core.control.api.callers import SECRETS
from noetl_core.ports import NotFound, Secrets

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@=+-]{0,127}(/[A-Za-z0-9][A-Za-z0-9_.@=+-]{0,127}){0,3}")
MAX_BYTES = 60_000
"""Of a credential; Secrets Manager takes 65,536."""


def listed(call: Call) -> dict[str, Any]:
    prefix = call.argument("prefix") or ""
    return {"credentials": [_listed(call, name) for name in _secrets(call).names() if name.startswith(prefix)]}


def _listed(call: Call, name: str) -> dict[str, Any]:
    try:
        return _metadata(name, _secrets(call).get(name))
    except NotFound:  # something else under the prefix, or gone meanwhile
        return {"name": name}


def put(call: Call) -> dict[str, Any]:
    body = call.object()
    name = _name(body["name"], "body.name")
    if not body["data"]:
        raise BadRequest("data is empty", "body.data", "give the credential's fields: {user: ..., password: ...}")
    paths = body.get("paths")
    if paths is not None and not (paths and all(isinstance(p, str) and p for p in paths)):
        raise BadRequest(
            "paths are patterns of playbook paths: texts, one at least", "body.paths", "leave it out: every playbook"
        )
    value: dict[str, Any] = {k: body[k] for k in ("type", "description", "data", "paths") if k in body}
    if len(repr(value)) > MAX_BYTES:
        raise BadRequest(f"a credential holds {MAX_BYTES} bytes at most", "body.data")
    _secrets(call).put(name, value)
    return _metadata(name, value)


def one(call: Call) -> dict[str, Any]:
    """Its metadata; with `include_data=true` its fields too, for those who may read secrets."""
    name = _known(call)
    shown = call.choice("include_data", ("false", "true")) == "true"
    if shown:
        call.demand(SECRETS)
    value = _secrets(call).get(name)
    return {**_metadata(name, value), **({"data": _data(value)} if shown else {})}


def delete(call: Call) -> dict[str, Any]:
    name = _known(call)
    _secrets(call).get(name)
    _secrets(call).delete(name)
    return {"name": name, "deleted": True}


def _secrets(call: Call) -> Secrets:
    if call.service.secrets is None:
        raise NoRoute("credentials are not served here")
    return call.service.secrets()


def _name(text: str, where: str) -> str:
    if not NAME.fullmatch(text):
        raise BadRequest(
            f"{text[:60]!r} is no name of a credential",
            where,
            "letters, digits and _ . @ = + -, in up to four parts divided by /",
        )
    return text


def _known(call: Call) -> str:
    """The name in the path; what can be no name is no credential's."""
    name = call.params["name"]
    if not NAME.fullmatch(name):
        raise NotFound(f"there is no credential {name[:60]!r}")
    return name


def _data(value: Mapping[str, Any]) -> Any:
    return value["data"] if isinstance(value.get("data"), Mapping) else value


def _metadata(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    wrapped = isinstance(value.get("data"), Mapping)
    facts = {k: value[k] for k in ("type", "description") if wrapped and k in value}
    return {"name": name, **facts, "fields": sorted(map(str, _data(value))), "paths": value.get("paths")}


ROUTES = (
    Route(
        "GET",
        "/api/credentials",
        "Credentials, and which playbooks they are for",
        listed,
        query={"prefix": "that begin so"},
        right="credentials:read",
    ),
    Route(
        "POST",
        "/api/credentials",
        "Keep a credential, in place of the one of that name",
        put,
        HTTPStatus.CREATED,
        body={
            "name": Field(str, "by which playbooks refer to it", required=True),
            "data": Field(dict, "its fields", required=True),
            "type": Field(str, "postgres, http, ..."),
            "description": Field(str, "for people"),
            "paths": Field(list, "patterns of the paths of the playbooks it is for (`reports/*`); every playbook by default"),
        },
        right="credentials:write",
    ),
    Route(
        "GET",
        "/api/credentials/{name+}",
        "Type and fields of a credential, not what they hold",
        one,
        query={"include_data": "true: what they hold, for callers who may read secrets"},
        refuses=(403,),
        right="credentials:read",
    ),
    Route("DELETE", "/api/credentials/{name+}", "Forget a credential", delete, right="credentials:write"),
)
