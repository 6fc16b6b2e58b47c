"""The options of an http task, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.values.frozen import frozen

DEFAULT_TIMEOUTS: Final = {"connect": 10.0, "read": 30.0, "write": 30.0, "pool": 30.0}
DEFAULT_TOTAL_S: Final = 300.0
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
MAX_REDIRECTS: Final = 5
MAX_STORED_BYTES: Final = 10 * 1024 * 1024 * 1024
FORMATS: Final = ("json", "jsonl", "csv", "parquet", "text", "bytes")
"""The formats of a stored body."""
RETRY_STATUSES: Final = frozenset({429, 502, 503, 504})
RETRY_KEYS: Final = frozenset({"attempts", "delay", "statuses"})


@frozen
class Options:
    """`spec`, read and checked."""

    timeouts: Mapping[str, float]
    total_s: float
    max_bytes: int
    redirects: int
    verify: bool
    form: str
    store: str | None
    """The format in which the body is stored, `true` for its own type; None: it is not stored but read."""
    ok_statuses: frozenset[int]
    raise_for_status: bool
    attempts: int
    pause_s: float
    retry_statuses: frozenset[int]


def read_options(call: ToolCall) -> Options:
    """Return the options of `call`. Raises `BadInput`."""
    spec = call.spec
    timeout = dict(DEFAULT_TIMEOUTS)
    total = DEFAULT_TOTAL_S if call.timeout_s is None else call.timeout_s
    setting = spec.get("timeout")
    if isinstance(setting, Mapping):
        timeout |= {name: _number(f"timeout.{name}", value) for name, value in setting.items() if name in timeout}
        total = min(total, _number("timeout.total", setting.get("total", total)))
    elif setting is not None:
        seconds = _number("timeout", setting)
        timeout, total = dict.fromkeys(timeout, seconds), min(total, seconds)
    retry = spec.get("retry")
    retry = retry if isinstance(retry, Mapping) else {"attempts": 1 if retry in (None, False) else retry}
    if unknown := retry.keys() - RETRY_KEYS:
        raise BadInput(f"`spec.retry` has an unknown key {sorted(unknown)[0]!r}; known are {', '.join(sorted(RETRY_KEYS))}")
    follow = spec.get("follow_redirects", True)
    form = str(spec.get("response", "auto"))
    if form not in ("auto", "json", "text", "base64"):
        raise BadInput(f"`spec.response` {form!r} is unknown: auto, json, text or base64")
    store = _store(spec.get("store", False))
    if store is not None and form != "auto":
        raise BadInput("`spec.store` stores the body as it comes: leave `spec.response` out")
    most = MAX_BODY_BYTES if store is None else MAX_STORED_BYTES
    return Options(
        timeouts=timeout,
        total_s=total,
        max_bytes=int(_number("max_response_bytes", spec.get("max_response_bytes", most))),
        redirects=int(_number("max_redirects", spec.get("max_redirects", MAX_REDIRECTS))) if follow is not False else 0,
        verify=spec.get("verify", True) is not False,
        form=form,
        store=store,
        ok_statuses=_statuses("ok_statuses", spec.get("ok_statuses", [])),
        raise_for_status=spec.get("raise_for_status", True) is not False,
        attempts=max(1, min(10, int(_number("retry.attempts", retry.get("attempts", 3))))),
        pause_s=_number("retry.delay", retry.get("delay", 0.5)),
        retry_statuses=_statuses("retry.statuses", retry.get("statuses", list(RETRY_STATUSES))),
    )


def _store(value: Any) -> str | None:
    if value in (None, False):
        return None
    form = "true" if value is True else str(value)
    if form not in ("true", *FORMATS):
        raise BadInput(f"`spec.store` {form[:40]!r} is unknown: true, or the format of the body: {', '.join(FORMATS)}")
    return form


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(value, bool) or not 0 <= number < 1e12:
        raise BadInput(f"`spec.{name}` must be a number of 0 or more, not {str(value)[:40]!r}")
    return number


def _statuses(name: str, value: Any) -> frozenset[int]:
    if not isinstance(value, list | tuple) or not all(isinstance(v, int) for v in value):
        raise BadInput(f"`spec.{name}` must be a list of HTTP statuses")
    return frozenset(value)
