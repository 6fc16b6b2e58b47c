"""What the AWS adapters do beyond the contracts: keys, requests, lost answers, refusals."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ParamValidationError
from moto import mock_aws

from noetl_core.adapters.aws.catalog import DynamoPlaybookCatalog
from noetl_core.adapters.aws.clients import client
from noetl_core.adapters.aws.dead_letters import drain
from noetl_core.adapters.aws.events import SPREAD, DynamoEventStore, commit_from_image, partition, sort_key
from noetl_core.adapters.aws.index import HEAD_SHARDS, DynamoExecutionIndex
from noetl_core.adapters.aws.queue import SqsCommandQueue
from noetl_core.adapters.aws.results import S3ResultStore
from noetl_core.adapters.aws.secrets import RecentSecrets, SecretsManager
from noetl_core.codec import decode_events
from noetl_core.control.admit import StartRequest
from noetl_core.engine.ids import step_run_id
from noetl_core.engine.records import Event, Snapshot, StreamId
from noetl_core.engine.statuses import STATUSES
from noetl_core.local import LocalWiring
from noetl_core.ports import Conflict, CorruptLog, DeadLetter, NotFound, TooLarge, Unavailable
from tests.contract.aws import environment, make_bucket, make_queue, make_table
from tests.contract.catalog import head
from tests.contract.clocks import START, FakeClock
from tests.contract.event_store import CONTROL, NOW_S, RUN, commit
from tests.contract.stores import command


@pytest.fixture(scope="module", autouse=True)
def aws() -> Iterator[None]:
    with mock_aws(), environment():
        yield


@pytest.fixture
def results() -> S3ResultStore:
    return S3ResultStore(make_bucket())


@pytest.fixture
def table() -> str:
    return make_table("EventsTable")


@pytest.fixture
def store(table: str, results: S3ResultStore) -> DynamoEventStore:
    return DynamoEventStore(table, results, FakeClock())


def items(table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client("dynamodb").scan(TableName=table)["Items"]
    return found


@contextmanager
def watching(service: str, hook: str, handler: Any) -> Iterator[None]:
    """A botocore event handler for a while."""
    events = client(service).meta.events
    events.register(hook, handler)
    try:
        yield
    finally:
        events.unregister(hook, handler)


@contextmanager
def requests(service: str) -> Iterator[list[str]]:
    """The operations that are asked for."""
    seen: list[str] = []

    def note(model: Any, **_: Any) -> None:
        seen.append(model.name)

    with watching(service, f"before-call.{service}", note):
        yield seen


def refuse(code: str, status: int = 400) -> Any:
    """A handler that answers an operation before it is sent."""

    class Answer:
        status_code = status

    def answer(**_: Any) -> Any:
        return Answer(), {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}

    return answer


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

    def test_what_fits_a_write_unit_is_one(self, store: DynamoEventStore, table: str) -> None:
        store.append(
            commit(CONTROL, 0, events=tuple(Event("TokenEnqueued", START, {"token": f"t{n:024}", "step": "s"}) for n in range(9)))
        )
        (item,) = items(table)
        assert sum(len(k) + len(next(iter(v.values()))) for k, v in item.items()) < 1024


class TestRequests:
    """What each call costs."""

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
        assert seen == ["PutItem", *["Query"] * HEAD_SHARDS * (len(STATUSES) + 1)]

    def test_a_listing_reads_what_it_shows_however_many_executions_there_are(self) -> None:
        index = DynamoExecutionIndex(make_table("CatalogTable"), FakeClock())
        for n in (0, 1, 2):
            index.put_head(head(str(n), status="failed", path="etl/rare"))

        def read_by(**asked: Any) -> int:
            scanned: list[int] = []
            count = "after-call.dynamodb.Query"
            client("dynamodb").meta.events.register(count, lambda parsed, **_: scanned.append(parsed["ScannedCount"]), "count")
            index.heads(limit=20, **asked)
            client("dynamodb").meta.events.unregister(count, unique_id="count")
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

    def test_a_replaced_credential_is_read_when_the_known_one_is_old_and_a_missing_one_at_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stored, recent = SecretsManager("old/"), RecentSecrets("old/")
        with pytest.raises(NotFound, match="there is no credential 'api'"):
            recent.get("api")
        stored.put("api", {"token": "1"})
        assert recent.get("api") == {"token": "1"}
        stored.put("api", {"token": "2"})
        assert recent.get("api") == {"token": "1"}
        monkeypatch.setattr("aws_lambda_powertools.utilities.parameters.base.datetime", Later)
        assert recent.get("api") == {"token": "2"}


class Later(datetime):
    """Two minutes on."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return super().now(tz) + timedelta(seconds=120)


