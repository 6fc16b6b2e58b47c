"""`noetl fmt`: playbooks in their canonical layout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from noetl_cli.app import app
from noetl_cli.errors import FAILED, USAGE, Exit, say
from noetl_cli.inputs import files as playbook_files


@app.command()
def fmt(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...")],
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit code 1 when a file would change")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print what would change, and write nothing")] = False,
) -> None:
    """Format playbooks: the order of keys, indentation, blank lines (a folder: all below it; `-`: standard input to output).

    Comments, quotes and program text stay as they are. A file whose meaning would change stays as it is, and the exit code is 2.
    """
    from noetl_core.dsl.reading.diagnostics import InvalidPlaybook  # 260 ms, with the next: needed only to format
    from noetl_migrate.formatting import NotFormatted, formatted

    failed, changed = False, False
    for file in playbook_files.playbooks(files):
        text = playbook_files.read(file)
        try:
            new = formatted(text, str(file))
        except (InvalidPlaybook, NotFormatted) as error:
            say(str(error))
            failed = True
            continue
        changed = changed or new != text
        if diff:
            sys.stdout.write(playbook_files.difference(file, text, new, "formatted"))
        elif check and new != text:
            print(f"{file} would be formatted")
        elif file == playbook_files.STDIN and not check:
            sys.stdout.write(new)
        elif new != text and not check:
            playbook_files.replace(file, new)
            print(f"{file} formatted")
    if failed:
        raise Exit(USAGE)
    if check and changed:
        raise Exit(FAILED)
