"""Tests the AWS adapters beyond the contracts: keys, requests, lost answers."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import EndpointConnectionError

from noetl_core.adapters.aws.catalog_table.catalog import DynamoPlaybookCatalog
from noetl_core.adapters.aws.catalog_table.index import PARTITIONS, DynamoExecutionIndex
from noetl_core.adapters.aws.catalog_table.triggers import DynamoTriggers
from noetl_core.adapters.aws.events import SPREAD, DynamoEventStore, partition, sort_key
from noetl_core.adapters.aws.queue import SqsCommandQueue
from noetl_core.adapters.aws.results import S3ResultStore
from noetl_core.adapters.aws.secrets import RecentSecrets, SecretsManager
from noetl_core.adapters.aws.table import Item, query_pages
from noetl_core.aws import direct_requests
from noetl_core.control.admit import StartRequest
from noetl_core.engine.ids import step_run_id
from noetl_core.engine.records import Event, Snapshot, StreamId
from noetl_core.engine.statuses import STATUSES
from noetl_core.log.codec import decode_events
from noetl_core.ports import Conflict, NotFound, Unavailable
from noetl_core.runtime.local import LocalWiring
from noetl_core.testing.contracts.catalog import head
from noetl_core.testing.contracts.clocks import START, FakeClock
from noetl_core.testing.contracts.event_store import CONTROL, NOW_S, RUN, commit
from noetl_core.testing.contracts.stores import command
from noetl_core.testing.contracts.triggers import record as trigger
from noetl_core.values.instants import SECOND
from tests.contract.aws import make_queue, make_table
from tests.unit.adapters.aws_services import aws, items, requests, results, store, table, watching

__all__ = ["aws", "results", "store", "table"]


class TestLayout:
    def test_the_control_stream(self, store: DynamoEventStore, table: str) -> None:
        store.append(commit(CONTROL, 0, wake=True, expires_at=NOW_S + 60))
        (item,) = items(table)
        assert decode_events(item.pop("body")["B"], 1) == commit(CONTROL).events
        assert item == {
            "pk": {"S": "m#4242"},
            "sk": {"S": "0000000000"},
            "v": {"N": "1"},
            "execution_id": {"S": "4242"},
            "ts": {"N": str(START)},
            "writer": {"S": "alice"},
            "wake": {"N": "1"},
            "expires_at": {"N": str(NOW_S + 60)},
        }

    def test_a_run_stream(self, store: DynamoEventStore, table: str) -> None:
        store.append(commit(RUN, 12, lease_until=START + 60))
        (item,) = items(table)
        assert item["pk"]["S"] == partition(RUN)
        assert item["sk"]["S"] == f"{RUN.run_id}#0000000012"
        assert item["lease_until"] == {"N": str(START + 60)}
        assert not {"wake", "expires_at"} & item.keys()

    def test_run_streams_are_spread_over_partitions(self) -> None:
        used = [partition(StreamId("1", step_run_id("1", [str(n)]))) for n in range(800)]
        shares = [used.count(f"r#1#{n}") for n in range(SPREAD)]
        assert sum(shares) == 800
        assert min(shares) > 60

    def test_positions_sort_as_numbers(self) -> None:
        assert sort_key(RUN, 9) < sort_key(RUN, 10) < sort_key(RUN, 10**9)

    def test_a_large_body_is_in_s3_first_and_the_header_refers_to_it(self, store: DynamoEventStore, table: str) -> None:
        noise = random.Random(60).randbytes(600 * 1024).hex()
        store.append(commit(RUN, 0, events=(Event("X", 1, {"n": noise}),)))
        (item,) = items(table)
        assert "body" not in item
        assert item["body_key"]["S"].startswith("4242/commits/")

    def test_a_commit_of_nine_token_events_fits_one_write_unit(self, store: DynamoEventStore, table: str) -> None:
        store.append(
            commit(CONTROL, 0, events=tuple(Event("TokenEnqueued", START, {"token": f"t{n:024}", "step": "s"}) for n in range(9)))
        )
        (item,) = items(table)
        assert sum(len(k) + len(next(iter(v.values()))) for k, v in item.items()) < 1024


class TestRequests:
    """The requests of each call."""

    def test_an_append_is_one_put(self, store: DynamoEventStore) -> None:
        with requests("dynamodb") as seen:
            store.append(commit())
        assert seen == ["PutItem"]

    def test_a_conflict_reads_nothing_more(self, store: DynamoEventStore) -> None:
        store.append(commit())
        with requests("dynamodb") as seen, pytest.raises(Conflict):
            store.append(commit(writer="bob"))
        assert seen == ["PutItem"]

    def test_reading_one_commit_is_a_get(self, store: DynamoEventStore) -> None:
        with requests("dynamodb") as seen:
            store.read(RUN, after=3, limit=1)
            store.read(RUN)
            store.last(RUN)
        assert seen == ["GetItem", "Query", "Query"]

    def test_a_snapshot_is_one_put_and_one_query(self, store: DynamoEventStore) -> None:
        for seq in (100, 200):
            with requests("dynamodb") as seen:
                store.save_snapshot(Snapshot("4242", seq, 1, {}))
            assert seen == ["PutItem"]
        for upto in (None, 150, 99):
            with requests("dynamodb") as seen:
                store.load_snapshot("4242", upto)
            assert seen == ["Query"]
        with requests("dynamodb") as seen:
            assert store.load_snapshot("1") is None
        assert seen == ["Query"]

    def test_ten_commands_are_one_request(self, results: S3ResultStore) -> None:
        queue = SqsCommandQueue({"default": make_queue("CommandQueue")}, "", results)
        with requests("sqs") as seen:
            queue.send([command(n) for n in range(10)])
            queue.send([command(n) for n in range(11)])
        assert seen == ["SendMessageBatch"] * 3

    def test_a_head_is_one_put(self) -> None:
        index = DynamoExecutionIndex(make_table("CatalogTable"))
        with requests("dynamodb") as seen:
            index.put_head(head())
            index.heads(limit=10)
            index.heads(status="failed")
        assert seen == ["PutItem", *["Query"] * PARTITIONS * (len(STATUSES) + 1)]

    @pytest.mark.nightly
    def test_a_listing_reads_only_matching_heads_however_many_executions_exist(self) -> None:
        index = DynamoExecutionIndex(make_table("CatalogTable"), FakeClock())
        for n in (0, 1, 2):
            index.put_head(head(str(n), status="failed", path="etl/rare"))

        def read_by(**asked: Any) -> int:
            scanned: list[int] = []

            def count(parsed: Any, **_: Any) -> None:
                scanned.append(parsed["ScannedCount"])

            with watching("dynamodb", "after-call.dynamodb.Query", count):
                index.heads(limit=20, **asked)
            return sum(scanned)

        known: list[list[int]] = []
        for n in range(3, 603):
            index.put_head(head(str(n), status="completed"))
            if n in (302, 602):
                asked: list[dict[str, Any]] = [
                    {"status": "failed"},
                    {"path": "etl/rare"},
                    {"path": "etl/rare", "status": "failed"},
                ]
                known.append([read_by(**a) for a in (*asked, {}, {"status": "completed", "path": "etl/daily"})])
        few, many = known
        assert few == many
        assert many[:3] == [3, 3, 3]
        assert [h.execution_id for h in index.heads(status="failed", path="etl/rare")] == ["2", "1", "0"]
        assert [h.execution_id for h in index.heads(limit=30)] == [str(n) for n in range(602, 572, -1)], "further pages, too"

    @pytest.mark.parametrize("is_seen_running", [False, True])
    def test_an_execution_that_ends_during_a_listing_is_listed_once(
        self, monkeypatch: pytest.MonkeyPatch, is_seen_running: bool
    ) -> None:
        index = DynamoExecutionIndex(make_table("CatalogTable"), FakeClock(), partitions=1)
        index.put_head(head("1"))
        completed_are_read = threading.Event()

        def read(what: str, **request: Any) -> Iterator[Item]:
            status = request["ExpressionAttributeValues"][":partition"]["S"].split("#")[1]
            is_running = status == "running"
            if is_running and not is_seen_running:
                completed_are_read.wait(0.5)  # they are not, where those that may end are read first
                index.put_head(head("1", status="completed", updated_at=START + SECOND))
            for page in query_pages(what, **request):
                if is_running and is_seen_running:
                    index.put_head(head("1", status="completed", updated_at=START + SECOND))
                if status == "completed":
                    completed_are_read.set()
                yield page

        monkeypatch.setattr("noetl_core.adapters.aws.catalog_table.index.query_pages", read)
        assert [(h.execution_id, h.status) for h in index.heads(limit=10)] == [("1", "completed")]

    def test_a_registered_version_is_read_once_by_a_process_and_the_latest_every_time(self) -> None:
        table = make_table("CatalogTable")
        DynamoPlaybookCatalog(table).register("etl/a", "d1", "one", START)
        DynamoPlaybookCatalog(table).pin("etl/a", "d2", "two", START)
        catalog = DynamoPlaybookCatalog(table)
        with requests("dynamodb") as seen:
            assert {catalog.get("etl/a", 1).source for _ in range(3)} == {"one"}
            assert {catalog.by_digest("d1").version for _ in range(3)} == {1}
        assert seen == ["GetItem"] * 2
        assert catalog.by_digest("d2").version == 0
        DynamoPlaybookCatalog(table).register("etl/a", "d2", "two", START)
        assert catalog.by_digest("d2").version == 2, "what was only pinned is read again"
        assert catalog.get("etl/a").version == 2

    def test_a_latest_version_is_queried_once_and_then_its_successor_is_read(self) -> None:
        table = make_table("CatalogTable")
        catalog, other = DynamoPlaybookCatalog(table), DynamoPlaybookCatalog(table)
        other.register("etl/a", "d1", "one", START)
        with requests("dynamodb") as seen:
            assert {catalog.get("etl/a").version for _ in range(3)} == {1}
        assert seen == ["Query", "GetItem", "GetItem"]
        with requests("dynamodb") as seen:
            assert {catalog.register("etl/a", "d1", "one", START).version for _ in range(3)} == {1}
        assert seen == ["GetItem"] * 4, "whether the latest is announced is asked once"
        with requests("dynamodb") as seen:
            other.register("etl/a", "d1", "one", START)
        assert seen == ["GetItem"], "this process has announced it"

    def test_content_that_is_registered_is_pinned_without_a_request(self) -> None:
        catalog = DynamoPlaybookCatalog(make_table("CatalogTable"))
        catalog.register("etl/a", "d1", "one", START)
        assert catalog.by_digest("d1").version == 1
        with requests("dynamodb") as seen:
            assert catalog.pin("etl/a", "d1", "one", START).version == 1
        assert seen == []


class TestPartitionsOfTheIndex:
    """More of them than before, over the same table."""

    @pytest.mark.nightly
    def test_heads_under_fewer_partitions_are_listed_and_move_on_the_next_write(self) -> None:
        table = make_table("CatalogTable")
        few, many = (DynamoExecutionIndex(table, FakeClock(), partitions=n) for n in (8, 32))
        for n in range(0, 40, 2):
            few.put_head(head(str(n)))
            many.put_head(head(str(n + 1)))
        many.put_head(head("12", status="completed", updated_at=START + 99 * SECOND))
        assert [h.execution_id for h in many.heads(limit=99)] == [str(n) for n in reversed(range(40))]
        assert [h.execution_id for h in many.heads(status="completed")] == ["12"]
        assert {i["list"]["S"] for i in items(table) if i["status"]["S"] == "completed"} == {"heads#completed#12"}

    def test_entries_due_under_fewer_partitions_stay_due_and_can_be_claimed(self) -> None:
        table = make_table("CatalogTable")
        few, many = (DynamoExecutionIndex(table, FakeClock(), partitions=n) for n in (4, 32))
        for n in range(20):
            few.set_due(str(n), START + n)
        assert [due.execution_id for due in many.due(START + 99)] == [str(n) for n in range(20)]
        assert [many.claim_due(due, START + 500) for due in many.due(START + 99)] == [1] * 20
        assert list(many.due(START + 99)) == []
        many.clear_due("17")
        assert [due.execution_id for due in many.due(START + 999)] == [str(n) for n in range(20) if n != 17]
        assert len(items(table)) == 19, "each is there once"

    def test_a_newer_due_time_replaces_one_under_fewer_partitions(self) -> None:
        table = make_table("CatalogTable")
        few, many = (DynamoExecutionIndex(table, FakeClock(), partitions=n) for n in (4, 32))
        few.set_due("17", START)
        many.set_due("17", START + 500)
        for due in many.due(START + 99):
            assert many.claim_due(due, START + 99) is None
        assert [due.at for due in many.due(START + 999)] == [START + 500]
        assert len(items(table)) == 1


KEYCHAIN = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: reads, path: t/reads}
keychain: [{name: api, kind: credential}]
workflow:
  - step: start
    loop: {in: "{{ range(100) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 20}}
    tool: {kind: python, args: {a: "{{ keychain.api.token }}", b: "{{ keychain.api.user }}"}, code: "result = len(a + b)"}
"""


