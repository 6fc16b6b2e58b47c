"""`kind: secrets`: returns the fields of a credential to the tasks that follow (docs/access.md).

Every value of the result is an `expr.Secret`, except addresses and names (`credential_fields`): templates may read and combine
it; the log and every answer show `***`; the worker seals it when the run is suspended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core.engine.outcome import Outcome
from noetl_core.ports import NotFound
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.masking.credential_fields import public_fields, wrapped


class SecretsTool:
    """Inputs `secret` (the credential's name) and `field` (one field: the result is that value alone)."""

    kind = "secrets"
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        name = call.inputs.get("secret")
        if not isinstance(name, str) or not name:
            raise BadInput("`secret` must be the name of a credential")
        fields = read_credential(call, name)
        field = call.inputs.get("field")
        if field is None:
            return Outcome.ok(wrapped(fields, public_fields(fields.get("type"))))
        if field not in fields:
            return Outcome.failed("not_found", f"credential {name!r} has no field {field!r}: it has {', '.join(sorted(fields))}")
        return Outcome.ok(wrapped(fields, public_fields(fields.get("type")))[field])


def read_credential(call: ToolCall, name: str) -> dict[str, Any]:
    """Return the fields of credential `name`, flat: `{type, data: {...}}` gives the fields of `data`, and `type`.

    Raises `BadInput` if credentials are not available, `NotFound` for an unknown name.
    """
    if call.secrets is None:
        raise BadInput(f"credential {name!r} cannot be read here: this worker has no access to credentials")
    try:
        stored = call.secrets(name)
    except KeyError as error:
        raise NotFound(f"there is no credential {name!r}: add it with `noetl credentials`") from error
    return flat(stored)


def flat(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a credential on one level, including `type`."""
    data = stored.get("data")
    if not isinstance(data, Mapping):
        return dict(stored)
    kind = {"type": stored["type"]} if "type" in stored else {}
    return {**kind, **data}
