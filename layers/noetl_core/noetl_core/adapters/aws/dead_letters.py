"""Dead letters of SQS: commands and wakes whose handling failed every time. Each letter is handled separately."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence

from noetl_core.adapters.aws.clients import client, errors_of
from noetl_core.ports import DeadLetter, PortError

log = logging.getLogger(__name__)

BATCH = 10


def drain(
    queues: Sequence[str], handle: Callable[[DeadLetter], None], limit: int = 1_000, late: Callable[[], bool] | None = None
) -> int:
    """Call `handle` for each dead letter and then delete it; return how many were handled. Ends at `limit`, and when it is
    `late`.

    A letter whose `handle` fails is logged and kept for the next time. Letters that name no execution (stream batches, whose
    records the sweeper routes from the log) are left for the alarm.
    """
    handled = 0
    for url in queues:
        for letter, receipt in _letters(url):
            if handled >= limit or (late is not None and late()):
                return handled
            try:
                handle(letter)
                with errors_of("dead letters"):
                    client("sqs").delete_message(QueueUrl=url, ReceiptHandle=receipt)
            except Exception:  # one letter must not block the others
                log.exception("a dead letter of execution %s is kept", letter.execution_id)
                continue
            handled += 1
    return handled


def _letters(url: str) -> Iterator[tuple[DeadLetter, str]]:
    """Yield the letters that a queue returns."""
    while True:
        try:
            with errors_of("dead letters"):
                found = (
                    client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=BATCH, WaitTimeSeconds=0).get("Messages", [])
                )
        except PortError:
            log.exception("the dead letters of %s cannot be read", url)
            return
        if not found:
            return
        for message in found:
            letter = read_letter(message["Body"])
            if letter is not None:
                yield letter, message["ReceiptHandle"]


def read_letter(body: str) -> DeadLetter | None:
    """Return the dead letter of a command or a wake; None for any other message."""
    try:
        message = json.loads(body)
    except ValueError:
        return None
    if not isinstance(message, dict):
        return None
    if isinstance(message.get("wake"), str):
        return DeadLetter(message["wake"])
    execution_id, run_id = message.get("execution_id"), message.get("run_id")
    if not isinstance(execution_id, str) or not isinstance(run_id, str):
        return None
    seq = message.get("expected_seq")
    return DeadLetter(execution_id, run_id, str(message.get("step")), seq if type(seq) is int else 0)