class TestCredentials:
    def test_a_worker_asks_for_a_credential_once_however_often_it_is_read(self) -> None:
        SecretsManager("once/").put("api", {"type": "generic", "data": {"token": "t-1234", "user": "me"}})
        local = LocalWiring()
        local.worker.secrets = RecentSecrets("once/")
        with requests("secretsmanager") as seen:
            execution_id = local.start(StartRequest(playbook=KEYCHAIN)).execution_id
            assert local.run(execution_id, timeout_s=60)
        assert local.control.load(execution_id).status == "completed"
        local.close()
        assert seen == ["GetSecretValue"]

    def test_a_replaced_credential_is_read_when_the_known_one_is_old_and_a_missing_one_at_once(self) -> None:
        clock = FakeClock()
        stored, recent = SecretsManager("old/"), RecentSecrets("old/", clock)
        with pytest.raises(NotFound, match="there is no credential 'api' in this stack: noetl credentials put api "):
            recent.get("api")
        stored.put("api", {"token": "1"})
        assert recent.get("api") == {"token": "1"}
        stored.put("api", {"token": "2"})
        assert recent.get("api") == {"token": "1"}
        clock.sleep(59)
        assert recent.get("api") == {"token": "1"}
        clock.sleep(1)
        assert recent.get("api") == {"token": "2"}


