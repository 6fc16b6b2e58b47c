"""The input `auth` of kinds that ask a service of a known form through `tools.http`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.secrets import flat, read_credential


def service_auth(call: ToolCall, own: frozenset[str]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return the input `auth` for `http`, if there is one, and all fields of the credential: those named by `own` are the kind's,
    and are not sent. Raises `BadInput`."""
    auth = call.inputs.get("auth")
    if not auth:
        return {}, {}
    if isinstance(auth, str):
        fields = read_credential(call, auth)
    elif isinstance(auth, Mapping):
        stored = read_credential(call, auth["credential"]) if isinstance(auth.get("credential"), str) else {}
        fields = {**stored, **{key: value for key, value in flat(auth).items() if key != "credential"}}
    else:
        raise BadInput("`auth` must be a credential's name or a mapping")
    sent = {key: value for key, value in fields.items() if key not in own}
    if "api_key" in sent and "type" not in sent:
        sent = {**sent, "type": "bearer", "token": sent["api_key"]}
    return ({"auth": sent} if sent.keys() - {"type"} else {}), fields
