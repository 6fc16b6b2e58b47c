"""The `noetl` command: its commands, and how their errors end the process."""

from __future__ import annotations

import errno
import gc
import os
import sys

import click
import typer

from noetl_cli.app import COMPLETING
from noetl_cli.commands import load
from noetl_cli.errors import COMPLETED, SIGNALLED, TIMEOUT, UNREACHABLE, USAGE, Exit, OutputLost, Stopped, say
from noetl_cli.process import drop_output, heed_signals, open_streams

YOUNG_OBJECTS = 20_000
"""Threshold of the garbage collector. With the default of 700 it would run 75 times at the start of a run, 8 ms in all."""


def main() -> None:
    """The entry point. Exit codes are 0, 1, 2, 3, 124 (130 for Ctrl-C, 143 for SIGTERM)."""
    gc.set_threshold(YOUNG_OBJECTS)
    open_streams()
    heed_signals()
    try:
        code = _flushed(_code())
    except Stopped as stopped:  # before the command has begun, or after its end
        code = stopped.code
    if code == TIMEOUT or code > SIGNALLED:
        os._exit(code)  # tasks may still run in threads that an orderly exit would wait for; the log does not need them
    if "_duckdb" not in sys.modules:  # its bindings print pages of leak reports unless a last collection has freed their objects
        gc.freeze()  # 15 ms: no last collection before the process ends
    sys.exit(code)


def _code() -> int:
    """Run the command; return its exit code."""
    from noetl_core.dsl.reading.diagnostics import InvalidPlaybook  # 12 ms: help needs none of it

    try:
        if COMPLETING in os.environ:
            return _complete()
        if (garbled := next(filter(_is_garbled, sys.argv[1:]), None)) is not None:
            say(f"argument {garbled!a} is not UTF-8 text")
            return USAGE
        command = typer.main.get_command(load(next((a for a in sys.argv[1:] if not a.startswith("-")), "")))
        with command.make_context("noetl", sys.argv[1:]) as context:
            command.invoke(context)
        return COMPLETED
    except click.exceptions.Exit as end:
        return end.exit_code
    except Exit as end:
        say(end.message)
        return end.code
    except Stopped as stopped:
        return stopped.code
    except InvalidPlaybook as invalid:
        say(str(invalid))
        return USAGE
    except OutputLost as lost:
        return _lost(lost, lost.code)
    except Exception as error:  # `_other` raises bugs again
        return _other(error)


def _is_garbled(argument: str) -> bool:
    """Return whether an argument has bytes that are not text; names of files may have them."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        from pathlib import Path  # 3 ms: hardly ever needed

        return not Path(argument.removeprefix("@")).exists()
    return False


def _complete() -> int:
    """Answer a shell that completes a command line (`noetl completion`)."""
    from click.shell_completion import shell_complete  # 3 ms: needed only for completion

    shown = shell_complete(typer.main.get_command(load()), {}, "noetl", COMPLETING, os.environ[COMPLETING])
    return COMPLETED if shown == 0 else USAGE


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except OutputLost as lost:
        return _lost(lost, code)
    return code


def _lost(lost: OutputLost, code: int) -> int:
    """Handle lost output. A reader that has closed the pipe is not a failure; a full disk is, unless the command had failed
    before."""
    drop_output()
    if lost.error.errno == errno.EPIPE:
        return code
    say(f"storage: {lost}" + (f"; {lost.remedy}" if lost.remedy else ""))
    return code or UNREACHABLE


def _other(error: Exception) -> int:
    """Handle usage errors of the command line, failures of services, and bugs (which show their traceback)."""
    from noetl_core.ports import PortError, StorageFailed, UnreadableStore  # 23 ms: only for failures

    if isinstance(error, click.ClickException):
        error.show()
        return USAGE
    if isinstance(error, click.Abort):
        return SIGNALLED + 2
    if isinstance(error, UnreadableStore):
        say(f"storage: {error}")
        say("use the version of noetl that made it, restore a copy, or name another store (--store, NOETL_HOME)")
        return USAGE
    if isinstance(error, PortError):
        say(f"{'storage' if isinstance(error, StorageFailed) else type(error).__name__}: {error}")
        return UNREACHABLE
    raise error


if __name__ == "__main__":
    main()
