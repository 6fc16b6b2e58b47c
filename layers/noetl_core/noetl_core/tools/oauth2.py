"""OAuth 2.0 (RFC 6749): the request for an access token, and its answer, for the grants that need no browser: client credentials,
password, and refresh token."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote_plus

from noetl_core.dsl.fields.keychain import SCOPES
from noetl_core.dsl.numbers import DELAY, BadNumber, duration
from noetl_core.engine.outcome import ErrorInfo
from noetl_core.tools.base import BadInput
from noetl_core.tools.grants import Grant, Sharing, Token, TokenRefused
from noetl_core.values.instants import SECOND

GRANTS: Final = ("client_credentials", "password", "refresh_token")
LIFETIME_S: Final = 3600.0
"""The lifetime of a token whose answer does not state one; if it is refused earlier, it is renewed then."""
LONGEST_S: Final = 366 * 24 * 3600.0
TYPES: Final = frozenset({"oauth2", "oauth"})
_FORM: Final = ("username", "password", "refresh_token", "audience", "resource")
"""Fields that are sent under their own names."""


def is_grant(fields: Mapping[str, Any]) -> bool:
    """Return whether `fields` describe an OAuth 2.0 grant rather than an existing token."""
    kind = str(fields.get("type") or "").lower()
    return kind in TYPES and not (fields.get("access_token") or fields.get("token"))


def grant_of(fields: Mapping[str, Any], what: str = "`auth`", scope: Sharing = "global") -> Grant:
    """Return the grant that the fields of a credential, of `auth` or of a keychain entry describe. `what` names them in messages;
    `scope` decides which executions share the token by default. Raises `BadInput`."""
    url = fields.get("token_url") or fields.get("endpoint") or fields.get("token_endpoint")
    if not isinstance(url, str) or not url:
        raise BadInput(f"{what} of type oauth2 needs a `token_url`: the address that gives the token")
    scope_field, allows = fields.get("scope"), fields.get("scopes")
    if scope_field in SCOPES:
        scope = scope_field
    elif scope_field:
        allows = allows or scope_field
    headers = {str(name): _text(what, f"headers.{name}", v) for name, v in _map(what, fields, "headers").items() if v is not None}
    body, as_json = _body(what, fields, allows, headers)
    return Grant(
        url,
        body,
        as_json,
        method=str(fields.get("method") or "POST").upper(),
        headers={name: value for name, value in headers.items() if name.lower() != "content-type"},
        params=_map(what, fields, "params"),
        token_field=str(fields.get("token_field") or "access_token"),
        expires_field=str(fields.get("expires_field") or "expires_in"),
        scope=scope,
        renew=fields.get("auto_renew", True) is not False,
        ttl_s=_seconds(what, fields.get("ttl")),
    )


def _body(what: str, fields: Mapping[str, Any], allows: Any, headers: dict[str, str]) -> tuple[dict[str, Any] | None, bool]:
    """Return the fields of the request's body, and whether they are sent as JSON. The client's identity may go into `headers`."""
    written = "json" if "json" in fields else "data" if "data" in fields else None
    body: dict[str, Any] = {} if written is None else dict(_map(what, fields, written))
    as_json = written == "json" or any(n.lower() == "content-type" and "json" in v.lower() for n, v in headers.items())
    added = {name: _text(what, name, fields[name]) for name in _FORM if fields.get(name) not in (None, "")}
    if allows:
        added["scope"] = " ".join(map(str, allows)) if isinstance(allows, list | tuple) else _text(what, "scopes", allows)
    body = {**added, **{str(name): value for name, value in body.items() if value is not None}}
    if "grant_type" not in body and (written is None or "grant_type" in fields):
        body["grant_type"] = _grant_type(what, fields, body)
    _client(what, fields, body, headers, written)
    return body or None, as_json


def _grant_type(what: str, fields: Mapping[str, Any], body: Mapping[str, Any]) -> str:
    grant_type = str(fields.get("grant_type") or "")
    if not grant_type:
        grant_type = "refresh_token" if "refresh_token" in body else "password" if "username" in body else "client_credentials"
    if grant_type not in GRANTS and ":" not in grant_type:  # extension grants are named by URIs
        raise BadInput(f"`grant_type` {grant_type[:40]!r} of {what} is unknown: {', '.join(GRANTS)}")
    for name in {"refresh_token": ("refresh_token",), "password": ("username", "password")}.get(grant_type, ()):
        if name not in body:
            raise BadInput(f"{what} of type oauth2 with grant {grant_type} needs `{name}`")
    return grant_type


def _client(what: str, fields: Mapping[str, Any], body: dict[str, Any], headers: dict[str, str], written: str | None) -> None:
    """Add the client's identity, in the body or in `Authorization` (RFC 6749 2.3.1)."""
    client, secret = fields.get("client_id"), fields.get("client_secret")
    if client in (None, ""):
        if (
            written is None
            and body.get("grant_type") == "client_credentials"
            and not any(n.lower() == "authorization" for n in headers)
        ):
            raise BadInput(f"{what} of type oauth2 needs `client_id` and `client_secret`")
        return
    how = str(fields.get("client_auth") or "body")
    if how not in ("basic", "body"):
        raise BadInput(f"`client_auth` {how[:40]!r} of {what} is unknown: body, basic")
    identity = {"client_id": _text(what, "client_id", client)}
    if secret not in (None, ""):
        identity["client_secret"] = _text(what, "client_secret", secret)
    if how == "basic" and "client_secret" in identity:
        pair = ":".join(map(quote_plus, identity.values()))
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        return
    for name, value in identity.items():
        body.setdefault(name, value)


