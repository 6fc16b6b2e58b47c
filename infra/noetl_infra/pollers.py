"""Event source mappings of MiniStack without three of their waits.

MiniStack (1.5.33) looks after all queues and streams in one thread (`ministack.services.lambda_svc._poll_loop`):

* it invokes the function of a stream in that thread, so while the router is at work no queue is polled: what it has sent waits
  for its end. Here streams have a thread of their own;
* a wake that finds nothing puts off the next one by 50 ms - and every write to a table with a stream wakes;
* an invocation ends, for whoever waits for it, when no line was added to its log for 5 ms, or for 50 ms when there was none
  (`lambda_runtime.Worker._drain_stderr_bounded`). Here it ends when the pipe is empty: whatever a function has written, it
  wrote before its answer.

The remedy upstream is the same: an invocation per mapping off the poller's thread, as queues have it, a wake per source, and
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
"""What a wake that found nothing puts off the next one by: as long as looking after the queues takes."""
LOOK_S = 1.0
"""How often a stream is looked at that wakes nobody."""
DRAIN_S = 0.25
"""How long an invocation waits for its log at most, as upstream."""
YIELD_S = 0.0002


def hurry(svc: Any, runtime: Any) -> None:
    """Change `svc` (`ministack.services.lambda_svc`) and `runtime` (`ministack.core.lambda_runtime`)."""
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
            except Exception as error:  # as the loop it was taken from: the next look may find it well
                logger.error("ESM DynamoDB streams poller error: %s", error)
                found = False
            if not found:
                woken.wait(LOOK_S)

    svc._esm_wake.set = wake_both
    svc._poll_dynamodb_streams = bool  # nothing was found: the loop goes on with its queues
    threading.Thread(target=poll_streams, daemon=True, name="ministack-streams").start()


def _read_log(worker: Any) -> None:
    """Bring lines of the log from the pipe to the queue, until the pipe is closed."""
    lines, pipe, rest = worker._stderr_queue, worker._proc.stderr.fileno(), b""
    try:
        while data := os.read(pipe, 65536):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                lines.put(line.decode(errors="replace"))
    except OSError:
        return  # the process was ended


def _drain_log(worker: Any) -> str:
    """Return what the function has logged, when the pipe is empty."""
    until = time.monotonic() + DRAIN_S
    try:
        while _unread(worker._proc.stderr.fileno()) and time.monotonic() < until:
            time.sleep(YIELD_S)
    except (OSError, ValueError, AttributeError):
        return str(worker._drain_stderr())  # it was ended meanwhile
    time.sleep(YIELD_S)  # the reading thread has the last of it and puts it away
    return str(worker._drain_stderr())


def _unread(pipe: int) -> int:
    (size,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
    return int(size)