class TestRefusals:
    @pytest.mark.parametrize(
        ("code", "status"),
        [
            ("ProvisionedThroughputExceededException", 400),
            ("ThrottlingException", 400),
            ("InternalServerError", 500),
            ("Odd", 503),
        ],
    )
    def test_a_service_that_cannot_now_is_unavailable(self, store: DynamoEventStore, code: str, status: int) -> None:
        with watching("dynamodb", "before-call.dynamodb", refuse(code, status)):
            for call in (
                lambda: store.append(commit()),
                lambda: store.read(RUN),
                lambda: store.last(RUN),
                lambda: store.load_snapshot("1"),
                lambda: store.save_snapshot(Snapshot("1", 1, 1, {})),
            ):
                with pytest.raises(Unavailable, match=code):
                    call()

    def test_a_service_that_does_not_answer_is_unavailable(self, store: DynamoEventStore) -> None:
        def silence(**_: Any) -> Any:
            raise EndpointConnectionError(endpoint_url="http://nowhere")

        with watching("dynamodb", "before-call.dynamodb", silence), pytest.raises(Unavailable):
            store.append(commit())

    def test_what_retrying_does_not_heal_is_not_called_unavailable(self, store: DynamoEventStore) -> None:
        with watching("dynamodb", "before-call.dynamodb", refuse("AccessDeniedException")), pytest.raises(ClientError):
            store.append(commit())

    def test_a_mistake_of_ours_is_not_called_unavailable(self, store: DynamoEventStore) -> None:
        with pytest.raises(ParamValidationError):
            store.append(commit(writer=7))  # type: ignore[arg-type]

    def test_an_item_over_the_limit_is_too_large(self, store: DynamoEventStore) -> None:
        with pytest.raises(TooLarge):
            store.append(commit(writer="w" * 420_000))

    def test_a_put_whose_answer_was_lost_is_known_by_its_writer(self, store: DynamoEventStore) -> None:
        mine = commit(RUN, 0, wake=True)
        lost: list[str] = []

        def lose(**_: Any) -> None:
            if not lost:
                lost.append("answer")
                raise EndpointConnectionError(endpoint_url="http://gone")

        with watching("dynamodb", "after-call.dynamodb.PutItem", lose), pytest.raises(Unavailable):
            store.append(mine)
        store.append(mine)
        assert list(store.read(RUN)) == [mine]

    def test_a_lost_body_is_a_corrupt_log(self, table: str, results: S3ResultStore, store: DynamoEventStore) -> None:
        noise = random.Random(60).randbytes(600 * 1024).hex()
        store.append(commit(RUN, 0, events=(Event("X", 1, {"n": noise}),)))
        with pytest.raises(CorruptLog, match="4242"):
            list(DynamoEventStore(table, S3ResultStore(make_bucket()), FakeClock()).read(RUN))

    def test_a_lost_snapshot_is_no_snapshot(self, table: str, store: DynamoEventStore) -> None:
        noise = random.Random(60).randbytes(600 * 1024).hex()
        snapshot = Snapshot("4242", 3, 1, {"n": noise})
        store.save_snapshot(snapshot)
        assert store.load_snapshot("4242") == snapshot
        assert DynamoEventStore(table, S3ResultStore(make_bucket()), FakeClock()).load_snapshot("4242") is None

    def test_commands_that_the_queue_refuses_twice_are_returned(self, results: S3ResultStore) -> None:
        queue = SqsCommandQueue({"default": make_queue("CommandQueue")}, "", results)
        asked: list[list[str]] = []

        def refuse_odd(parsed: dict[str, Any], **_: Any) -> None:
            ids = [e["Id"] for e in parsed["Successful"]]
            asked.append(ids)
            parsed["Failed"] = [{"Id": i, "SenderFault": False, "Code": "InternalError"} for i in ids if int(i) % 2]

        with watching("sqs", "after-call.sqs.SendMessageBatch", refuse_odd):
            unsent = queue.send([command(n) for n in range(4)])
        assert [c.run_id for c in unsent] == ["r1", "r3"]
        assert asked == [["0", "1", "2", "3"], ["1", "3"]]

    def test_a_playbook_over_the_limit_is_too_large(self) -> None:
        noise = random.Random(90).randbytes(900 * 1024).hex()
        with pytest.raises(TooLarge, match="etl/huge"):
            DynamoPlaybookCatalog(make_table("CatalogTable")).register("etl/huge", "sha256:1", noise, START)

    def test_a_credential_that_is_not_an_object_is_refused_without_being_shown(self) -> None:
        client("secretsmanager").create_secret(Name="odd/plain", SecretString="hunter2")
        with pytest.raises(NotFound) as refused:
            SecretsManager("odd/").get("plain")
        assert "hunter2" not in str(refused.value)
        assert refused.value.__cause__ is None


