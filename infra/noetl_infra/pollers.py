"""Removes four waits from the event source mappings of MiniStack.

MiniStack (1.5.33) polls all queues and streams in one thread (`ministack.services.lambda_svc._poll_loop`):

* It invokes the function of a stream in that thread, so no queue is polled while the router runs, and the commands that it sends
  wait until it ends. Here streams have a thread of their own.
* A wake that finds nothing delays the next one by 50 ms, and every write to a table with a stream wakes.
* An invocation counts as ended when no line was added to its log for 5 ms, or for 50 ms if there was none
  (`lambda_runtime.Worker._drain_stderr_bounded`). Here it ends when the pipe is empty, because a function writes its log before
  its answer.
* A failed batch stops its whole queue or stream for a second, so that one killed process per second stops everybody. Lambda only
  lowers the concurrency of the mapping. Here the pause is `PAUSE_S`.

The remedy upstream would be the same: invocations of streams outside the poller's thread, as for queues, a wake per source, and
reading the log to the end of the pipe.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import time
from typing import Any

logger = logging.getLogger("lambda_svc")

IDLE_GAP_S = 0.002
"""The delay after a poll that found nothing, which is about as long as polling the queues takes."""
PAUSE_S = 0.1
"""The delay of a queue or a stream after a failed batch."""
LOOK_S = 1.0
"""Seconds between two polls of an idle stream."""
DRAIN_S = 0.25
"""The most seconds for which an invocation reads its log, as upstream."""


def hurry(svc: Any, runtime: Any, look_s: float = LOOK_S) -> None:
    """Patch `svc` (`ministack.services.lambda_svc`) and `runtime` (`ministack.core.lambda_runtime`). Without news, streams are
    looked at every `look_s` seconds."""
    svc._ESM_IDLE_WAKE_GAP_SECONDS = IDLE_GAP_S
    svc._ESM_BACKOFF_SECONDS = PAUSE_S
    _poll_streams_apart(svc, look_s)
    runtime.Worker._read_stderr, runtime.Worker._drain_stderr_bounded = _follow_log, _drain_log


def _poll_streams_apart(svc: Any, look_s: float) -> None:
    poll, wake, woken = svc._poll_dynamodb_streams, svc._esm_wake.set, threading.Event()

    def wake_both() -> None:
        woken.set()
        wake()

    def poll_streams() -> None:
        while True:
            woken.clear()
            try:
                found = poll()
            except Exception as error:  # like the original loop: the next poll may succeed
                logger.error("ESM DynamoDB streams poller error: %s", error)
                found = False
            if not found:
                woken.wait(look_s)

    svc._esm_wake.set = wake_both
    svc._poll_dynamodb_streams = bool  # the original loop finds no records, and polls only queues
    threading.Thread(target=poll_streams, daemon=True, name="ministack-streams").start()


class Log:
    """The log of one process of a function. Two threads read it: one all the time, so that the process never waits for a full
    pipe, and the one that has its answer, which must not miss a line that the other has read and not yet stored."""

    _finding = threading.Lock()

    def __init__(self, worker: Any) -> None:
        self.pipe, self._lines = worker._proc.stderr.fileno(), worker._stderr_queue
        self._reading, self._rest = threading.Lock(), b""
        os.set_blocking(self.pipe, False)

    @classmethod
    def of(cls, worker: Any) -> Log:
        """The log of the process that `worker` has now."""
        with cls._finding:
            if not hasattr(worker._proc, "log"):
                worker._proc.log = cls(worker)
            found: Log = worker._proc.log
            return found

    def read(self) -> int | None:
        """Store the lines that the pipe has. Return the bytes read: 0 at its end, None while it is empty."""
        with self._reading:
            try:
                data = os.read(self.pipe, 65536)
            except BlockingIOError:
                return None
            *whole, self._rest = (self._rest + data).split(b"\n")
            for line in whole:
                self._lines.put(line.decode(errors="replace"))
            return len(data)


def _follow_log(worker: Any) -> None:
    """Move lines of the log from the pipe to the queue, until the pipe is closed."""
    try:
        log = Log.of(worker)
        while log.read() != 0:
            select.select([log.pipe], [], [])
    except (OSError, ValueError):
        return  # the process was ended


def _drain_log(worker: Any) -> str:
    """Read the log until the pipe is empty, and return the function's lines."""
    until = time.monotonic() + DRAIN_S
    with contextlib.suppress(OSError, ValueError, AttributeError):  # it was ended meanwhile
        log = Log.of(worker)
        while log.read() and time.monotonic() < until:
            continue
    return str(worker._drain_stderr())
