"""Turns `auth` of an http task, a credential's name or a mapping, into headers, query parameters, a grant or a signature."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.grants import Grant
from noetl_core.tools.oauth2 import TYPES as GRANT_TYPES
from noetl_core.tools.oauth2 import grant_of, is_grant
from noetl_core.tools.secrets import flat, read_credential
from noetl_core.values.frozen import frozen

TYPES: Final = "basic, bearer, header, query, oauth2, aws"
AWS: Final = frozenset({"aws", "sigv4", "aws_sigv4"})


@frozen
class Auth:
    """The credentials that a request carries."""

    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    grant: Grant | None = None
    """The grant for the access token."""
    aws: Mapping[str, Any] | None = None
    """The credentials that sign the request for an AWS service."""


def read_auth(call: ToolCall) -> Auth:
    """Return the meaning of `auth`: a credential's name, its fields, or `{credential: name, type: ...}`. Raises `BadInput`,
    `NotFound`."""
    auth = call.inputs.get("auth")
    if not auth:
        return Auth()
    fields: dict[str, Any]
    if isinstance(auth, str):
        fields = read_credential(call, auth)
    elif isinstance(auth, Mapping):
        name = auth.get("credential")
        stored = read_credential(call, name) if isinstance(name, str) else {}
        kind = str(auth.get("type", stored.get("type", ""))).lower()
        own = auth if kind in GRANT_TYPES else flat(auth)  # a grant's `data` is the body of its request
        fields = {**stored, **{key: value for key, value in own.items() if key != "credential"}}
    else:
        raise BadInput("`auth` must be a credential's name or a mapping")
    if str(fields.get("type") or "").lower() in AWS:
        return Auth(aws=fields)
    return Auth(grant=grant_of(fields)) if is_grant(fields) else _scheme(fields)


def _scheme(fields: Mapping[str, Any]) -> Auth:
    kind = str(fields.get("type") or "").lower()
    token = fields.get("token") or fields.get("access_token") or (fields.get("value") if kind == "bearer" else None)
    password = fields.get("password")
    if kind in ("basic", "http_basic") or (not token and password is not None):
        user = fields.get("username", fields.get("user", ""))
        pair = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
        return Auth({"Authorization": f"Basic {pair}"})
    if kind in ("header", "api_key", "apikey", "query"):
        key = fields.get("value") or fields.get("api_key") or fields.get("key") or token
        name = str(fields.get("header") or fields.get("header_name") or fields.get("param") or fields.get("name") or "X-API-Key")
        if not key:
            raise BadInput(f"`auth` of type {kind} needs a `value`")
        query = kind == "query" or fields.get("in") == "query"
        return Auth(query={name: str(key)}) if query else Auth({name: str(key)})
    if token:
        return Auth({"Authorization": f"Bearer {token}"})
    raise BadInput(f"`auth` of type {kind or 'unknown'} cannot be used here: {TYPES}")
