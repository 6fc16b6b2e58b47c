"""The application of the command line, and the options that commands share. Commands import what they need when they run."""

from __future__ import annotations

from typing import Annotated

import click
import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def _noetl() -> None:
    """Run NoETL playbooks."""


class Wiring(click.ParamType):
    """`local`, `stack`, or the address of an API, which ends before `/api`."""

    name = "local|stack|URL"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in ("local", "stack") and not value.startswith(("http://", "https://")):
            self.fail(f"{value!r} is not one of local, stack and the http(s) URL of an API")
        return value


On = Annotated[str | None, typer.Option("--on", click_type=Wiring())]
Store = Annotated[str | None, typer.Option(help="Local store: a database file, or memory (default .noetl/runs.db)")]
Output = Annotated[str, typer.Option("--output", click_type=click.Choice(["human", "json", "jsonl"]))]
Id = Annotated[str, typer.Argument(metavar="ID")]
