"""What comes from outside for triggers, and where it is handed on to whoever may start executions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """A signed request to the webhook `name` of the playbook `path`."""

    kind: ClassVar[str] = "webhook"
    path: str
    name: str
    id: str
    """Equal for every delivery of the same request."""
    event: Mapping[str, Any]
    """`headers` and `body`."""
    at: int
    """When it came (microseconds)."""


class WebhookSink(Protocol):
    """Takes signed requests. What it has taken is not lost."""

    def hand_on(self, delivery: WebhookDelivery) -> None:
        """Raises `Unavailable`: then the sender tries again. `TooLarge`."""
        ...
