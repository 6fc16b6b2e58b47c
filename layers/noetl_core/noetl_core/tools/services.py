"""Shared by kinds that call a service of a known protocol through `tools.http.tool`: the base class, and the input `auth`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.calls.event_loop import EventLoop
from noetl_core.tools.http.tool import HttpTool
from noetl_core.tools.secrets import flat, read_credential


class ServiceTool(ABC):
    """An `EventedTool` whose requests are calls of the kind `http`."""

    inline = False

    def __init__(self, http: HttpTool | None = None) -> None:
        self._http = http or HttpTool()

    def run(self, call: ToolCall) -> Outcome:
        with EventLoop() as loop:
            return loop.run(self.answer(call, loop), call.cancelled)

    @abstractmethod
    async def answer(self, call: ToolCall, loop: EventLoop) -> Outcome:
        """Do the work of `run` concurrently with others on `loop`."""

    def close(self) -> None:
        """Close kept connections."""
        self._http.close()


def service_auth(call: ToolCall, own: frozenset[str]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return the input `auth` for `http`, if any, and all fields of the credential. The fields `own` belong to the kind and are
    not sent. Raises `BadInput`."""
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
