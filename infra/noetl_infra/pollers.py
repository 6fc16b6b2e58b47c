"""Removes three waits from the event source mappings of MiniStack.

MiniStack (1.5.33) polls all queues and streams in one thread (`ministack.services.lambda_svc._poll_loop`):

* It invokes the function of a stream in that thread, so no queue is polled while the router runs, and the commands that it sends
  wait until it ends. Here streams have a thread of their own.
* A wake that finds nothing delays the next one by 50 ms, and every write to a table with a stream wakes.
* An invocation counts as ended when no line was added to its log for 5 ms, or for 50 ms if there was none
  (`lambda_runtime.Worker._drain_stderr_bounded`). Here it ends when the pipe is empty, because a function writes its log before
  its answer.

The remedy upstream would be the same: invocations of streams outside the poller's thread, as for queues, a wake per source, and
reading the log to the end of the pipe.
"""

from __future__ import annotations

import fcntl
import logging
import os
import struct
import termios
import threading
import time
from typing import Any

logger = logging.getLogger("lambda_svc")

IDLE_GAP_S = 0.002
"""The delay after a poll that found nothing, which is about as long as polling the queues takes."""
LOOK_S = 1.0
"""How often an idle stream is polled."""
DRAIN_S = 0.25
"""How long an invocation waits for its log at most, as upstream."""
YIELD_S = 0.0002


def hurry(svc: Any, runtime: Any) -> None:
    """Patch `svc` (`ministack.services.lambda_svc`) and `runtime` (`ministack.core.lambda_runtime`)."""
    svc._ESM_IDLE_WAKE_GAP_SECONDS = IDLE_GAP_S
    _poll_streams_apart(svc)
    runtime.Worker._read_stderr, runtime.Worker._drain_stderr_bounded = _read_log, _drain_log


def _poll_streams_apart(svc: Any) -> None:
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
                woken.wait(LOOK_S)

    svc._esm_wake.set = wake_both
    svc._poll_dynamodb_streams = bool  # the original loop finds no records, and polls only queues
    threading.Thread(target=poll_streams, daemon=True, name="ministack-streams").start()


def _read_log(worker: Any) -> None:
    """Move lines of the log from the pipe to the queue, until the pipe is closed."""
    lines, pipe, rest = worker._stderr_queue, worker._proc.stderr.fileno(), b""
    try:
        while data := os.read(pipe, 65536):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                lines.put(line.decode(errors="replace"))
    except OSError:
        return  # the process was ended


def _drain_log(worker: Any) -> str:
    """Wait until the pipe is empty, and return the function's log."""
    until = time.monotonic() + DRAIN_S
    try:
        while _unread(worker._proc.stderr.fileno()) and time.monotonic() < until:
            time.sleep(YIELD_S)
    except (OSError, ValueError, AttributeError):
        return str(worker._drain_stderr())  # it was ended meanwhile
    time.sleep(YIELD_S)  # lets the reading thread store the last line
    return str(worker._drain_stderr())


def _unread(pipe: int) -> int:
    (size,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
    return int(size)
