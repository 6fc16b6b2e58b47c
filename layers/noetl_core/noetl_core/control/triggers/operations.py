"""The operations of the API on triggers (`control.operations`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from noetl_core.control.core import Control
from noetl_core.control.triggers import operate

if TYPE_CHECKING:
    from noetl_core.client import trigger_shapes


class TriggerOperations:
    """A part of `control.operations.Operations`."""

    __slots__ = ()
    control: Callable[[], Control]

    def triggers(self, path: str | None = None, kind: str | None = None) -> trigger_shapes.Triggers:
        return {"triggers": operate.listed(self.control(), path, kind)}

    def trigger(self, path: str, name: str) -> trigger_shapes.TriggerDetails:
        return operate.described(self.control(), path, name)

    def switch_trigger(self, path: str, name: str, *, on: bool) -> trigger_shapes.Trigger:
        return operate.switch(self.control(), path, name, on=on)

    def fire_trigger(
        self,
        path: str,
        name: str,
        *,
        at: str | None = None,
        event: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> trigger_shapes.Firing:
        return operate.fire(self.control(), path, name, at, idempotency_key, event)

    def refused(self, path: str | None = None, limit: int | None = None) -> trigger_shapes.RefusedDeliveries:
        return {"refused": operate.list_refused(self.control(), path, limit)}

    def fire_refused(self, id: str) -> trigger_shapes.Firing:
        return operate.fire_refused(self.control(), id)

    def forget_refused(self, id: str) -> trigger_shapes.Forgotten:
        operate.forget_refused(self.control(), id)
        return {"id": id, "deleted": True}
