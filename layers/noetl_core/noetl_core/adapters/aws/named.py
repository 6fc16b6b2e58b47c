"""Adapters over what the environment names, each made once per process, for whoever wires a function."""

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
    """What callback tokens are made with; None where the role may not read it: the router, the sweeper, the python pool."""
    secret = os.environ.get("CALLBACK_SECRET")
    return generated_key(secret) if secret else None
