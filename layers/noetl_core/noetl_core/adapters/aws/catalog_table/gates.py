"""Gates in the catalog table (its layout: `catalog`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noetl_core.adapters.aws.clients import client, errors_of
from noetl_core.adapters.aws.table import Item, Table
from noetl_core.adapters.clock import SystemClock
from noetl_core.ports import Clock, Gate
from noetl_core.values.instants import SECOND


class DynamoGates(Table):
    """`Gates` on the catalog table: half a read unit per read (eventually consistent)."""

    def __init__(self, table: str, clock: Clock | None = None) -> None:
        super().__init__(table)
        self._clock = clock or SystemClock()

    def gate(self, execution_id: str) -> Gate:
        return self._gate(self.get_item(f"x#{execution_id}", "gate", consistent=False))

    def gates(self, executions: Iterable[str]) -> Mapping[str, Gate]:
        """Return the gates of up to 100 executions by one request; unprocessed ones are missing."""
        keys = [{"pk": {"S": f"x#{execution_id}"}, "sk": {"S": "gate"}} for execution_id in dict.fromkeys(executions)]
        with errors_of("catalog read"):
            answer = client("dynamodb").batch_get_item(RequestItems={self.table: {"Keys": keys}})
        left_out = {key["pk"]["S"] for key in answer.get("UnprocessedKeys", {}).get(self.table, {}).get("Keys", ())}
        found = {item["pk"]["S"]: item for item in answer["Responses"].get(self.table, ())}
        pks = (key["pk"]["S"] for key in keys)
        return {pk.removeprefix("x#"): self._gate(found.get(pk)) for pk in pks if pk not in left_out}

    def _gate(self, item: Item | None) -> Gate:
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
