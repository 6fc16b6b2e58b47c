"""Triggers in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from noetl_core.ports import Firing, OtherRevision, RefusedDelivery, TriggerRecord
from tests.sim.ports import Faults


@dataclass
class SimTriggers:
    faults: Faults
    records: dict[tuple[str, str], TriggerRecord] = field(default_factory=dict)
    fired: dict[tuple[str, str, str, int], Firing] = field(default_factory=dict)
    refusals: dict[str, RefusedDelivery] = field(default_factory=dict)

    def trigger(self, path: str, name: str) -> TriggerRecord | None:
        return self.faults.around(lambda: self.records.get((path, name)))

    def put_trigger(self, record: TriggerRecord, expected: str) -> None:
        def put() -> None:
            there = self.records.get((record.path, record.name))
            revision = None if there is None else there.revision
            if revision not in (record.revision, expected or None):
                raise OtherRevision(revision)
            self.records[record.path, record.name] = record

        self.faults.around(put)
        if self.faults.hits("lost answer", self.faults.lost_answer):
            self.faults.around(put)  # the client repeats it

    def delete_trigger(self, path: str, name: str, expected: str) -> None:
        def delete() -> None:
            there = self.records.get((path, name))
            if there is not None and there.revision != expected:
                raise OtherRevision(there.revision)
            self.records.pop((path, name), None)

        self.faults.around(delete)

    def triggers(self, path: str | None = None, kind: str | None = None) -> Sequence[TriggerRecord]:
        def found() -> Sequence[TriggerRecord]:
            listed = [record for _, record in sorted(self.records.items())]
            return [r for r in listed if path in (None, r.path) and kind in (None, r.kind)]

        return self.faults.around(found)

    def delivery_triggers(self) -> Sequence[TriggerRecord]:
        return [record for record in self.triggers() if record.kind != "schedule"]

    def put_firing(self, firing: Firing) -> None:
        key = firing.path, firing.name, firing.occurrence, firing.at
        self.faults.around(lambda: self.fired.__setitem__(key, firing))

    def firings(self, path: str, name: str, now: int, limit: int) -> Sequence[Firing]:
        newest = sorted(self.fired.values(), key=lambda f: (f.at, f.occurrence), reverse=True)
        return [f for f in newest if (f.path, f.name) == (path, name) and not 0 < f.expires_at <= now][:limit]

    def refuse(self, refused: RefusedDelivery) -> None:
        self.faults.around(lambda: self.refusals.__setitem__(refused.id, refused))

    def refused(self, id: str, now: int) -> RefusedDelivery | None:
        found = self.refusals.get(id)
        return None if found is None or 0 < found.expires_at <= now else found

    def list_refused(self, now: int, limit: int, path: str | None = None) -> Sequence[RefusedDelivery]:
        newest = sorted(self.refusals.values(), key=lambda r: r.id, reverse=True)
        return [r for r in newest if path in (None, r.path) and not 0 < r.expires_at <= now][:limit]

    def forget_refused(self, id: str) -> None:
        self.faults.around(lambda: self.refusals.pop(id, None))
