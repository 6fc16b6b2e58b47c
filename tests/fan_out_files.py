"""The bucket of `examples/fan_out`, and what comes of its files."""

from __future__ import annotations

import runpy
from typing import Any

from noetl_core.adapters.aws.clients import client
from tests.examples_runner import EXAMPLES

FILES: dict[str, Any] = runpy.run_path(str(EXAMPLES / "fan_out" / "files.py"))
SENSORS = [sensor for sensor in range(500) if sensor not in (37, 138, 239, 340, 441)]
READINGS = [row for sensor in SENSORS for row in FILES["rows"](sensor)]
RESULT = {
    "files": 500,
    "read": 495,
    "rows": 21_282,
    "sensors": 495,
    "mean": round(sum(row["celsius"] for row in READINGS) / len(READINGS), 3),
    "poisoned": [
        {"key": "readings/037.jsonl", "error": "InvalidInputException"},
        {"key": "readings/138.jsonl", "error": "ConversionException"},
        {"key": "readings/239.jsonl", "error": "BinderException"},
        {"key": "readings/340.jsonl", "error": "InvalidInputException"},
        {"key": "readings/441.jsonl", "error": "BinderException"},
    ],
}


def make(bucket: str) -> None:
    """Make bucket and files where this process's clients of AWS look."""
    FILES["make"](client("s3"), bucket)
