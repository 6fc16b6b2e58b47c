"""A simulated table whose rows cursor loops claim, as PostgreSQL would with the calls of `tools.cursors.postgres`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from tests.sim.ports import SECOND
from tests.sim.world import World


@dataclass(slots=True)
class ClaimedRow:
    id: int
    state: str = "ready"
    by: str | None = None
    until: int | None = None


@dataclass
class ClaimedTable:
    """`tool` of a world: answers calls of a cursor, and passes tasks to `work`."""

    rows: list[ClaimedRow]
    work: Callable[[ToolCall], Outcome]
    world: World | None = None
    """The world, for its clock and faults."""
    ran: Counter[int] = field(default_factory=Counter)
    """The number of times that each row was passed to a task."""
    stolen: int = 0
    """Rows that were claimed during a valid claim of another worker. There must be none."""

    def __call__(self, call: ToolCall) -> Outcome:
        assert self.world is not None
        if not call.task.startswith("cursor."):
            self.ran[call.inputs["result"]] += 1
            return self.work(call)
        return self.world.faults.around(lambda: self._answer(call))

    def _answer(self, call: ToolCall) -> Outcome:
        found: list[dict[str, Any]] = []
        for command in call.inputs["commands"]:
            text, params = command["command"], command["params"]
            if call.task == "cursor.claim" and "taken" in text:
                found = [self._shown(row) for row in self._claim(params)]
            elif call.task == "cursor.renew":
                held = [row for row in self._named(params) if row.by in (params["claim_id"], params["failed_id"])]
                for row in held:
                    row.by, row.until = params["claim_id"], self._after(params["lease_s"])
                found = [{"id": str(row.id)} for row in held]
            elif call.task == "cursor.settle":
                for row in self._named(params):
                    if row.by == params["claim_id"]:
                        self._settle(row, params)
        return Outcome.ok({"rows": found, "columns": [], "row_count": len(found)})

    def _claim(self, params: dict[str, Any]) -> list[ClaimedRow]:
        claim, now = params["claim_id"], self._now
        taken = [row for row in self.rows if row.by == claim and row.until is not None]
        if not taken:
            free = [row for row in self.rows if row.state == "ready" and (row.until is None or row.until <= now)]
            taken = [row for row in free if row.by != params["failed_id"]][: params["limit"]]
        for row in taken:
            self.stolen += row.by != claim and row.until is not None and row.until > now
            row.by, row.until = claim, self._after(params["lease_s"])
        return taken

    def _settle(self, row: ClaimedRow, params: dict[str, Any]) -> None:
        if "v_0" in params:
            row.state, row.until = params["v_0"], None
        else:
            row.by, row.until = params.get("failed_id", row.by), self._now

    def _named(self, params: dict[str, Any]) -> list[ClaimedRow]:
        return [row for row in self.rows if str(row.id) in params["keys"]]

    @property
    def _now(self) -> int:
        assert self.world is not None
        return self.world.clock.now()

    def _after(self, seconds: float) -> int:
        return self._now + int(seconds * SECOND)

    def _shown(self, row: ClaimedRow) -> dict[str, Any]:
        return {"id": row.id, "state": row.state, "noetl_key": str(row.id), "noetl_key_type": "integer"}
