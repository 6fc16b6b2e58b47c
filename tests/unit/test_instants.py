"""Instants as the engine keeps them, and as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_core.values.instants import SECOND, from_text, in_microseconds, to_rfc3339
from tests.properties import examples


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-01T00:00:01Z", SECOND),
        ("1970-01-01T00:00:01", SECOND),
        ("1970-01-01T01:00:01+01:00", SECOND),
        ("1970-01-01T00:00:00.000001Z", 1),
    ],
)
def test_text_without_a_zone_is_in_utc(text: str, at: int) -> None:
    assert in_microseconds(from_text(text)) == at


@examples(100)
@given(st.integers(0, 4_000_000_000 * SECOND))
def test_the_text_of_an_instant_is_in_utc_with_microseconds(at: int) -> None:
    text = to_rfc3339(at)
    assert len(text) == len("1970-01-01T00:00:00.000000Z") and text.endswith("Z")
    assert in_microseconds(from_text(text)) == at


def test_text_that_is_no_instant_is_refused() -> None:
    with pytest.raises(ValueError, match="isoformat"):
        from_text("tomorrow")


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-01:00"])
def test_an_instant_outside_the_years_of_utc_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="years 1 to 9999"):
        from_text(text)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"])
def test_the_first_and_the_last_instant_are_themselves(text: str) -> None:
    assert to_rfc3339(in_microseconds(from_text(text))) == text