class TestCatalog:
    def test_a_registration_that_died_half_way_is_made_good_by_the_next(self) -> None:
        catalog = DynamoPlaybookCatalog(make_table("CatalogTable"))
        calls = 0

        def die(**_: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == 3:
                raise EndpointConnectionError(endpoint_url="http://gone")

        with watching("dynamodb", "before-call.dynamodb.PutItem", die), pytest.raises(Unavailable):
            catalog.register("etl/daily", "sha256:1", "text", START)
        assert list(catalog.list()) == []
        again = catalog.register("etl/daily", "sha256:1", "text", START + 5)
        assert (again.version, again.registered_at) == (1, START)
        assert list(catalog.list()) == [replace(again, source="")]


def test_a_path_longer_than_dynamodb_allows_is_not_found(table: str) -> None:
    """DynamoDB would refuse the request each time, for a caller and for a router whose playbook names such a child."""
    with requests("dynamodb") as seen:
        for path in ("a" * 3_000, "\u00e9" * 600, "\ud800" * 1_000):
            with pytest.raises(NotFound, match="a path has at most"):
                DynamoPlaybookCatalog(table).get(path)
    assert seen == []


class TestTakers:
    def test_delivery_triggers_are_read_again_only_after_a_change_or_a_minute(self, table: str) -> None:
        age = FakeClock()
        writer, reader = DynamoTriggers(table), DynamoTriggers(table, lambda: age.now() / SECOND)
        writer.put_trigger(trigger(name="a", kind="event"), "")

        def asked() -> list[str]:
            with requests("dynamodb") as seen:
                assert [one.kind for one in reader.delivery_triggers()] == ["event"]
            return seen

        assert asked() == ["GetItem"] + ["Query"] * 8
        assert asked() == asked() == ["GetItem"]
        schedule = trigger(name="nightly")
        writer.put_trigger(schedule, "")
        writer.put_trigger(replace(schedule, state={"at": 1}, revision="r2"), "r1")
        assert asked() == ["GetItem"], "a schedule that fires is no news"
        writer.put_trigger(trigger(name="a", kind="event", revision="r2"), "r1")
        assert asked() == ["GetItem"] + ["Query"] * 8
        age.sleep(61)
        assert asked() == ["GetItem"] + ["Query"] * 8, "whatever was not told is known after a minute"

    def test_a_replaced_trigger_reaches_readers_even_if_its_response_was_lost(self, table: str) -> None:
        writer, reader = DynamoTriggers(table), DynamoTriggers(table, lambda: 0.0)
        writer.put_trigger(trigger(name="a", kind="event"), "")
        assert len(reader.delivery_triggers()) == 1
        put = direct_requests.put_item

        def lose(**request: Any) -> Any:
            put(**request)
            return put(**request)

        with patch.object(direct_requests, "put_item", lose):
            writer.put_trigger(trigger(name="a", revision="r2"), "r1")
        assert list(reader.delivery_triggers()) == []
