"""`noetl import`: definitions of other engines -> playbooks."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from noetl_cli.app import Output, app
from noetl_cli.display import output
from noetl_cli.errors import FAILED, USAGE, Exit, say
from noetl_cli.inputs import files as playbook_files

imports = typer.Typer(no_args_is_help=True, add_completion=False, help="Import workflows of other engines: asl.")
app.add_typer(imports, name="import")


@imports.callback()
def import_() -> None:
    """Import workflows of other engines: asl."""


@imports.command()
def asl(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A state machine, JSON or YAML (`-`: standard input)")],
    into: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write the playbooks into this folder")] = None,
    path: Annotated[str, typer.Option(help="The playbook's path (default imported/NAME, by the file's name)")] = "",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="The value of a placeholder ${NAME}; repeatable")
    ] = None,
    output_: Output = "text",
) -> None:
    """Translate a state machine of AWS Step Functions (Amazon States Language) to a playbook, and report what does not map.

    The playbook goes to standard output, the report to standard error. Exit codes: 0 everything maps, 1 something needs attention
    or fails when it runs, 2 the file is not a state machine.
    """
    from noetl_import import UnusableDefinition, import_asl  # 300 ms: needed only to import

    values = dict(each.partition("=")[::2] for each in set_ or ())
    name = file.name.partition(".")[0].replace("-", "_") or "machine"
    try:
        imported = import_asl(playbook_files.read(file), name, path, values)
    except UnusableDefinition as error:
        raise Exit(USAGE, f"{file}: {error}") from None
    texts = {_file_name(each, imported.playbooks): text for each, text in imported.playbooks.items()}
    if into is None and len(texts) > 1 and output_ == "text":
        raise Exit(
            USAGE, f"{file} becomes {len(texts)} playbooks, {', '.join(texts)}: name a folder for them, with --into FOLDER"
        )
    if into is not None:
        _write(into, texts)
    if output_ != "text":
        found = {"playbooks": dict(imported.playbooks), "findings": [asdict(each) for each in imported.findings]}
        output.rows([found], output_)
    elif into is None:
        sys.stdout.write(next(iter(texts.values())))
    for finding in imported.findings:
        say(f"{file}#{finding}")
    if imported.findings:
        raise Exit(FAILED)


def _file_name(path: str, playbooks: dict[str, str] | object) -> str:
    return path.rpartition("imported/")[2].replace("/", "_") + ".yaml"


def _write(folder: Path, texts: dict[str, str]) -> None:
    if present := [str(folder / name) for name in texts if (folder / name).exists()]:
        raise Exit(USAGE, f"{', '.join(present)}: already there, and nothing is overwritten (choose another folder)")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
        print(folder / name)
