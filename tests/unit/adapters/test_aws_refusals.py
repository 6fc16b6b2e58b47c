"""Refusals of AWS services, as exceptions of the adapters."""

from __future__ import annotations

import random
import zlib
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ParamValidationError

from noetl_core.adapters.aws.catalog_table.catalog import DynamoPlaybookCatalog
from noetl_core.adapters.aws.clients import client
from noetl_core.adapters.aws.events import DynamoEventStore
from noetl_core.adapters.aws.queue import SqsCommandQueue
from noetl_core.adapters.aws.results import S3ResultStore
from noetl_core.adapters.aws.secrets import RecentSecrets, SecretsManager
from noetl_core.engine.records import Event, Snapshot
from noetl_core.ports import CorruptLog, NotFound, TooLarge, Unavailable
from noetl_core.testing.contracts.clocks import START, FakeClock
from noetl_core.testing.contracts.event_store import RUN, commit
from noetl_core.testing.contracts.stores import command
from tests.contract.aws import make_bucket, make_queue, make_table
from tests.unit.adapters.aws_services import aws, refuse, results, store, table, watching

__all__ = ["aws", "results", "store", "table"]


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
    def test_a_transient_refusal_is_reported_as_unavailable(self, store: DynamoEventStore, code: str, status: int) -> None:
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

    def test_a_permanent_refusal_is_not_reported_as_unavailable(self, store: DynamoEventStore) -> None:
        with watching("dynamodb", "before-call.dynamodb", refuse("AccessDeniedException")), pytest.raises(ClientError):
            store.append(commit())

    def test_an_invalid_request_is_not_reported_as_unavailable(self, store: DynamoEventStore) -> None:
        with pytest.raises(ParamValidationError):
            store.append(commit(writer=7))  # type: ignore[arg-type]

    def test_an_item_over_the_limit_is_too_large(self, store: DynamoEventStore) -> None:
        with pytest.raises(TooLarge):
            store.append(commit(writer="w" * 420_000))

    def test_repeating_a_put_whose_answer_was_lost_succeeds(self, store: DynamoEventStore) -> None:
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

    def test_the_one_snapshot_of_an_older_version_counts_until_there_is_a_newer_one(
        self, table: str, store: DynamoEventStore
    ) -> None:
        body = zlib.compress(b'{"seq":500}')
        item = {"pk": {"S": "s#4242"}, "sk": {"S": "snapshot"}, "seq": {"N": "500"}, "reducer": {"N": "1"}, "body": {"B": body}}
        client("dynamodb").put_item(TableName=table, Item=item)
        assert store.load_snapshot("4242") == Snapshot("4242", 500, 1, {"seq": 500})
        assert store.load_snapshot("4242", upto=600) is None
        newer = Snapshot("4242", 600, 1, {"seq": 600})
        store.save_snapshot(newer)
        assert store.load_snapshot("4242") == store.load_snapshot("4242", upto=700) == newer

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

    @pytest.mark.parametrize("text", ["hunter2", "123456", '["a"]', "two\nlines\n", '"quoted"', "true"])
    def test_a_secret_that_is_plain_text_is_a_credential_with_a_value(self, text: str) -> None:
        name = f"plain-{text[:3].encode().hex()}"
        client("secretsmanager").create_secret(Name=f"odd/{name}", SecretString=text)
        for secrets in (SecretsManager("odd/"), RecentSecrets("odd/")):
            assert secrets.get(name) == {"value": text.rstrip("\n")}

    @pytest.mark.parametrize("text", ['{"password": "hunter2"', "{hunter2}", " \n"])
    def test_a_credential_that_is_broken_off_is_refused_without_being_shown(self, text: str) -> None:
        name = f"broken-{text[:3].encode().hex()}"
        client("secretsmanager").create_secret(Name=f"odd/{name}", SecretString=text)
        with pytest.raises(NotFound) as refused:
            SecretsManager("odd/").get(name)
        assert "hunter2" not in str(refused.value)
        assert refused.value.__cause__ is None
