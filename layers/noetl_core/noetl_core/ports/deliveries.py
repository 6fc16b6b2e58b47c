"""Requests from outside for triggers, and the port that forwards them to the service that may start executions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from noetl_core.values.frozen import frozen


@frozen
class WebhookDelivery:
    """A signed request to the webhook `name` of the playbook `path`."""

    kind: ClassVar[str] = "webhook"
    path: str
    name: str
    id: str
    """The identifier: equal for every delivery of the same request."""
    event: Mapping[str, Any]
    """`headers` and `body`."""
    at: int
    """The instant at which it arrived (microseconds)."""


class WebhookSink(Protocol):
    """Forwards signed requests. An accepted request is not lost."""

    def forward(self, delivery: WebhookDelivery) -> None:
        """Forward a request. Raises `Unavailable`, after which the sender tries again, and `TooLarge`."""
        ...
