"""The application of the command line, and the options that commands share. Commands import what they need when they run."""

from __future__ import annotations

from typing import Annotated

import click
import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="Run NoETL playbooks.")

On = Annotated[str | None, typer.Option("--on", click_type=click.Choice(["local", "stack"]))]
Store = Annotated[str | None, typer.Option(help="Local store: a database file, or memory (default .noetl/runs.db)")]
Output = Annotated[str, typer.Option("--output", click_type=click.Choice(["human", "json", "jsonl"]))]
Id = Annotated[str, typer.Argument(metavar="ID")]
