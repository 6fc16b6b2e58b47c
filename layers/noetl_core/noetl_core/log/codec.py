"""Encodes commits and commands: one compact JSON body per commit, which the version that wrote it and newer versions can read."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, cast

from noetl_core.engine.records import LOG_VERSION, AnyEvent, Ask, Command, Event, LoopProgress
from noetl_core.events.upcasts import upcasts_from
from noetl_core.ports import CorruptLog, NewerLog, TooLarge

DEFLATED = b"\x78"
"""First byte of a zlib stream; a JSON body begins with `[`."""

LEVEL = 6
"""The zlib level. The commits of a step (300-800 bytes of JSON) pack to 300 bytes in 10 us at any level. For the large
commits of a loop, level 6 saves a write unit in ten over level 1 and costs 40 us more; level 9 saves nothing over 6 and takes
twice the time."""

_encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False)
"""Data that contains itself ends at the nesting limit, so the encoder need not check for cycles."""
_message_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
"""ASCII only: SQS rejects messages with some characters that JSON text may contain (U+FFFF, halves of surrogate pairs)."""


def encode_progress(progress: LoopProgress) -> str:
    """Return the progress of a loop as a store keeps it beside a commit."""
    return _encoder.encode([progress.stated, progress.ended, progress.failed, progress.total])


def decode_progress(text: str) -> LoopProgress:
    """Return the progress of a loop from its stored form. Later versions may add values. Raises `ValueError`."""
    stated, ended, failed, total, *_ = json.loads(text)
    return LoopProgress(stated, ended, failed, total)


def encode_events(events: tuple[AnyEvent, ...], *, compress: bool = False) -> bytes:
    """Return the body of a commit.

    A result that a `TaskProcessed` of the same commit has is stored once. Data must be JSON: tuples come back as lists, keys as
    text. Raises `ValueError` for NaN and infinities, and `TooLarge` for data that is nested too deeply for a reader.
    """
    rows: list[list[Any]] = [[e.name, e.ts, e.data] for e in events]
    if len(events) > 1 and events[-1].name == "StepDone":
        rows[-1][2] = _pointed(events)
    try:
        body = _encoder.encode(rows).encode("utf-8", "surrogatepass")
    except RecursionError as error:
        raise TooLarge("the data of a commit is nested too deeply") from error
    if compress:
        packed = zlib.compress(body, LEVEL)
        if len(packed) < len(body):
            return packed
    return body


def _pointed(events: tuple[AnyEvent, ...]) -> Mapping[str, Any]:
    data = events[-1].data
    result = data.get("result")
    if result is None:
        return data
    for index in range(len(events) - 2, -1, -1):
        event = events[index]
        if event.name == "TaskProcessed":
            held = event.data["outcome"].get("result")
            if held is result or (held == result and _encoder.encode(held) == _encoder.encode(result)):  # 1 == True == 1.0
                return {**{k: v for k, v in data.items() if k != "result"}, "result_from": index}
            break
    return data


def decode_events(body: bytes, v: int) -> tuple[AnyEvent, ...]:
    """Return the events of a body, in their current form. Raises `NewerLog` if newer code wrote it, `CorruptLog` if it cannot be
    read."""
    if v > LOG_VERSION:
        raise NewerLog(f"a commit asks for reader version {v}, this one is {LOG_VERSION}: deploy the newer code")
    try:
        text = zlib.decompress(body) if body[:1] == DEFLATED else body
        rows = json.loads(text.decode("utf-8", "surrogatepass"))  # with bytes it would detect the encoding first
        if rows and rows[-1][0] == "StepDone" and "result_from" in rows[-1][2]:
            rows[-1][2]["result"] = rows[rows[-1][2].pop("result_from")][2]["outcome"]["result"]
        older = upcasts_from(v)
        events: Any = tuple([Event(name, ts, older[name](data) if name in older else data) for name, ts, data in rows])
    except (ValueError, zlib.error, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise CorruptLog(f"a commit's body cannot be read: {error}") from error
    return cast("tuple[AnyEvent, ...]", events)


_STORED_AS = {"carried_over": "prior"}
"""Attributes of commands with a different key in messages."""
_READ_AS = {key: name for name, key in _STORED_AS.items()}
_RARE: Mapping[str, Any] = {"prior": None, "undoes": None, "asked": False, "asks": False, "claim": None}
_DEFAULTS: Mapping[str, Any] = {
    "pool": "default",
    "chunk": None,
    "loop": None,
    "mail": (),
    "context": None,
    "expires_at": 0,
    **_RARE,
}


def encode_command(command: Command) -> str:
    """Return a command as a queue message."""
    fields = {_STORED_AS.get(name, name): getattr(command, name) for name in Command.__match_args__}
    return _message_encoder.encode({k: v for k, v in fields.items() if k not in _DEFAULTS or v != _DEFAULTS[k]})


def decode_command(message: str | bytes) -> Command:
    """Return the command of a queue message. Raises `ValueError` for anything else."""
    try:
        fields = {_READ_AS.get(key, key): value for key, value in json.loads(message).items()}
        return Command(**{**fields, "mail": tuple(fields.get("mail", ()))})
    except (TypeError, AttributeError) as error:
        raise ValueError(f"not a command: {error}") from error


ASK_VERSION = 1
"""The form of asks and answers. Another one is refused: the worker then leaves its boundary to the stream."""
LONGEST_NAME = 128
"""The most characters of a name in an ask: part of it is stored."""


def encode_ask(ask: Ask) -> dict[str, Any]:
    """Return an ask as JSON data."""
    return {"v": ASK_VERSION, **{name: getattr(ask, name) for name in Ask.__match_args__}}


def decode_ask(data: Any) -> Ask:
    """Return the ask of JSON data. Raises `ValueError` for anything else."""
    if not isinstance(data, dict) or data.get("v") != ASK_VERSION:
        raise ValueError(f"not an ask of version {ASK_VERSION}")
    kinds = {"seq": int, "seen": int, "deadline": int, "until": int, "computes": bool}
    fields = {name: data.get(name) for name in Ask.__match_args__}
    wrong = [name for name, value in fields.items() if type(value) is not kinds.get(name, str)]
    wrong += [name for name, value in fields.items() if isinstance(value, str) and not 0 < len(value) <= LONGEST_NAME]
    if wrong or data["seq"] < 0 or not str(data["execution_id"]).isdecimal():
        raise ValueError(f"not an ask: {', '.join(wrong) or 'no such position or execution'}")
    return Ask(**cast("dict[str, Any]", fields))
