"""Contract of `TriggerStore`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from noetl_core.ports import Firing, OtherRevision, RefusedDelivery, TriggerRecord, TriggerStore

NOW = 1_800_000_000
AT = NOW * 1_000_000


def record(revision: str = "r1", path: str = "team/flow", name: str = "nightly", kind: str = "schedule") -> TriggerRecord:
    return TriggerRecord(
        path,
        name,
        kind,
        version=3,
        digest="sha256:ü",
        enabled=True,
        source={"cron": "0 2 * * *", "jitter_s": 1.5, "every_s": None},
        payload={"day": "{{ trigger.scheduled_at }}", "ü": ["\U0001f680"]},
        state={"next": AT},
        revision=revision,
        starts="prod" if name == "nightly" else None,
    )


def conflict_revision(triggers: TriggerStore, written: TriggerRecord, expected: str) -> str | None:
    """Return the stored revision that a refused write reports."""
    with pytest.raises(OtherRevision) as refused:
        triggers.put_trigger(written, expected)
    return refused.value.revision


def firing(occurrence: str, at: int, expires_at: int = NOW + 100) -> Firing:
    return Firing("team/flow", "nightly", occurrence, at, "started", "17", expires_at=expires_at)


def refused(id: str, path: str = "team/flow", expires_at: int = NOW + 100) -> RefusedDelivery:
    facts = {"kind": "schedule", "name": "nightly", "id": "o", "scheduled_at": None}
    return RefusedDelivery(id, path, "nightly", "schedule", "o", AT, "workload", "x is missing", facts, expires_at)


class TriggerStoreContract:
    """Give a fixture `triggers`: an empty store."""

    # --- the triggers ---

    def test_a_trigger_is_read_back_as_it_was_written(self, triggers: TriggerStore) -> None:
        assert triggers.trigger("team/flow", "nightly") is None
        triggers.put_trigger(record(), "")
        assert triggers.trigger("team/flow", "nightly") == record()
        changed = replace(record("r2"), enabled=False, version=4, state={})
        triggers.put_trigger(changed, "r1")
        assert triggers.trigger("team/flow", "nightly") == changed

    def test_a_write_against_an_outdated_revision_is_refused(self, triggers: TriggerStore) -> None:
        assert conflict_revision(triggers, record("r2"), "r1") is None
        triggers.put_trigger(record(), "")
        assert conflict_revision(triggers, record("r2"), "") == "r1"
        assert conflict_revision(triggers, record("r2"), "r0") == "r1"
        assert triggers.trigger("team/flow", "nightly") == record()

    def test_a_repeated_identical_write_succeeds(self, triggers: TriggerStore) -> None:
        for _ in range(2):
            triggers.put_trigger(record(), "")
        for _ in range(2):
            triggers.put_trigger(record("r2"), "r1")
        assert triggers.trigger("team/flow", "nightly") == record("r2")

    def test_a_trigger_is_deleted_at_the_revision_that_was_read(self, triggers: TriggerStore) -> None:
        triggers.put_trigger(record(), "")
        with pytest.raises(OtherRevision) as refused:
            triggers.delete_trigger("team/flow", "nightly", "r0")
        assert refused.value.revision == "r1"
        for _ in range(2):  # the second time there is none
            triggers.delete_trigger("team/flow", "nightly", "r1")
        assert triggers.trigger("team/flow", "nightly") is None

    def test_triggers_are_listed_by_path_and_name_of_one_playbook_or_of_one_kind(self, triggers: TriggerStore) -> None:
        assert list(triggers.triggers()) == []
        written = [
            record(path=path, name=name, kind=kind)
            for path in ("a", "a/b", "b", "team/flow")
            for name, kind in (("first", "schedule"), ("second", "event"))
        ]
        for one in reversed(written):
            triggers.put_trigger(one, "")
        assert list(triggers.triggers()) == written
        assert list(triggers.triggers("a")) == written[:2]
        assert list(triggers.triggers(kind="event")) == written[1::2]
        assert list(triggers.triggers("b", "event")) == [written[5]]
        assert list(triggers.triggers("a/")) == []

    def test_delivery_triggers_are_listed_in_their_current_state(self, triggers: TriggerStore) -> None:
        assert list(triggers.delivery_triggers()) == []
        written = [record(name=name, kind=kind) for name, kind in (("a", "event"), ("b", "schedule"), ("c", "queue"))]
        for one in written:
            triggers.put_trigger(one, "")
        assert list(triggers.delivery_triggers()) == [written[0], written[2]]
        off = replace(written[0], enabled=False, revision="r2")
        triggers.put_trigger(off, "r1")
        assert list(triggers.delivery_triggers()) == [off, written[2]]
        timed = replace(off, kind="schedule", revision="r3")
        triggers.put_trigger(timed, "r2")
        assert list(triggers.delivery_triggers()) == [written[2]]
        triggers.put_trigger(replace(timed, state={}, revision="r4"), "r3")
        triggers.delete_trigger("team/flow", "c", "r1")
        assert list(triggers.delivery_triggers()) == []

    # --- outcomes of occurrences ---

    def test_firings_are_listed_newest_first_and_each_occurrence_once(self, triggers: TriggerStore) -> None:
        for number in range(5):
            triggers.put_firing(firing(f"o{number}", AT + number))
        again = replace(firing("o3", AT + 3), result="refused", reason="why", execution_id=None)
        triggers.put_firing(again)
        found = triggers.firings("team/flow", "nightly", NOW, 3)
        assert list(found) == [firing("o4", AT + 4), again, firing("o2", AT + 2)]
        assert list(triggers.firings("team/flow", "other", NOW, 3)) == []

    def test_expired_firings_and_refusals_are_not_listed(self, triggers: TriggerStore) -> None:
        triggers.put_firing(firing("old", AT, expires_at=NOW + 10))
        triggers.put_firing(firing("new", AT + 1, expires_at=NOW + 11))
        assert [f.occurrence for f in triggers.firings("team/flow", "nightly", NOW + 10, 9)] == ["new"]
        triggers.refuse(refused("1", expires_at=NOW + 10))
        triggers.refuse(refused("2", expires_at=NOW + 11))
        assert [r.id for r in triggers.list_refused(NOW + 10, 9)] == ["2"]
        assert triggers.refused("1", NOW + 10) is None

    # --- refused starts ---

    def test_a_refused_delivery_is_kept_once_until_it_is_forgotten(self, triggers: TriggerStore) -> None:
        for id in ("1", "3", "2", "3"):
            triggers.refuse(refused(id))
        triggers.refuse(refused("4", path="other"))
        assert [r.id for r in triggers.list_refused(NOW, 3)] == ["4", "3", "2"]
        assert [r.id for r in triggers.list_refused(NOW, 3, "other")] == ["4"]
        assert triggers.refused("3", NOW) == refused("3")
        for _ in range(2):
            triggers.forget_refused("3")
        assert triggers.refused("3", NOW) is None
        assert [r.id for r in triggers.list_refused(NOW, 9)] == ["4", "2", "1"]
