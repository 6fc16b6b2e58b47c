"""The command as a process: the signals that end it, and its standard streams, which may be closed or full."""

from __future__ import annotations

import io
import os
import signal
import sys
from types import FrameType

from noetl_cli.errors import OutputLost, Stopped

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heed_signals() -> None:
    """Let terminating signals raise `Stopped` in the main thread, so that the process shuts down cleanly; a second signal ends it
    at once. An ignored signal (`nohup`, background jobs of a shell) stays ignored."""
    for number in ENDING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    for each in ENDING:
        signal.signal(each, signal.SIG_DFL)
    raise Stopped(signal.Signals(number).name, number)


def open_streams() -> None:
    """Open standard streams that are closed at the start (`>&-`), so that no file opened later gets their descriptor. Failed
    writes to standard output raise `OutputLost`."""
    for handle, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(handle)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free descriptor, which is this one
            setattr(sys, name, open(handle, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - by its handle, for the process's life
    if type(sys.stdout) is io.TextIOWrapper:
        sys.stdout = _Output(sys.stdout)


def drop_output() -> None:
    """Discard all further output."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


class _Output(io.TextIOWrapper):
    """Standard output whose errors have their own type, so that they are not taken for errors of files that a command reads
    or writes."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        encoding, errors, at_once = stream.encoding, stream.errors, stream.line_buffering
        super().__init__(stream.detach(), encoding=encoding, errors=errors, line_buffering=at_once)

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise OutputLost(error) from error

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise OutputLost(error) from error
