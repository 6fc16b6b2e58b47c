"""The `noetl` command (CONTRACT "Command line"): its commands, and how their errors end the process."""

from __future__ import annotations

import os
import sys

import click
import typer

from noetl_cli.app import app
from noetl_cli.commands import author, credentials, inspect, migrate, operate, replay, run, stack, views
from noetl_cli.errors import COMPLETED, INTERRUPTED, TIMEOUT, UNREACHABLE, USAGE, Exit, say

COMMANDS = (author, migrate, run, operate, inspect, views, replay, credentials, stack)
"""Their order is that of the help."""


def main() -> None:
    """Entry point: exit codes are 0, 1, 2, 3, 124 (130 for Ctrl-C)."""
    from noetl_core.dsl.diagnostics import InvalidPlaybook

    try:
        code = app(standalone_mode=False)
    except Exit as end:
        say(end.message)
        code = end.code
    except InvalidPlaybook as invalid:
        say(str(invalid))
        code = USAGE
    except KeyboardInterrupt:
        code = INTERRUPTED
    except typer.Exit as end:
        code = end.exit_code
    except BrokenPipeError:  # whoever read our output has seen enough
        os._exit(COMPLETED)
    except Exception as error:
        code = _other(error)
    if code in (INTERRUPTED, TIMEOUT):
        sys.stdout.flush()
        os._exit(code)  # tasks may still run in threads that an orderly exit would wait for; the log does not need them
    sys.exit(code if isinstance(code, int) else COMPLETED)


def _other(error: Exception) -> int:
    """Usage errors of the command line, a service that fails, or a bug (which shows itself)."""
    from noetl_core.ports import PortError

    if isinstance(error, click.ClickException):
        error.show()
        return USAGE
    if isinstance(error, click.Abort):
        return INTERRUPTED
    if isinstance(error, PortError):
        say(f"{type(error).__name__}: {error}")
        return UNREACHABLE
    raise error


if __name__ == "__main__":
    main()
