"""Commands for authors: validate, schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click
import typer

from noetl_cli.app import COMPLETING, OutputForm, app
from noetl_cli.display import output
from noetl_cli.display import pages as language
from noetl_cli.errors import USAGE, Exit, say
from noetl_cli.inputs import files as playbook_files


class Findings(OutputForm):
    """The form of the output of `validate`, SARIF included, which code scanning reads."""

    name = "text|json|jsonl|yaml|sarif"
    forms = (*OutputForm.forms, "sarif")


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...")],
    format: Annotated[str, typer.Option("--output", "--format", click_type=Findings())] = "text",
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 2 for warnings too.")] = False,
) -> None:
    """Parse, validate and lint playbooks (a folder: all below it; `-`: standard input); exit code 2 when one has errors."""
    from noetl_cli.inputs.plugins import absent  # 190 ms, with the next two: needed only to validate
    from noetl_core.dsl.parse import check
    from noetl_core.dsl.reading.diagnostics import page_of, to_json, to_sarif, to_text
    from noetl_core.playbooks.called_files import reader

    found = []
    broken = False
    files = playbook_files.playbooks(files)
    for file in files:
        source = playbook_files.with_libraries(playbook_files.playbook(file), file)
        playbook, diagnostics = check(
            source, str(file), lenient=True, called=None if file == playbook_files.STDIN else reader(file)
        )
        found += [*diagnostics, *(absent(playbook, str(file)) if playbook is not None else ())]
        broken = broken or playbook is None or (strict and any(d.severity == "warning" for d in diagnostics))
    if format in ("jsonl", "yaml"):
        output.as_data([d.as_dict() for d in found], format)
    elif text := {"text": to_text, "json": to_json, "sarif": to_sarif}[format](found):
        print(text)
    if format == "text":
        errors = sum(1 for d in found if d.severity == "error")
        say(f"{len(files)} file(s), {errors} error(s), {len(found) - errors} warning(s) and notes")
        pages = sorted({page for d in found if (page := page_of(d.code)) is not None})
        if pages:
            say(f"explained in {', '.join(map(language.shown, pages))}")
    if broken:
        raise Exit(USAGE)


@app.command()
def completion(shell: Annotated[str, typer.Argument(metavar="SHELL", click_type=click.Choice(["bash", "zsh", "fish"]))]) -> None:
    """Print the completion script of a shell: put source <(noetl completion bash) in its start-up file."""
    from click.shell_completion import get_completion_class  # 3 ms: needed only on request

    found = get_completion_class(shell)
    assert found is not None
    print(found(click.Command("noetl"), {}, "noetl", COMPLETING).source())  # the text needs the name only


@app.command()
def schema(
    pages: Annotated[
        str | None, typer.Option(help="Base URL of the schema's links (default: the pages on this machine)", metavar="URL")
    ] = None,
    test: Annotated[bool, typer.Option("--test", help="The schema of test files (*.test.yaml) instead")] = False,
) -> None:
    """Print the JSON Schema of a playbook; with it, editors complete, check and explain keys."""
    if test:
        from noetl_core.testing.fields import test_schema  # 200 ms, as below

        output.as_json(test_schema())
        return
    from noetl_core.dsl.schema import playbook_schema  # 180 ms: needed only on request

    base = language.folder().parent.as_uri() if pages is None else pages
    output.as_json(playbook_schema(base.rstrip("/") + "/"))
