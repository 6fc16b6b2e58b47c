"""Commands over SQS: a queue per pool, and the control queue for wakes.

A command that is too large because of its context is sent without it; the worker then folds the log. A command that is still too
large, because of its mail, is stored in the results bucket, and the message refers to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from noetl_core.adapters.aws.clients import client, errors_of
from noetl_core.aws import direct_requests
from noetl_core.engine.records import Command
from noetl_core.log.codec import decode_command, encode_command
from noetl_core.ports import Backlog, ResultStore, Unavailable, Waiting

BATCH = 10
MAX_MESSAGE = 200 * 1024
"""The most bytes of a message: five of them fit into a request."""
MAX_BATCH_BYTES = 900 * 1024
"""SQS takes 1 MiB per request, including attributes."""


STORED = "stored_command"
COUNTS = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"]


class SqsCommandQueue:
    """`CommandQueue` over SQS. `pools`: pool name -> queue URL; `control`: URL of the control queue; `dead_letters`: URLs of
    the dead-letter queues by their source, for callers who may see them."""

    def __init__(
        self, pools: Mapping[str, str], control: str, results: ResultStore, dead_letters: Mapping[str, str] | None = None
    ) -> None:
        self._pools, self._control, self._results = pools, control, results
        self._dead_letters = dead_letters or {}

    def send(self, commands: Sequence[Command], delay_s: int = 0) -> Sequence[Command]:
        unsent: list[Command] = []
        by_pool: dict[str, list[Command]] = {}
        for command in commands:
            by_pool.setdefault(command.pool, []).append(command)
        for pool, mine in by_pool.items():
            url = self._url(pool)
            for batch in self._batches(mine):
                unsent += [batch[n][0] for n in self._send(url, [body for _, body in batch], delay_s)]
        return unsent

    @staticmethod
    def _send(url: str, bodies: Sequence[str], delay_s: int) -> list[int]:
        """Send up to ten messages; return those that the queue refused."""
        entries = [
            {"Id": str(n), "MessageBody": body, **({"DelaySeconds": delay_s} if delay_s else {})} for n, body in enumerate(bodies)
        ]
        for _ in range(2):
            with errors_of("send messages"):
                answer = direct_requests.send_message_batch(QueueUrl=url, Entries=entries)
            refused = {f["Id"] for f in answer.get("Failed", ())}
            entries = [e for e in entries if e["Id"] in refused]
            if not entries:
                return []
        return [int(str(e["Id"])) for e in entries]

    def wake(self, *executions: str, delay_s: int = 0) -> None:
        bodies = [json.dumps({"wake": execution_id}) for execution_id in executions]
        for first in range(0, len(bodies), BATCH):
            if self._send(self._control, bodies[first : first + BATCH], max(0, min(delay_s, 900))):
                raise Unavailable("wake: the control queue did not take all of a batch")

    def depth(self, pool: str | None) -> int:
        return _waiting(self._control if pool is None else self._url(pool)).waiting

    def _url(self, pool: str) -> str:
        """Return the queue of `pool`. Raises `Unavailable`: workers of another pool may have other rights."""
        if pool not in self._pools:
            there = ", ".join(sorted(self._pools))
            raise Unavailable(
                f"the pool {pool!r} is not deployed any more (deployed: {there}):"
                " deploy it again, or cancel the executions that need it"
            )
        return self._pools[pool]

    def backlog(self) -> Backlog:
        return Backlog(
            {pool: _waiting(url) for pool, url in self._pools.items()},
            _waiting(self._control),
            {name: _waiting(url).waiting for name, url in self._dead_letters.items()},
        )

    def _batches(self, commands: Sequence[Command]) -> Iterator[list[tuple[Command, str]]]:
        batch: list[tuple[Command, str]] = []
        size = 0
        for command in commands:
            body = self._message(command)
            if batch and (len(batch) == BATCH or size + len(body) > MAX_BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append((command, body))
            size += len(body)
        if batch:
            yield batch

    def _message(self, command: Command) -> str:
        body = message_of(command)
        if len(body) > MAX_MESSAGE:
            key = f"{command.execution_id}/commands/{command.run_id}-{command.expected_seq}-{command.mode}.json"
            stored = self._results.put(key, body.encode())["key"]
            fields = {k: getattr(command, k) for k in ("execution_id", "run_id", "step", "expected_seq")}
            body = json.dumps({STORED: stored, **fields})  # `fields` are for `handle_dead_letter`
        return body


def message_of(command: Command) -> str:
    """Return a command as text, without its context if that makes it too large: the worker then folds the log."""
    body = encode_command(command)
    return body if len(body) <= MAX_MESSAGE else encode_command(replace(command, context=None))


def _waiting(url: str) -> Waiting:
    with errors_of("queue depth"):
        found = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=COUNTS).get("Attributes", {})
    return Waiting(*(int(found.get(name, 0)) for name in COUNTS))


def read_command(message: str, results: ResultStore) -> Command:
    """Return the command of a queue message. Raises `ValueError` for anything else."""
    if message.startswith(f'{{"{STORED}"'):
        return decode_command(results.get(json.loads(message)[STORED]))
    return decode_command(message)


def about_command(message: str) -> dict[str, Any]:
    """Return the execution and run of a message, for a log line. Raises `ValueError` for a message that is not JSON."""
    fields = json.loads(message)
    return {"execution_id": fields.get("execution_id"), "step": fields.get("step"), "run": fields.get("run_id")}
