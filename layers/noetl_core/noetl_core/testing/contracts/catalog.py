"""Contracts of `PlaybookCatalog`, `ExecutionIndex` and `Gates`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from noetl_core.ports import (
    Conflict,
    Due,
    ExecutionIndex,
    Gate,
    Gates,
    Head,
    NotFound,
    PathChange,
    PathRecord,
    PlaybookCatalog,
    PlaybookVersion,
)
from noetl_core.testing.contracts.clocks import SECOND, START, FakeClock

TEXT = "apiVersion: noetl.io/v2\nkind: Playbook # größer\n"


class PlaybookCatalogContract:
    """Give a fixture `catalog`: an empty catalog; and `other`: the same catalog as another process has it."""

    def test_versions_count_up(self, catalog: PlaybookCatalog) -> None:
        one = catalog.register("etl/daily", "sha256:1", TEXT, START)
        two = catalog.register("etl/daily", "sha256:2", TEXT + "#", START + 1)
        assert one == PlaybookVersion("etl/daily", 1, "sha256:1", TEXT, START)
        assert two == PlaybookVersion("etl/daily", 2, "sha256:2", TEXT + "#", START + 1)
        assert catalog.get("etl/daily") == two
        assert catalog.get("etl/daily", 1) == one
        assert [v.version for v in catalog.versions("etl/daily")] == [1, 2]

    def test_registering_the_latest_again_changes_nothing(self, catalog: PlaybookCatalog) -> None:
        one = catalog.register("etl/daily", "sha256:1", TEXT, START)
        assert catalog.register("etl/daily", "sha256:1", TEXT, START + 1) == one
        assert list(catalog.versions("etl/daily")) == [one]

    def test_going_back_to_older_content_is_a_new_version(self, catalog: PlaybookCatalog) -> None:
        for n, digest in enumerate(("sha256:1", "sha256:2", "sha256:1"), start=1):
            assert catalog.register("etl/daily", digest, TEXT, START).version == n

    def test_content_is_found_by_its_digest(self, catalog: PlaybookCatalog) -> None:
        catalog.register("etl/daily", "sha256:1", TEXT, START)
        catalog.register("etl/daily", "sha256:2", TEXT + "#", START)
        catalog.register("etl/copy", "sha256:1", TEXT, START + 1)
        found = catalog.by_digest("sha256:1")
        assert (found.path, found.source, found.digest) == ("etl/daily", TEXT, "sha256:1")

    def test_pinned_content_is_had_by_its_digest_alone(self, catalog: PlaybookCatalog) -> None:
        one = catalog.pin("etl/daily", "sha256:1", TEXT, START)
        assert one == PlaybookVersion("etl/daily", 0, "sha256:1", TEXT, START) == catalog.by_digest("sha256:1")
        assert catalog.pin("etl/daily", "sha256:1", TEXT, START + 1) == one
        assert list(catalog.versions("etl/daily")) == list(catalog.list()) == []
        with pytest.raises(NotFound):
            catalog.get("etl/daily")
        with pytest.raises(NotFound):
            catalog.get("etl/daily", 0)

    def test_pinned_content_can_be_registered_and_registered_content_pinned(self, catalog: PlaybookCatalog) -> None:
        catalog.pin("etl/daily", "sha256:1", TEXT, START)
        registered = catalog.register("etl/daily", "sha256:1", TEXT, START + 1)
        assert registered.version == 1
        assert catalog.by_digest("sha256:1") == catalog.pin("etl/daily", "sha256:1", TEXT, START + 2) == registered

    def test_unknown_paths_versions_and_digests_are_not_found(self, catalog: PlaybookCatalog) -> None:
        catalog.register("etl/daily", "sha256:1", TEXT, START)
        with pytest.raises(NotFound):
            catalog.get("etl/nightly")
        with pytest.raises(NotFound):
            catalog.get("etl/daily", 2)
        with pytest.raises(NotFound):
            catalog.by_digest("sha256:2")
        assert list(catalog.versions("etl/nightly")) == []
        assert list(catalog.list("etl/n")) == []

    def test_the_list_shows_the_latest_of_each_path(self, catalog: PlaybookCatalog) -> None:
        for path, digest in (
            ("etl/b", "sha256:1"),
            ("etl/a", "sha256:2"),
            ("etl/b", "sha256:3"),
            ("ml/%_a", "sha256:4"),
            ("mlx", "sha256:5"),
        ):
            catalog.register(path, digest, TEXT, START)
        assert [(v.path, v.version) for v in catalog.list()] == [("etl/a", 1), ("etl/b", 2), ("ml/%_a", 1), ("mlx", 1)]
        assert [v.path for v in catalog.list("etl/")] == ["etl/a", "etl/b"]
        assert [v.path for v in catalog.list("ml/%")] == ["ml/%_a"]

    def test_registering_at_once_gives_each_content_its_version(self, catalog: PlaybookCatalog) -> None:
        with ThreadPoolExecutor(4) as pool:
            versions = list(pool.map(lambda n: catalog.register("etl/daily", f"sha256:{n}", f"{TEXT}{n}", START), range(8)))
        assert sorted(v.version for v in versions) == list(range(1, 9))
        assert [v.version for v in catalog.versions("etl/daily")] == list(range(1, 9))
        for version in versions:
            assert catalog.get("etl/daily", version.version) == version
            assert catalog.by_digest(version.digest).source == version.source
        assert [v.version for v in catalog.list("etl/daily")] == [8]

    def test_registering_one_content_at_once_gives_one_version(self, catalog: PlaybookCatalog, other: PlaybookCatalog) -> None:
        for version in (1, 2):
            for_all = [catalog, other] * 4
            with ThreadPoolExecutor(4) as pool:
                versions = list(
                    pool.map(lambda c, v=version: c.register("etl/daily", f"sha256:{v}", f"{TEXT}{v}", START), for_all)
                )
            assert {v.version for v in versions} == {version}
            assert [v.version for v in catalog.versions("etl/daily")] == list(range(1, version + 1))

    def test_the_latest_is_that_of_all_processes(self, catalog: PlaybookCatalog, other: PlaybookCatalog) -> None:
        one = catalog.register("etl/daily", "sha256:1", TEXT, START)
        assert other.get("etl/daily") == one
        two = other.register("etl/daily", "sha256:2", TEXT + "#", START)
        assert catalog.get("etl/daily") == two
        for n in range(3, 6):
            other.register("etl/daily", f"sha256:{n}", TEXT, START)
        assert catalog.get("etl/daily").version == 5
        assert catalog.register("etl/daily", "sha256:5", TEXT, START).version == 5
        assert catalog.register("etl/daily", "sha256:1", TEXT, START).version == 6
        assert [c.get("etl/daily").version for c in (catalog, other)] == [6, 6]
        assert [v.version for v in other.list()] == [6]

    def test_pinned_content_that_another_process_registers(self, catalog: PlaybookCatalog, other: PlaybookCatalog) -> None:
        assert catalog.pin("etl/daily", "sha256:1", TEXT, START).version == 0
        registered = other.register("etl/daily", "sha256:1", TEXT, START)
        assert catalog.pin("etl/daily", "sha256:1", TEXT, START) == registered == catalog.by_digest("sha256:1")
        assert catalog.pin("etl/daily", "sha256:1", TEXT, START) == registered

    def test_a_large_playbook(self, catalog: PlaybookCatalog) -> None:
        source = "".join(f"# line {n}\n" for n in range(60_000))
        catalog.register("etl/large", "sha256:1", source, START)
        assert catalog.get("etl/large").source == source

    def test_the_record_of_a_path_is_read_back(self, catalog: PlaybookCatalog) -> None:
        assert catalog.about("etl/daily") == PathRecord("etl/daily")
        record = PathRecord(
            "etl/daily",
            1,
            aliases={"prod": {1: 90, 12: 10}, "test": {12: 1}},
            tags=("größer", "x"),
            deleted_at=START,
            changes=(PathChange(START + 1, "Ada", "prod: 1"), PathChange(START, "", "x")),
        )
        catalog.put_about(record)
        assert catalog.about("etl/daily") == record == catalog.about("etl/daily", fresh=False)
        assert catalog.about("etl/dail") == PathRecord("etl/dail")

    def test_a_path_changes_from_one_revision_to_the_next(self, catalog: PlaybookCatalog) -> None:
        for revision in (1, 2, 3):
            catalog.put_about(PathRecord("etl/daily", revision, tags=(f"r{revision}",)))
        for late in (1, 2, 3, 5):
            with pytest.raises(Conflict, match="somebody else"):
                catalog.put_about(PathRecord("etl/daily", late))
        assert catalog.about("etl/daily").tags == ("r3",)

    def test_the_records_of_all_paths_are_listed_by_prefix(self, catalog: PlaybookCatalog) -> None:
        for path in ("ml/b", "etl/b", "etl/a", "etl%"):
            catalog.put_about(PathRecord(path, 1))
        assert [record.path for record in catalog.all_about("etl/")] == ["etl/a", "etl/b"]
        assert [record.path for record in catalog.all_about()] == ["etl%", "etl/a", "etl/b", "ml/b"]
        catalog.register("etl/c", "sha256:1", TEXT, START)
        assert len(catalog.all_about()) == 4, "of a playbook that is registered nothing need be said"
        assert [v.path for v in catalog.list()] == ["etl/c"]


def head(execution_id: str = "7", **fields: Any) -> Head:
    at = START + int(execution_id) * SECOND
    known: dict[str, Any] = {"status": "running", "path": "etl/daily", "version": 3, "digest": "sha256:1"}
    return Head(**{"execution_id": execution_id, **known, "started_at": at, "updated_at": at, **fields})


def due(index: ExecutionIndex, now: int) -> list[str]:
    return [one.execution_id for one in index.due(now)]


class ExecutionIndexContract:
    """Give a fixture `index`: an empty index."""

    def test_a_head_is_read_back(self, index: ExecutionIndex) -> None:
        record = head(
            status="failed",
            finished_at=START + 99,
            error={"kind": "timeout", "message": "ü"},
            parent={"execution_id": "3", "run_id": "r1"},
            expires_at=START // SECOND + 3600,
            labels={"env": "prod", "team": "ü"},
        )
        index.put_head(record)
        assert list(index.heads()) == [record]
        assert index.head("7") == record
        assert index.head("8") is None

    def test_a_newer_head_replaces_an_older_one_never_the_other_way(self, index: ExecutionIndex) -> None:
        first, later = head(), head(status="waiting", updated_at=START + 60 * SECOND)
        index.put_head(first)
        index.put_head(later)
        index.put_head(first)
        assert list(index.heads()) == [later]

    def test_a_terminal_head_is_not_undone_by_one_of_the_same_instant(self, index: ExecutionIndex) -> None:
        ended = head(status="completed", finished_at=START)
        index.put_head(head())
        index.put_head(ended)
        index.put_head(head())
        assert list(index.heads()) == [ended]

    def test_a_redriven_execution_runs_again(self, index: ExecutionIndex) -> None:
        index.put_head(head(status="failed", finished_at=START))
        again = head(status="running", updated_at=START + 60 * SECOND)
        index.put_head(again)
        assert list(index.heads()) == [again]

    def test_heads_are_found_by_their_search_attributes(self, index: ExecutionIndex) -> None:
        index.put_head(head("1", search={"customer": "acme", "total": 12}))
        index.put_head(head("2", search={"customer": "acme & sons", "total": 12.5, "paid": True}))
        index.put_head(head("3", search={"customer": "acme", "total": 120}, status="failed", path="etl/other"))
        index.put_head(head("4", search={}))
        index.put_head(head("5"))

        def found(where: dict[str, str], **more: Any) -> list[str]:
            return [h.execution_id for h in index.heads(where=where, **more)]

        assert found({"customer": "acme"}) == ["3", "1"]
        assert found({"customer": "acme", "total": "12"}) == ["1"]
        assert found({"total": "12", "customer": "nobody"}) == []
        assert found({"total": "12.5"}) == ["2"] == found({"paid": "true"}) == found({"customer": "acme & sons"})
        assert found({"customer": "acme"}, status="failed") == ["3"] == found({"customer": "acme"}, path="etl/other")
        assert found({"customer": "acme"}, limit=1) == ["3"]
        assert found({"customer": "acme"}, before="3") == ["1"]
        assert found({"customer": "acme"}, since=START + 2 * SECOND) == ["3"]
        assert found({"nobody": "x"}) == []
        assert index.head("2") == head("2", search={"customer": "acme & sons", "total": 12.5, "paid": True})
        assert index.head("4") == head("4", search={})

    def test_a_head_is_found_by_the_attributes_that_it_has_now(self, index: ExecutionIndex) -> None:
        first, later = ({"stage": "new", "customer": "acme"}, {"stage": "paid"})
        index.put_head(head("1", search=first))
        index.put_head(head("1", search=later, updated_at=START + 60 * SECOND))
        assert list(index.heads(where={"stage": "new"})) == [] == list(index.heads(where={"customer": "acme"}))
        assert [h.search for h in index.heads(where={"stage": "paid"})] == [later]
        index.put_head(head("1", search=first))
        assert [h.search for h in index.heads(where={"stage": "paid"})] == [later], "an older head is not written"
        assert list(index.heads(where={"stage": "new"})) == []

    def test_heads_come_newest_first(self, index: ExecutionIndex) -> None:
        for n in ("3", "1", "2", "10"):
            index.put_head(head(n))
        assert [h.execution_id for h in index.heads()] == ["10", "3", "2", "1"]
        assert [h.execution_id for h in index.heads(limit=2)] == ["10", "3"]

    def test_heads_oldest_first(self, index: ExecutionIndex) -> None:
        for n in range(1, 8):
            index.put_head(head(str(n), status="failed" if n % 2 else "running", search={"customer": "acme"}))
        pages: list[list[str]] = []
        before = None
        while (page := [h.execution_id for h in index.heads(limit=3, before=before, oldest_first=True)]) and len(pages) < 9:
            pages.append(page)
            before = page[-1]
        assert pages == [["1", "2", "3"], ["4", "5", "6"], ["7"]]
        found = index.heads("failed", since=START + 2 * SECOND, before="3", oldest_first=True)
        assert [h.execution_id for h in found] == ["5", "7"]
        found = index.heads(where={"customer": "acme"}, before="5", oldest_first=True)
        assert [h.execution_id for h in found] == ["6", "7"]

    def test_heads_page_by_page(self, index: ExecutionIndex) -> None:
        for n in range(1, 8):
            index.put_head(head(str(n)))
        pages: list[list[str]] = []
        before = None
        while (page := [h.execution_id for h in index.heads(limit=3, before=before)]) and len(pages) < 9:
            pages.append(page)
            before = page[-1]
        assert pages == [["7", "6", "5"], ["4", "3", "2"], ["1"]]

    def test_heads_that_began_at_the_same_instant_all_appear(self, index: ExecutionIndex) -> None:
        for n in range(1, 6):
            index.put_head(head(str(n), started_at=START))
        seen: list[str] = []
        while (page := index.heads(limit=2, before=seen[-1] if seen else None)) and len(seen) < 9:
            seen += [h.execution_id for h in page]
        assert sorted(seen) == ["1", "2", "3", "4", "5"]

    def test_heads_filtered(self, index: ExecutionIndex) -> None:
        for n in range(1, 9):
            index.put_head(head(str(n), status="failed" if n % 2 else "running", path="etl/b" if n > 4 else "etl/a"))
        assert [h.execution_id for h in index.heads(status="failed", path="etl/b")] == ["7", "5"]
        assert [h.execution_id for h in index.heads(status="failed", limit=3)] == ["7", "5", "3"]
        assert [h.execution_id for h in index.heads(since=START + 6 * SECOND)] == ["8", "7", "6"]
        assert [h.execution_id for h in index.heads(status="failed", limit=2, before="5")] == ["3", "1"]
        assert list(index.heads(path="etl/")) == []

    def test_due_items_come_oldest_first_when_their_time_has_come(self, index: ExecutionIndex) -> None:
        for execution_id, at in (("11", 30), ("12", 10), ("13", 20), ("14", 40)):
            index.set_due(execution_id, START + at)
        assert due(index, START) == []
        assert due(index, START + 30) == ["12", "13", "11"]
        assert next(iter(index.due(START + 99))) == Due(START + 10, "12")

    def test_more_due_items_than_a_page_come_each_once_though_they_move_meanwhile(self, index: ExecutionIndex) -> None:
        for n in range(250):
            index.set_due(str(n), START + n // 3)  # several at an instant
        seen = []
        for one in index.due(START + 999):
            seen.append(one.execution_id)
            assert index.claim_due(one, START + 5_000) == 1
        assert sorted(seen, key=int) == [str(n) for n in range(250)]
        assert due(index, START + 999) == []

    def test_a_due_item_is_claimed_by_one_and_counts_the_attempts_that_did_not_end(self, index: ExecutionIndex) -> None:
        index.set_due("11", START)
        (first,) = index.due(START)
        assert index.claim_due(first, START + 90) == 1
        assert index.claim_due(first, START + 91) is None, "somebody else has it"
        (again,) = index.due(START + 90)
        assert again == Due(START + 90, "11")
        assert index.claim_due(again, START + 180) == 2
        assert index.claim_due(Due(START + 180, "11"), START + 270) == 3
        index.set_due("11", START + 300, seen=START + 270)  # the reconciliation has ended
        assert index.claim_due(Due(START + 300, "11"), START + 400) == 1
        index.clear_due("11")
        assert index.claim_due(Due(START + 400, "11"), START + 500) is None

    def test_a_due_item_that_was_moved_meanwhile_stays_where_it_is(self, index: ExecutionIndex) -> None:
        index.set_due("11", START + 90)
        index.set_due("11", START + 5)
        index.set_due("11", START + 3600, seen=START + 90)
        assert due(index, START + 5) == ["11"]
        index.set_due("12", START + 3600, seen=START + 90)
        assert due(index, START + 9999) == ["11"], "what has ended is not due again"

    def test_a_due_item_is_replaced_and_removed(self, index: ExecutionIndex) -> None:
        index.set_due("11", START)
        index.set_due("11", START + 50)
        assert due(index, START + 10) == []
        index.set_due("11", 0)
        assert due(index, START) == ["11"]
        index.clear_due("11")
        index.clear_due("11")
        assert due(index, START + 99) == []


class LastingIndexContract(ExecutionIndexContract):
    """The additional contract of indexes that outlive an execution. Define also `clock`, the index's clock."""

    def test_heads_of_expired_logs_are_not_shown(self, index: ExecutionIndex, clock: FakeClock) -> None:
        index.put_head(head("1", expires_at=START // SECOND + 60))
        kept = head("2", expires_at=START // SECOND + 600)
        index.put_head(kept)
        clock.sleep(61)
        assert list(index.heads()) == [kept]

    def test_a_new_execution_of_an_expired_id(self, index: ExecutionIndex, clock: FakeClock) -> None:
        old = head("1", status="completed", expires_at=START // SECOND + 60)
        index.put_head(old)
        clock.sleep(61)
        new = replace(old, status="running", started_at=clock.now(), updated_at=clock.now(), expires_at=START // SECOND + 600)
        index.put_head(new)
        assert list(index.heads()) == [new]


class GatesContract:
    """Give a fixture `gates`: no gates yet."""

    def test_no_gate_means_run(self, gates: Gates) -> None:
        assert gates.gate("7") == Gate()

    def test_a_gate_is_read_back_and_replaced(self, gates: Gates) -> None:
        gates.set_gate("7", Gate("pause", frozenset({"r2", "r1"})))
        assert gates.gate("7") == Gate("pause", frozenset({"r1", "r2"}))
        gates.set_gate("7", Gate("stop"))
        assert gates.gate("7") == Gate("stop")
        gates.set_gate("7", Gate())
        assert gates.gate("7") == Gate()
        assert gates.gate("8") == Gate()


class LastingGatesContract(GatesContract):
    """Gates of a store that does not forget by itself; give a fixture `clock` too."""

    def test_a_gate_expires_with_its_log_so_that_a_key_used_again_does_not_meet_it(self, gates: Gates, clock: FakeClock) -> None:
        gates.set_gate("7", Gate("stop", expires_at=clock.now() // SECOND + 60))
        assert gates.gate("7") == Gate("stop")
        clock.sleep(62)
        assert gates.gate("7") == Gate()
