"""The application of the command line, and the options that commands share. Commands import what they need when they run."""

from __future__ import annotations

from typing import Annotated

import click
import typer
from click.shell_completion import CompletionItem

from noetl_core import __version__

COMPLETING = "_NOETL_COMPLETE"
"""The environment variable by which a shell requests completions."""

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"noetl {__version__}")
        raise typer.Exit


@app.callback()
def noetl(
    version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version")] = False,
) -> None:
    """Run NoETL playbooks."""


class Wiring(click.ParamType):
    """`local`, `stack`, or the address of an API, which ends before `/api`."""

    name = "local|stack|URL"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in ("local", "stack") if name.startswith(incomplete)]

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in ("local", "stack") and not value.startswith(("http://", "https://")):
            self.fail(f"{value!r} is not one of local, stack and the http(s) URL of an API")
        return value


On = Annotated[str | None, typer.Option("--on", click_type=Wiring(), help="The local store, the stack, or the URL of an API")]
Store = Annotated[str | None, typer.Option(help="Local store: a database file, or memory (default .noetl/runs.db)")]

Quiet = Annotated[bool, typer.Option("--quiet", help="Omit lint warnings")]


class OutputForm(click.ParamType):
    """The form of a command's output: text for people, or data."""

    name = "text|json|jsonl|yaml"
    forms: tuple[str, ...] = ("text", "json", "jsonl", "yaml")

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        form = "text" if value == "human" else value  # its former name
        if form not in self.forms:
            self.fail(f"{value!r} is not one of {', '.join(self.forms)}")
        return form

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(form) for form in self.forms if form.startswith(incomplete)]


Output = Annotated[str, typer.Option("--output", click_type=OutputForm())]


class ExecutionId(click.ParamType):
    """An execution's id, its first or last digits, or `@last`."""

    name = "ID"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Offer the newest executions of the local store, with playbook and status."""
        from noetl_cli.backends.opening import LAST, newest  # 400 ms: needed only to query ids

        known = [(LAST, "the newest"), *newest()]
        return [CompletionItem(id, help=about) for id, about in known if id.startswith(incomplete)]


Id = Annotated[str, typer.Argument(metavar="ID", click_type=ExecutionId())]
