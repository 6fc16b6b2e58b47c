"""Gates in the catalog table (its layout: `catalog`)."""

from __future__ import annotations

from typing import Any

from noetl_core.adapters.aws.table import Table
from noetl_core.adapters.clock import SystemClock
from noetl_core.instants import SECOND
from noetl_core.ports import Clock, Gate


class DynamoGates(Table):
    """`Gates` on the catalog table: half a read unit per read (eventually consistent)."""

    def __init__(self, table: str, clock: Clock | None = None) -> None:
        super().__init__(table)
        self._clock = clock or SystemClock()

    def gate(self, execution_id: str) -> Gate:
        item = self.get_item(f"x#{execution_id}", "gate", consistent=False)
        expires_at = 0 if item is None else int(item.get("expires_at", {"N": "0"})["N"])
        if item is None or 0 < expires_at < self._clock.now() // SECOND:
            return Gate()
        return Gate(item["mode"]["S"], frozenset(item.get("stopped_runs", {"SS": []})["SS"]), expires_at)

    def set_gate(self, execution_id: str, gate: Gate) -> None:
        item: dict[str, Any] = {"pk": {"S": f"x#{execution_id}"}, "sk": {"S": "gate"}, "mode": {"S": gate.mode}}
        if gate.stopped_runs:
            item["stopped_runs"] = {"SS": sorted(gate.stopped_runs)}
        if gate.expires_at:
            item["expires_at"] = {"N": str(gate.expires_at)}
        self.put(item)
