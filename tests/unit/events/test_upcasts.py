"""Older logs are read in today's form: named functions, applied where a commit is decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.events import upcasts
from noetl_core.events.event import LOG_VERSION
from noetl_core.events.upcasts import UPCASTS, upcast, upcasts_from
from noetl_core.log.codec import decode_events, encode_events
from tests.raw_events import stored


@pytest.fixture
def registry() -> Iterator[dict[tuple[str, int], upcasts.Upcast]]:
    """The registry, as it was again afterwards."""
    before = dict(UPCASTS)
    yield UPCASTS
    UPCASTS.clear()
    UPCASTS.update(before)
    upcasts_from.cache_clear()


def body(*events: tuple[str, dict[str, Any]]) -> bytes:
    return json.dumps([[name, 1, data] for name, data in events]).encode()


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("join meet has already fired", "join"),
        ("join meet waits for 3 tokens, 2 came", "join"),
        ("admission stayed denied", "denied"),
        ("the execution ended before it was scheduled", "ended"),
        ("step start ran 3 times", "limit"),
        ("too much at once", "limit"),
        ("admission of step a: 'x' is undefined", "error"),
    ],
)
def test_a_token_that_expired_before_there_were_codes_has_one(reason: str, code: str) -> None:
    (event,) = decode_events(body(("TokenExpired", {"token": "t", "reason": reason})), 1)
    assert event == stored("TokenExpired", 1, {"token": "t", "code": code, "reason": reason})


def test_an_event_in_current_form_is_read_unchanged() -> None:
    written = (stored("TokenExpired", 1, {"token": "t", "code": "denied", "reason": "join x has already fired"}),)
    assert decode_events(encode_events(written), LOG_VERSION) == written


def test_upcasts_of_a_version_apply_to_logs_of_it_and_of_older_ones_in_order(registry: dict[Any, Any]) -> None:
    @upcast("TokenParked", 2)
    def third(data: dict[str, Any]) -> dict[str, Any]:
        """The third form."""
        return {**data, "forms": [*data["forms"], 3]}

    @upcast("TokenParked", 1)
    def second(data: dict[str, Any]) -> dict[str, Any]:
        """The second form."""
        return {**data, "forms": [2]}

    assert upcasts_from(1)["TokenParked"]({}) == {"forms": [2, 3]}
    assert upcasts_from(2)["TokenParked"]({"forms": []}) == {"forms": [3]}
    assert "TokenParked" not in upcasts_from(3)
    (event,) = decode_events(body(("TokenParked", {})), 1)
    assert event == stored("TokenParked", 1, {"forms": [2, 3]})


def test_a_second_upcast_of_the_same_event_form_is_refused(registry: dict[Any, Any]) -> None:
    with pytest.raises(ValueError, match="has an upcast: expired_token_has_a_code"):
        upcast("TokenExpired", 1)(lambda data: data)


def test_an_upcast_that_cannot_read_a_payload_says_that_the_log_is_broken() -> None:
    from noetl_core.ports import CorruptLog

    with pytest.raises(CorruptLog, match="cannot be read"):
        decode_events(body(("TokenExpired", {"token": "t"})), 1)


def test_each_upcast_has_a_docstring() -> None:
    assert [f.__name__ for f in UPCASTS.values() if not (f.__doc__ or "").strip()] == []
