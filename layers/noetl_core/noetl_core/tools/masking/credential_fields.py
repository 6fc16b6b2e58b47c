"""The fields of credentials that are addresses and names, not secrets: templates, results and logs show them (docs/access.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl_core.expr import Secret

COMMON: Final = frozenset(
    [
        "type",
        "kind",
        "name",
        "description",
        "tags",
        "host",
        "hostname",
        "db_host",
        "db_port",
        "db_user",
        "db_username",
        "db_name",
        "port",
        "user",
        "username",
        "login",
        "region",
        "endpoint",
        "base_url",
        "scheme",
        "provider",
        "project",
        "service",
        "db_host",
        "db_port",
        "db_user",
        "db_name",
    ]
)
"""Fields that are public in credentials of every kind."""

_DATABASE: Final = frozenset(["hostaddr", "dbname", "database", "schema", "sslmode", "driver"])
_HEADER: Final = frozenset(["in", "header", "header_name"])
_MODEL: Final = frozenset(["model", "price"])
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
BY_KIND: Final[Mapping[str, frozenset[str]]] = {
    "postgres": _DATABASE,
    "snowflake": _DATABASE | {"account", "warehouse", "role_name"},
    "basic": _MODEL,
    "bearer": _MODEL | _HEADER,
    "api_key": _MODEL | _HEADER,
    "header": _MODEL | _HEADER,
    "oauth2": _MODEL
    | frozenset(
        [
            "token_url",
            "token_endpoint",
            "client_id",
            "grant_type",
            "client_auth",
            "scope",
            "scopes",
            "audience",
            "method",
            "token_field",
            "expires_field",
        ]
    ),
    "aws": frozenset({"account", "role_name"}),
}
"""Further fields that are public in credentials of one kind."""

ALL: Final = COMMON.union(*BY_KIND.values())
"""The fields that are public in a credential whose kind is unknown."""


def public_fields(kind: Any) -> frozenset[str]:
    """Return the names of the fields that are not secret in a credential of type `kind`."""
    own = BY_KIND.get(kind) if isinstance(kind, str) else None
    return ALL if own is None else COMMON | own


def wrapped(fields: Mapping[str, Any], public: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return `fields` with every value a `Secret`, except those of the names in `public`."""
    return {name: value if name in public and type(value) in _PLAIN else Secret(value) for name, value in fields.items()}
