"""Commands over SQS: a queue per pool, and the control queue for wakes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from noetl_core.adapters.aws.clients import client, errors_of
from noetl_core.codec import encode_command
from noetl_core.engine.records import Command

BATCH = 10
MAX_MESSAGE = 200 * 1024
"""Bytes of a command with its context; a larger one goes without, and the worker folds the log instead."""
MAX_BATCH_BYTES = 900 * 1024
"""SQS takes 1 MiB a request, attributes included."""


class SqsCommandQueue:
    """`CommandQueue` over SQS. `pools`: pool name -> queue URL; `control`: URL of the control queue."""

    def __init__(self, pools: Mapping[str, str], control: str) -> None:
        self._pools, self._control = pools, control

    def send(self, commands: Sequence[Command], delay_s: int = 0) -> Sequence[Command]:
        unsent: list[Command] = []
        by_pool: dict[str, list[Command]] = {}
        for command in commands:
            by_pool.setdefault(command.pool, []).append(command)
        for pool, mine in by_pool.items():
            url = self._pools.get(pool) or self._pools["default"]
            for batch in _batches(mine):
                unsent += self._send(url, batch, delay_s)
        return unsent

    def _send(self, url: str, batch: Sequence[tuple[Command, str]], delay_s: int) -> list[Command]:
        entries = [
            {"Id": str(n), "MessageBody": body, **({"DelaySeconds": delay_s} if delay_s else {})}
            for n, (_, body) in enumerate(batch)
        ]
        for _ in range(2):
            with errors_of("send commands"):
                answer = client("sqs").send_message_batch(QueueUrl=url, Entries=entries)
            refused = {f["Id"] for f in answer.get("Failed", ())}
            entries = [e for e in entries if e["Id"] in refused]
            if not entries:
                return []
        return [batch[int(str(e["Id"]))][0] for e in entries]

    def wake(self, execution_id: str, delay_s: int = 0) -> None:
        with errors_of("wake"):
            client("sqs").send_message(
                QueueUrl=self._control, MessageBody=json.dumps({"wake": execution_id}), DelaySeconds=max(0, min(delay_s, 900))
            )

    def depth(self, pool: str) -> int:
        with errors_of("queue depth"):
            answer = client("sqs").get_queue_attributes(
                QueueUrl=self._pools.get(pool) or self._pools["default"], AttributeNames=["ApproximateNumberOfMessages"]
            )
        return int(answer.get("Attributes", {}).get("ApproximateNumberOfMessages", 0))


def _batches(commands: Sequence[Command]) -> Iterator[list[tuple[Command, str]]]:
    batch: list[tuple[Command, str]] = []
    size = 0
    for command in commands:
        body = encode_command(command)
        if len(body.encode()) > MAX_MESSAGE:
            body = encode_command(replace(command, context=None))
        length = len(body.encode())
        if batch and (len(batch) == BATCH or size + length > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((command, body))
        size += length
    if batch:
        yield batch
