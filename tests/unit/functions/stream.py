"""Builds records of the stream of the events table."""

from __future__ import annotations

import base64
import os
from typing import Any

from noetl_core.adapters.aws.clients import client


def records() -> list[dict[str, Any]]:
    """The waking commits as the stream delivers them."""
    found = client("dynamodb").scan(TableName=os.environ["EVENTS_TABLE"])["Items"]
    images = [
        {k: {"B": base64.b64encode(v["B"]).decode()} if "B" in v else v for k, v in item.items()}
        for item in found
        if "wake" in item
    ]
    return [{"eventSource": "aws:dynamodb", "eventName": "INSERT", "dynamodb": {"NewImage": image}} for image in images]
