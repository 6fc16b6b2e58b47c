"""What the queues gave up on: commands and wakes whose handling failed every time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from noetl_core.adapters.aws.clients import client, errors_of

BATCH = 10


def drain(queues: Sequence[str], bury: Callable[[str, str], None], limit: int = 100) -> int:
    """Call `bury(execution_id, what)` for each dead letter, then delete it; how many there were.

    Letters that name no execution (stream batches: the sweeper routes their records from the log) are left for the alarm.
    """
    buried = 0
    for url in queues:
        while buried < limit:
            with errors_of("dead letters"):
                messages = (
                    client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=BATCH, WaitTimeSeconds=0).get("Messages", [])
                )
            if not messages:
                break
            for message in messages:
                found = _read(message["Body"])
                if found is None:
                    continue
                bury(*found)
                with errors_of("dead letters"):
                    client("sqs").delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                buried += 1
    return buried


def _read(body: str) -> tuple[str, str] | None:
    """The execution a letter is about, and what could not be done."""
    try:
        letter = json.loads(body)
    except ValueError:
        return None
    if not isinstance(letter, dict):
        return None
    if isinstance(letter.get("wake"), str):
        return letter["wake"], "looking at it failed again and again"
    if isinstance(letter.get("execution_id"), str):
        return letter[
            "execution_id"
        ], f"the command of step {letter.get('step')} (run {letter.get('run_id')}) failed again and again"
    return None
