"""Contract of `KeyValues`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from noetl_core.ports import Entry, KeyValues, OtherRevision, TooLarge

NOW = 1_800_000_000


def entry(revision: str = "r1", value: str = '"v"', key: str = "k", expires_at: int = 0) -> Entry:
    return Entry(key, value, revision, expires_at)


def conflict_revision(values: KeyValues, written: Entry, expected: str, now: int = NOW) -> str | None:
    """Return the revision that a refused write reports."""
    with pytest.raises(OtherRevision) as refused:
        values.put("b", written, now, expected)
    return refused.value.revision


class KeyValuesContract:
    """Give a fixture `values`: an empty store."""

    def test_a_value_is_read_back_until_another_is_written(self, values: KeyValues) -> None:
        assert values.get("b", "k", NOW) is None
        values.put("b", entry(value='{"ü": "\U0001f680"}'), NOW)
        assert values.get("b", "k", NOW) == entry(value='{"ü": "\U0001f680"}')
        values.put("b", entry("r2", "2"), NOW)
        assert values.get("b", "k", NOW) == entry("r2", "2")

    def test_buckets_do_not_meet(self, values: KeyValues) -> None:
        values.put("b", entry(), NOW)
        assert values.get("c", "k", NOW) is None
        assert list(values.list("c", "", NOW, 10)) == []
        assert not values.delete("c", "k", NOW)
        assert values.get("b", "k", NOW) is not None

    def test_expired_values_are_neither_read_nor_listed(self, values: KeyValues) -> None:
        values.put("b", entry(expires_at=NOW + 10), NOW)
        assert values.get("b", "k", NOW + 9) is not None
        assert values.get("b", "k", NOW + 10) is None
        assert list(values.list("b", "", NOW + 10, 10)) == []
        assert conflict_revision(values, entry("r2"), "r1", NOW + 10) is None
        values.put("b", entry("r3"), NOW + 10, "")
        found = values.get("b", "k", NOW + 10_000)
        assert found is not None and found.revision == "r3"

    def test_a_value_is_created_only_where_there_is_none(self, values: KeyValues) -> None:
        values.put("b", entry("r1"), NOW, "")
        assert conflict_revision(values, entry("r2"), "") == "r1"
        assert values.get("b", "k", NOW) == entry("r1")

    def test_a_value_replaces_the_revision_that_its_writer_has_seen(self, values: KeyValues) -> None:
        assert conflict_revision(values, entry("r1"), "r0") is None
        values.put("b", entry("r1"), NOW)
        values.put("b", entry("r2"), NOW, "r1")
        assert conflict_revision(values, entry("r3"), "r1") == "r2"

    @pytest.mark.parametrize("expected", ["", "r0", None])
    def test_a_repeated_write_of_the_same_revision_succeeds(self, values: KeyValues, expected: str | None) -> None:
        if expected == "r0":
            values.put("b", entry("r0"), NOW)
        values.put("b", entry("r1"), NOW, expected)
        values.put("b", entry("r1"), NOW, expected)
        assert values.get("b", "k", NOW) == entry("r1")

    def test_a_value_is_deleted_once(self, values: KeyValues) -> None:
        assert not values.delete("b", "k", NOW)
        values.put("b", entry("r1"), NOW)
        with pytest.raises(OtherRevision) as refused:
            values.delete("b", "k", NOW, "r0")
        assert refused.value.revision == "r1"
        assert values.delete("b", "k", NOW, "r1")
        assert not values.delete("b", "k", NOW, "r1")
        assert values.get("b", "k", NOW) is None
        values.put("b", entry("r2", expires_at=NOW + 1), NOW)
        assert not values.delete("b", "k", NOW + 1)

    def test_keys_are_listed_by_prefix_in_order(self, values: KeyValues) -> None:
        keys = ["a", "a/1", "a/2", "A", "b", "ä", "a%", "a_", "\U0001f680", "￿"]
        for n, key in enumerate(keys):
            values.put("b", entry(f"r{n}", key=key), NOW)
        assert [e.key for e in values.list("b", "", NOW, 100)] == sorted(keys, key=lambda k: k.encode())
        assert [e.key for e in values.list("b", "a/", NOW, 100)] == ["a/1", "a/2"]
        assert [e.key for e in values.list("b", "a_", NOW, 100)] == ["a_"]
        assert len(values.list("b", "", NOW, 3)) == 3

    def test_a_value_that_is_too_large_is_refused(self, values: KeyValues) -> None:
        with pytest.raises(TooLarge, match="store it"):
            values.put("b", entry(value='"' + "x" * 390_000 + '"'), NOW)
        assert values.get("b", "k", NOW) is None

    def test_a_list_larger_than_the_memory_bound_is_refused(self, values: KeyValues, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("noetl_core.ports.key_values.MOST_LISTED", 700_000)
        for n in range(3):
            values.put("b", entry(value='"' + "x" * 300_000 + '"', key=f"{n}"), NOW)
        assert len(values.list("b", "", NOW, 2)) == 2
        with pytest.raises(TooLarge, match="with `prefix`"):
            values.list("b", "", NOW, 10)

    def test_a_large_value(self, values: KeyValues) -> None:
        large = '"' + "x" * 300_000 + '"'
        for n in range(5):
            values.put("b", entry(f"r{n}", large, key=f"{n}"), NOW)
        assert [len(e.value) for e in values.list("b", "", NOW, 10)] == [len(large)] * 5

    def test_one_of_many_concurrent_writers_wins(self, values: KeyValues) -> None:
        values.put("b", entry("r"), NOW)

        def won(n: int) -> bool:
            try:
                values.put("b", entry(f"r{n}"), NOW, "r")
            except OtherRevision:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(won, range(16))) == 1
