"""Reads the input `auth`, user and account, as arguments of the connector."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.secrets import flat, read_credential

_ACCOUNT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
"""An account is a part of a host's name below snowflakecomputing.com: nothing else can be reached by it."""
_NAMES: Final = ("role", "warehouse", "database", "schema")
_TOKENS: Final = ("oauth", "programmatic_access_token")
KNOWN: Final = frozenset(
    {"type", "account", "user", "password", "private_key", "private_key_passphrase", "token", "authenticator", *_NAMES}
)


def arguments(call: ToolCall) -> dict[str, Any]:
    """Return what `snowflake.connector.connect` is called with. Raises `BadInput`, `NotFound`."""
    fields = _fields(call)
    account, user = fields.get("account"), fields.get("user")
    if not isinstance(account, str) or not _ACCOUNT.fullmatch(account):
        raise BadInput("`auth` needs `account`, the name of a Snowflake account such as myorg-account")
    settings = {name: call.inputs.get(name) or fields.get(name) for name in _NAMES}
    for name, value in settings.items():
        if value is not None and not isinstance(value, str):
            raise BadInput(f"`{name}` must be a name")
    proof = _proof(fields)
    if user is not None or "token" not in proof:  # a token names its user
        if not isinstance(user, str) or not user:
            raise BadInput("`auth` needs `user`")
        settings["user"] = user
    return {"account": account, **proof, **{name: value for name, value in settings.items() if value}}


def _fields(call: ToolCall) -> Mapping[str, Any]:
    auth = call.inputs.get("auth")
    if auth is None:
        raise BadInput("`auth` must be the name of a credential, or its fields")
    if isinstance(auth, str):
        fields = read_credential(call, auth)
    elif isinstance(auth, Mapping):
        stored = read_credential(call, auth["credential"]) if isinstance(auth.get("credential"), str) else {}
        fields = {**stored, **{key: value for key, value in flat(auth).items() if key != "credential"}}
    else:
        raise BadInput("`auth` must be the name of a credential, or a mapping of its fields")
    strange = sorted(set(fields) - KNOWN)
    if strange:
        raise BadInput(f"the credential has an unknown field `{strange[0]}`: known are {', '.join(sorted(KNOWN))}")
    return fields


def _proof(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return by what Snowflake knows the user: a password, a key, or a token."""
    there = [name for name in ("password", "private_key", "token") if fields.get(name)]
    if len(there) != 1:
        raise BadInput("`auth` needs one of `password`, `private_key` (PEM) and `token`")
    word, value = there[0], str(fields[there[0]])
    authenticator = str(fields.get("authenticator") or "").lower()
    if word == "token":
        if authenticator not in ("", *_TOKENS):
            raise BadInput(f"`authenticator` of a token is {' or '.join(_TOKENS)}")
        return {"token": value, "authenticator": authenticator.upper() if authenticator == _TOKENS[1] else _TOKENS[0]}
    if authenticator not in ("", "snowflake", "snowflake_jwt"):
        raise BadInput("`authenticator` must be left out with a password or a key: nobody is there to answer a browser")
    return {"password": value} if word == "password" else {"private_key": _key(value, fields.get("private_key_passphrase"))}


def _key(pem: str, passphrase: Any) -> bytes:
    """Return a private key as the connector takes it."""
    try:
        key = load_pem_private_key(pem.encode(), None if passphrase is None else str(passphrase).encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadInput("`private_key` must be a private key in PEM, with its `private_key_passphrase` if it has one") from None
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
