"""moto's `mock_aws`, without what botocore's clients do not need and what took most of the time of its beginning."""

from __future__ import annotations

from typing import Any

from botocore.hooks import EventAliaser
from moto import mock_aws
from moto.core import models

__all__ = ["mock_aws"]

models.RESPONSES_METHODS.clear()
"""moto also answers the library `requests`, for which it makes 1,300 answers each time it begins (22 ms)."""

_aliaser: Any = EventAliaser
_alias = _aliaser._alias_event_name
_aliases: dict[str, str] = {}


def _remembered(self: EventAliaser, event_name: str) -> str:
    """Return the name by which an event is known: every session computes the same ones for a hundred handlers (5 ms)."""
    if event_name not in _aliases:
        _aliases[event_name] = _alias(self, event_name)
    return _aliases[event_name]


_aliaser._alias_event_name = _remembered