class TestDeadLetters:
    def test_each_is_handled_once_and_then_gone(self, results: S3ResultStore) -> None:
        url = make_queue("CommandDeadLetters")
        large = command(2, expected_seq=4, mail=({"wait_id": "w", "data": "x" * 900_000},), context=None)
        queue = SqsCommandQueue({"default": url}, url, results)
        queue.send([command(1), large])
        queue.wake("9")
        handled: list[DeadLetter] = []
        assert drain([url], handled.append) == 3
        assert sorted(handled, key=lambda letter: letter.run_id or "") == [
            DeadLetter("9"),
            DeadLetter("7", "r1", "fetch", 0),
            DeadLetter("7", "r2", "fetch", 4),
        ]
        assert drain([url], handled.append) == 0

    def test_there_is_an_end_when_time_is_over(self, results: S3ResultStore) -> None:
        url = make_queue("ControlDeadLetters")
        SqsCommandQueue({"default": url}, url, results).wake(*map(str, range(25)))
        handled: list[DeadLetter] = []
        assert drain([url], handled.append, late=lambda: len(handled) >= 3) == 3
        assert len(handled) == 3

    @pytest.mark.parametrize("letter", ["no json", "[]", '{"requestContext": {"functionArn": "router"}}'])
    def test_what_names_no_execution_is_left_for_the_alarm(self, letter: str) -> None:
        url = make_queue("ControlDeadLetters")
        client("sqs").send_message(QueueUrl=url, MessageBody=letter)
        assert drain([url], lambda letter: pytest.fail("handled")) == 0
        asked = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert asked["ApproximateNumberOfMessagesNotVisible"] == "1"

    @pytest.mark.parametrize("error", [Unavailable("not now"), CorruptLog("broken"), TypeError("a bug")])
    def test_a_letter_whose_handling_fails_stays_and_the_others_do_not_wait_for_it(
        self, error: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        url = make_queue("ControlDeadLetters")
        for body in ('{"wake": "8"}', '{"wake": "9"}', '{"wake": "10"}'):
            client("sqs").send_message(QueueUrl=url, MessageBody=body)
        handled: list[str] = []

        def handle(letter: DeadLetter) -> None:
            if letter.execution_id == "9":
                raise error
            handled.append(letter.execution_id)

        assert drain([url], handle) == 2
        assert sorted(handled) == ["10", "8"]
        (line,) = [r for r in caplog.records if r.levelname == "ERROR"]
        assert "execution 9" in line.getMessage()
        asked = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert asked["ApproximateNumberOfMessagesNotVisible"] == "1"


class TestStreamRecords:
    def delivered(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """An item as Lambda delivers it: binary is base64 text."""
        return {k: {"B": base64.b64encode(v["B"]).decode()} if "B" in v else v for k, v in item.items()}

    @pytest.mark.parametrize("stream", [CONTROL, RUN])
    def test_a_new_image_is_the_commit(
        self, store: DynamoEventStore, table: str, results: S3ResultStore, stream: StreamId
    ) -> None:
        said = commit(stream, 0, wake=True, lease_until=5, expires_at=NOW_S + 9)
        store.append(said)
        (item,) = items(table)
        assert commit_from_image(self.delivered(item), results) == said
        assert commit_from_image(item, results) == said

    def test_a_snapshot_is_no_commit(self, store: DynamoEventStore, table: str, results: S3ResultStore) -> None:
        store.save_snapshot(Snapshot("4242", 1, 1, {"status": "running"}))
        (item,) = items(table)
        assert commit_from_image(self.delivered(item), results) is None

    @pytest.mark.parametrize("missing", ["writer", "body", "v"])
    def test_an_image_that_does_not_read_is_a_corrupt_log(
        self, store: DynamoEventStore, table: str, results: S3ResultStore, missing: str
    ) -> None:
        store.append(commit(RUN))
        (item,) = items(table)
        del item[missing]
        with pytest.raises(CorruptLog, match="r#4242"):
            commit_from_image(item, results)


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


def test_a_path_longer_than_dynamodb_takes_is_a_path_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for it, DynamoDB refuses the request: each time, for the caller and for the router whose playbook names such a child."""
    monkeypatch.setattr("noetl_core.adapters.aws.table.client", lambda _: pytest.fail("it was asked"))
    for path in ("a" * 3_000, "\u00e9" * 600, "\ud800" * 1_000):
        with pytest.raises(NotFound, match="no path is that long"):
            DynamoPlaybookCatalog("t").get(path)
