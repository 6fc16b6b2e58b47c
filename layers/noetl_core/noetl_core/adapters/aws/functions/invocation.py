"""Shared by the Lambda functions: the time an invocation has left, and one log line per failed record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType
from aws_lambda_powertools.utilities.batch.base import FailureResponse
from aws_lambda_powertools.utilities.typing import LambdaContext


class TimeLeft:
    """The time that an invocation has left, minus `spare_s`; without a context there is no limit."""

    def __init__(self, context: LambdaContext | None, spare_s: float) -> None:
        self._context, self._spare_s = context, spare_s

    @property
    def seconds(self) -> float:
        if self._context is None:
            return float("inf")
        return float(self._context.get_remaining_time_in_millis()) / 1000 - self._spare_s


class LoggedBatch(BatchProcessor):
    """Handles the messages of a queue separately. A failed one is delivered again, and logged once with the reason and the fields
    that `about` returns."""

    def __init__(self, logger: Logger, about: Callable[[Any], Mapping[str, Any]]) -> None:
        super().__init__(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
        self._log, self._about = logger, about

    def failure_handler(
        self, record: Any, exception: tuple[type[BaseException] | None, BaseException | None, TracebackType | None]
    ) -> FailureResponse:
        log_failure(self._log, lambda _: self._about(record), record, exception[1])
        return super().failure_handler(record, exception)


def log_failure(logger: Logger, about: Callable[[Any], Mapping[str, Any]], record: Any, error: BaseException | None) -> None:
    """Log a message that failed, with the fields that `about` returns for its body."""
    body = getattr(record, "body", "")
    try:
        fields = dict(about(body))
    except (ValueError, LookupError, AttributeError, TypeError):
        fields = {"text": str(body)[:200]}
    received = getattr(getattr(record, "attributes", None), "approximate_receive_count", None)
    logger.error(
        "a message failed; it comes again", extra={**fields, "received": received, "reason": repr(error)}, exc_info=error
    )
