"""Adapters for the resources that the environment names, each created once per process, for the wiring of functions."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

from noetl_core.adapters.aws.inbox import S3Inbox
from noetl_core.adapters.aws.keys import generated_key
from noetl_core.adapters.aws.results import S3ResultStore
from noetl_core.ports import Inbox, ResultStore


@cache
def results() -> ResultStore:
    """Return the results bucket."""
    return S3ResultStore(os.environ["RESULTS_BUCKET"])


@cache
def inbox() -> Inbox:
    """Return the inbox bucket, for the function that handles uploads."""
    return S3Inbox(os.environ["RESULTS_BUCKET"])


def callback_key() -> Callable[[], bytes] | None:
    """Return the key of callback tokens; None if the role may not read it (router, sweeper, python pool)."""
    secret = os.environ.get("CALLBACK_SECRET")
    return generated_key(secret) if secret else None
