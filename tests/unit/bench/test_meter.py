"""Reads ended invocations from a function's log."""

from __future__ import annotations

import pytest
from bench.meter import Used, billed_ms


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("REPORT RequestId: a\tDuration: 12.30 ms\tBilled Duration: 13 ms\tMemory Size: 512 MB", 13.0),
        ('{"type": "platform.report", "record": {"metrics": {"billedDurationMs": 7}}}', 7.0),
        ("START RequestId: a Version: $LATEST", None),
        ('{"level": "INFO", "message": "REPORT RequestId"}', None),
    ],
)
def test_only_reports_are_billed(line: str, expected: float | None) -> None:
    assert billed_ms(line) == expected


def test_usage_between_two_readings_is_their_difference() -> None:
    assert Used(5, 120.0) - Used(2, 100.0) == Used(3, 20.0)
