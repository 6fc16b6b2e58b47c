"""What the functions share: the time an invocation has left, an end to what takes too long, a line for every failed record."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType
from aws_lambda_powertools.utilities.batch.base import FailureResponse
from aws_lambda_powertools.utilities.typing import LambdaContext


class OutOfTime(BaseException):
    """What runs takes longer than it may. No handler of errors on its way may take it for one of its own."""


class TimeLeft:
    """The time an invocation has, less `spare_s`; without a context there is no end to it."""

    def __init__(self, context: LambdaContext | None, spare_s: float) -> None:
        self._context, self._spare_s = context, spare_s

    @property
    def seconds(self) -> float:
        if self._context is None:
            return float("inf")
        return float(self._context.get_remaining_time_in_millis()) / 1000 - self._spare_s


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in what is done here after `seconds`, wherever it is: a commit that stands then stands, as after a crash.

    Only the main thread can be told; elsewhere, and for no end of seconds, nothing is limited.
    """
    if seconds == float("inf") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(signum: int, frame: FrameType | None) -> None:
        raise OutOfTime(f"it took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(0.001, seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class LoggedBatch(BatchProcessor):
    """Messages of a queue, each by itself: one that fails comes again, and is logged once, with the reason and what `about` says
    of it."""

    def __init__(self, logger: Logger, about: Callable[[Any], Mapping[str, Any]]) -> None:
        super().__init__(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
        self._log, self._about = logger, about

    def failure_handler(
        self, record: Any, exception: tuple[type[BaseException] | None, BaseException | None, TracebackType | None]
    ) -> FailureResponse:
        try:
            about = dict(self._about(record))
        except (ValueError, LookupError, AttributeError, TypeError):
            about = {"text": str(getattr(record, "body", ""))[:200]}
        received = getattr(getattr(record, "attributes", None), "approximate_receive_count", None)
        self._log.error(
            "a message failed; it comes again",
            extra={**about, "received": received, "reason": repr(exception[1])},
            exc_info=exception[1],
        )
        return super().failure_handler(record, exception)
