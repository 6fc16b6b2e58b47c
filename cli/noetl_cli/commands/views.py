"""Commands that show an execution's log as something else: timeline, graph, cost, logs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import click
import typer

from noetl_cli import files, output
from noetl_cli.app import Id, On, Output, Store, app
from noetl_cli.backend import Backend, pages
from noetl_cli.backends import backend
from noetl_cli.chart import draw
from noetl_cli.errors import say

if TYPE_CHECKING:
    from noetl_core.client.api import Drawn
    from noetl_core.client.view_shapes import LogEntry, Metered


@app.command()
def timeline(
    id: Id,
    tasks: Annotated[bool, typer.Option("--tasks", help="Show tasks and iterations too")] = False,
    on: On = None,
    store: Store = None,
    output_: Output = "human",
) -> None:
    """Show an execution as spans of time: step runs, attempts, waits."""
    with closing(backend(on, store, id)) as where:
        found = where.api.timeline(id)
    if output_ == "json":
        output.as_json(found)
    elif output_ == "jsonl":
        output.as_lines(found["spans"])
    else:
        for line in draw(found, tasks=tasks):
            print(line)


@app.command()
def graph(
    what: Annotated[str, typer.Argument(metavar="FILE|ID")],
    format: Annotated[str, typer.Option("--format", click_type=click.Choice(["mermaid", "dot", "svg", "json"]))] = "mermaid",
    on: On = None,
    store: Store = None,
) -> None:
    """Draw a playbook's steps and arcs; of an execution, with what they came to."""
    if what.isdecimal() and not Path(what).exists():
        with closing(backend(on, store, what)) as where:
            _draw(where, what, format)
        return
    from noetl_core.dsl.parse import parse_playbook  # 220 ms, with the next: only who draws a playbook
    from noetl_core.observe.graph import dot, graph_of, mermaid
    from noetl_core.observe.svg import svg

    file = Path(what) / "playbook.yaml" if Path(what).is_dir() else Path(what)
    drawn = graph_of(parse_playbook(files.playbook(file), str(file)))
    if format == "json":
        output.as_json(drawn.as_dict())
    else:
        print({"mermaid": mermaid, "dot": dot, "svg": svg}[format](drawn), end="")


@app.command()
def render(
    id: Id,
    template: Annotated[str, typer.Argument(metavar="TEMPLATE")],
    step: Annotated[str | None, typer.Option(help="Read this step's args and event too")] = None,
    on: On = None,
    store: Store = None,
) -> None:
    """Show what a template would give in an execution as it stands; it sees no secrets."""
    with closing(backend(on, store, id)) as where:
        output.as_json(where.api.render(id, template, step)["value"])


@app.command()
def cost(id: Id, on: On = None, store: Store = None, output_: Output = "human") -> None:
    """Meter an execution: what it used, step by step, and what that costs on AWS at list prices."""
    with closing(backend(on, store, id)) as where:
        found = where.api.cost(id)
    if output_ != "human":
        output.as_json(found)
        return
    asked = found["total"]["units"].get("llm_input_tokens", 0) > 0
    rows = [_priced(name, step["runs"], step, asked) for name, step in found["steps"].items()]
    output.table([*rows, _priced("total", "", found["total"], asked)])
    if found["partial"]:
        say("the history is long: this is its beginning")


def _priced(name: str, runs: Any, part: Metered, asked: bool) -> dict[str, Any]:
    """Return a row; with tokens where a language model was `asked`."""
    u = part["units"]
    tokens = {"tokens": f"{u['llm_input_tokens']} in, {u['llm_output_tokens']} out"} if asked else {}
    return {
        "step": name,
        "runs": runs,
        "WU": u["dynamodb_write_units"],
        "RU": u["dynamodb_read_units"],
        "SQS": u["sqs_requests"],
        "Lambda": u["lambda_invocations"],
        "ms": round(u["lambda_ms"]),
        "S3": u["s3_puts"] + u["s3_gets"],
        **tokens,
        "USD per million": round(part["cost"] * 1e6, 2),
    }


@app.command()
def logs(
    id: Id,
    step: str | None = None,
    task: str | None = None,
    full: Annotated[bool, typer.Option("--full", help="All that was kept, not its end")] = False,
    on: On = None,
    store: Store = None,
    output_: Output = "human",
) -> None:
    """Show what tasks wrote to standard output and standard error."""
    with closing(backend(on, store, id)) as where:
        found = _entries(where, id, step=step, task=task, full=full or None)
    if output_ == "json":
        output.as_json(found)
    elif output_ == "jsonl":
        output.as_lines(found)
    elif not found:
        say("no task wrote anything")
    else:
        for entry in found:
            _print(entry)


def _draw(where: Backend, id: str, form: str) -> None:
    if form == "json":
        output.as_json(where.api.graph(id))
    else:
        print(where.api.drawing(id, cast("Drawn", form)), end="")


def _entries(where: Backend, id: str, **query: Any) -> list[LogEntry]:
    return [entry for page in pages(lambda after: where.api.logs(id, after=after, **query)) for entry in page["logs"]]


def _print(entry: LogEntry) -> None:
    place = f" {entry['iteration']}" if entry.get("iteration") else ""
    attempt = f" attempt {entry['attempt']}" if entry["attempt"] > 1 else ""
    print(output.styled(f"{entry['timestamp'][11:23]} {entry['step']}/{entry['task']}{place}{attempt} {entry['status']}", "bold"))
    if entry.get("more"):
        print(output.styled("  ... more before this: noetl logs --full", "dim"))
    for line in entry.get("stdout", "").splitlines():
        print(f"  {line}")
    for line in entry.get("stderr", "").splitlines():
        print(output.styled(f"! {line}", "red"))
