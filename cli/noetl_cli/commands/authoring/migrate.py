"""`noetl migrate`: legacy dialects -> canonical v10."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from noetl_cli.app import app
from noetl_cli.errors import FAILED, USAGE, Exit, say
from noetl_cli.inputs import files as playbook_files


@app.command()
def migrate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...")],
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit code 1 when a file would change")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print what would change")] = False,
    in_place: Annotated[bool, typer.Option("--in-place", help="Rewrite the files")] = False,
) -> None:
    """Rewrite playbooks of the legacy dialects to canonical v10, keeping comments.

    Prints the new text of one FILE unless an option says otherwise. Anything without a faithful equivalent is an error at its
    place: that file stays as it is, and the exit code is 2.
    """
    from noetl_core.dsl.reading.diagnostics import to_text  # 260 ms, with the next: needed only to migrate
    from noetl_migrate import migrate as rewrite

    if in_place and (check or diff):
        raise Exit(USAGE, "--in-place rewrites the files, --check and --diff do not: use one of them")
    if not (check or diff or in_place) and (len(files) > 1 or files[0].is_dir()):
        raise Exit(USAGE, "the text of one file goes to standard output: with several, add --in-place, --diff or --check")
    if in_place and playbook_files.STDIN in files:
        raise Exit(USAGE, "standard input cannot be rewritten in place")
    failed, changed = [], []
    for file in playbook_files.playbooks(files):
        text = playbook_files.read(file)
        migrated = rewrite(playbook_files.with_paths(text, file), str(file))
        if migrated.diagnostics:
            say(to_text(migrated.diagnostics))
        if migrated.failed:
            failed.append(file)
            continue
        differs = migrated.text != text
        if differs:
            changed.append(file)
        if diff:
            sys.stdout.write(playbook_files.difference(file, text, migrated.text, "migrated"))
        elif check and differs:
            print(f"{file} would be rewritten")
        elif in_place and differs:
            playbook_files.replace(file, migrated.text)
            print(f"{file} rewritten")
        elif not (check or in_place):
            sys.stdout.write(migrated.text)
    if failed:
        raise Exit(USAGE, f"not rewritten: {', '.join(map(str, failed))}")
    if check and changed:
        raise Exit(FAILED)
