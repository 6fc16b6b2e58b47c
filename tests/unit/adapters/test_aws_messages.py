"""Reads records of AWS queues and streams: dead letters, stream records."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.adapters.aws.dead_letters import drain
from noetl_core.adapters.aws.events import DynamoEventStore, commit_from_image
from noetl_core.adapters.aws.queue import SqsCommandQueue
from noetl_core.adapters.aws.results import S3ResultStore
from noetl_core.engine.records import Snapshot, StreamId
from noetl_core.ports import CorruptLog, DeadLetter, Unavailable
from noetl_core.testing.contracts.event_store import CONTROL, NOW_S, RUN, commit
from noetl_core.testing.contracts.stores import command
from tests.contract.aws import make_queue
from tests.unit.adapters.aws_services import aws, items, results, store, table

__all__ = ["aws", "results", "store", "table"]


class TestDeadLetters:
    def test_each_dead_letter_is_handled_once_and_deleted(self, results: S3ResultStore) -> None:
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

    def test_draining_ends_when_time_is_over(self, results: S3ResultStore) -> None:
        url = make_queue("ControlDeadLetters")
        SqsCommandQueue({"default": url}, url, results).wake(*map(str, range(25)))
        handled: list[DeadLetter] = []
        assert drain([url], handled.append, late=lambda: len(handled) >= 3) == 3
        assert len(handled) == 3

    @pytest.mark.parametrize("letter", ["no json", "[]", '{"requestContext": {"functionArn": "router"}}'])
    def test_a_letter_that_names_no_execution_is_left_for_the_alarm(self, letter: str) -> None:
        url = make_queue("ControlDeadLetters")
        client("sqs").send_message(QueueUrl=url, MessageBody=letter)
        assert drain([url], lambda letter: pytest.fail("handled")) == 0
        asked = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert asked["ApproximateNumberOfMessagesNotVisible"] == "1"

    @pytest.mark.parametrize("error", [Unavailable("not now"), CorruptLog("broken"), TypeError("a bug")])
    def test_a_letter_that_fails_to_be_handled_stays_and_others_continue(
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
        written = commit(stream, 0, wake=True, lease_until=5, expires_at=NOW_S + 9, asks=True)
        store.append(written)
        (item,) = items(table)
        assert commit_from_image(self.delivered(item), results) == written
        assert commit_from_image(item, results) == written

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
