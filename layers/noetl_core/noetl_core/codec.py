"""Commits and commands as bytes: one compact JSON body per commit, read back by the version that wrote it or a newer one."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from noetl_core.engine.records import LOG_VERSION, Command, Event
from noetl_core.ports import CorruptLog

DEFLATED = b"\x78"
"""First byte of a zlib stream; a JSON body begins with `[`."""

_encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def encode_events(events: tuple[Event, ...], *, compress: bool = False) -> bytes:
    """The body of a commit. A result that a `TaskProcessed` of the same commit holds is stored once (DESIGN section 4.5)."""
    rows = [[e.name, e.ts, e.data] for e in events]
    if len(events) > 1 and events[-1].name == "StepDone":
        rows[-1][2] = _pointed(events)
    body = _encoder.encode(rows).encode()
    if compress:
        packed = zlib.compress(body, 6)
        if len(packed) < len(body):
            return packed
    return body


def _pointed(events: tuple[Event, ...]) -> Mapping[str, Any]:
    data = events[-1].data
    result = data.get("result")
    if result is None:
        return data
    for index in range(len(events) - 2, -1, -1):
        event = events[index]
        if event.name == "TaskProcessed":
            held = event.data["outcome"].get("result")
            if held is result or held == result:
                return {**{k: v for k, v in data.items() if k != "result"}, "result_from": index}
            break
    return data


def decode_events(body: bytes, v: int) -> tuple[Event, ...]:
    """The events of a body. Raises `CorruptLog` for an unknown version or a body that does not read."""
    if v > LOG_VERSION:
        raise CorruptLog(f"a commit asks for reader version {v}, this one is {LOG_VERSION}: deploy the newer code")
    try:
        rows = json.loads(zlib.decompress(body) if body[:1] == DEFLATED else body)
        events = [Event(name, ts, data) for name, ts, data in rows]
        if events and "result_from" in events[-1].data:
            data = dict(events[-1].data)
            data["result"] = events[data.pop("result_from")].data["outcome"]["result"]
            events[-1] = Event(events[-1].name, events[-1].ts, data)
    except (ValueError, zlib.error, TypeError, KeyError, IndexError) as error:
        raise CorruptLog(f"a commit's body does not read: {error}") from error
    return tuple(events)


_DEFAULTS: Mapping[str, Any] = {"pool": "default", "chunk": None, "loop": None, "mail": (), "context": None, "expires_at": 0}


def encode_command(command: Command) -> str:
    """A command as a queue message."""
    fields = {name: getattr(command, name) for name in Command.__slots__}
    return _encoder.encode({k: v for k, v in fields.items() if k not in _DEFAULTS or v != _DEFAULTS[k]})


def decode_command(message: str | bytes) -> Command:
    """A queue message as a command. Raises `ValueError` for anything else."""
    try:
        fields = json.loads(message)
        return Command(**{**fields, "mail": tuple(fields.get("mail", ()))})
    except (TypeError, AttributeError) as error:
        raise ValueError(f"not a command: {error}") from error
