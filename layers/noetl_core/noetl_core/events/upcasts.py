"""Upcasts: functions that convert the payload of an event in an older log to the current form.

`@upcast("TokenExpired", 1)` registers a function that converts from the form in logs of reader version 1 to the next one.
Decoding applies it to commits of that version and of older ones, one function after the other, so all other code knows only the
current form. Added keys do not raise the version (`v` is the lowest reader that may interpret a commit), so an upcast must leave
a payload in the newer form unchanged. A registered function is never removed, because stored logs have its form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

Payload = dict[str, Any]
Upcast = Callable[[Payload], Payload]

UPCASTS: dict[tuple[str, int], Upcast] = {}
"""Upcasts by the name of the event and the version whose form they accept."""


def upcast(event: str, version: int) -> Callable[[Upcast], Upcast]:
    """Register the decorated function for `event` in logs of `version`. Each event and version has at most one function."""

    def register(function: Upcast) -> Upcast:
        if (event, version) in UPCASTS:
            raise ValueError(f"{event} of version {version} has an upcast: {UPCASTS[event, version].__name__}")
        UPCASTS[event, version] = function
        upcasts_from.cache_clear()
        return function

    return register


@lru_cache(maxsize=8)
def upcasts_from(version: int) -> Mapping[str, Upcast]:
    """Return, by event, the composition of all upcasts for commits of `version`."""
    names = sorted(key for key in UPCASTS if key[1] >= version)
    chains: dict[str, list[Upcast]] = {}
    for name, number in names:
        chains.setdefault(name, []).append(UPCASTS[name, number])
    return {name: functions[0] if len(functions) == 1 else _chain(tuple(functions)) for name, functions in chains.items()}


def _chain(functions: tuple[Upcast, ...]) -> Upcast:
    def apply(data: Payload) -> Payload:
        for function in functions:
            data = function(data)
        return data

    return apply


_REASONS = {
    "join": r"join \S+ (has already fired|waits for \d+ tokens, \d+ came)",
    "denied": r"admission stayed denied",
    "ended": r"the execution ended before it was scheduled",
    "limit": r"step .+ ran \d+ times|too much at once",
}


@upcast("TokenExpired", 1)
def expired_token_has_a_code(data: Payload) -> Payload:
    """Derive the code of an expired token from its `reason`, because the first logs have no code."""
    if "code" in data:
        return data
    reason = data["reason"]
    code = next((code for code, words in _REASONS.items() if re.fullmatch(words, reason)), "error")
    return {"token": data["token"], "code": code, "reason": reason}