def _map(what: str, fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = fields.get(name) or {}
    if not isinstance(value, Mapping):
        raise BadInput(f"`{name}` of {what} must be a mapping, not {type(value).__name__}")
    return value


def _text(what: str, name: str, value: Any) -> str:
    if isinstance(value, Mapping | list | tuple | bytes):
        raise BadInput(f"`{name}` of {what} must be text, not {type(value).__name__}")
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _seconds(what: str, ttl: Any) -> float | None:
    if ttl is None:
        return None
    try:
        return duration(ttl, DELAY, f"ttl of {what}")
    except BadNumber as error:
        raise BadInput(str(error)) from error


def token_of(data: Any, grant: Grant, refresh_token: str | None, now: int) -> Token:
    """Return the token of an answer. Raises `TokenRefused`."""
    value = _at(data, grant.token_field)
    if not isinstance(value, str) or not value:
        contents = f"it has {', '.join(sorted(map(str, data))[:10])}" if isinstance(data, dict) else "it is not a JSON object"
        message = f"no access token: the answer of {grant.url} has no `{grant.token_field}`: {contents}"
        raise TokenRefused(ErrorInfo("parse", message, False))
    fields = {**data, "access_token": value}
    if "refresh_token" not in fields and refresh_token is not None:
        fields["refresh_token"] = refresh_token
    return Token(fields, now, now + int(_lifetime(_at(data, grant.expires_field), grant) * SECOND), own=True)


def _lifetime(expires_in: Any, grant: Grant) -> float:
    """Return for how many seconds a token is used."""
    try:
        seconds = float(expires_in) if not isinstance(expires_in, bool) else None
    except (TypeError, ValueError):
        seconds = None
    if seconds is None or seconds != seconds:
        return LIFETIME_S if grant.ttl_s is None else grant.ttl_s
    seconds = min(max(seconds, 0.0), LONGEST_S)
    return seconds if grant.ttl_s is None else min(seconds, grant.ttl_s)


def _at(data: Any, path: str) -> Any:
    """Return the value at a dotted path of names."""
    for name in path.split("."):
        data = data.get(name) if isinstance(data, dict) else None
    return data
