"""Commands that show an execution's log as something else: timeline, graph, cost, logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import click
import typer

from noetl_cli.app import Id, On, Output, Store, app
from noetl_cli.backends.backend import Backend
from noetl_cli.backends.opening import LAST, execution
from noetl_cli.display import output
from noetl_cli.display.chart import draw
from noetl_cli.errors import FAILED, UNREACHABLE, Exit, say
from noetl_cli.inputs import files

if TYPE_CHECKING:
    from noetl_core.api.requests.views import Drawn
    from noetl_core.api.shapes.views import Metered


MOST_SPANS = 10_000
"""Tasks and iterations that the API returns at once."""


@app.command()
def timeline(
    id: Id,
    tasks: Annotated[bool, typer.Option("--tasks", help="Also show tasks and iterations")] = False,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Show an execution as spans of time: step runs, attempts, waits."""
    with execution(id, on, store) as (where, id):
        found = where.api.timeline(id, MOST_SPANS if tasks else None)
    if output_ != "text":
        output.as_data(found["spans"] if output_ == "jsonl" else found, output_)
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
    """Draw a playbook's steps and arcs; for an execution, with their status."""
    if (what.isdecimal() or what == LAST) and not Path(what).exists():
        with execution(what, on, store) as (where, what):
            _draw(where, what, format)
        return
    from noetl_core.dsl.parse import parse_playbook  # 220 ms, with the next: needed only to draw a playbook
    from noetl_core.observe.drawing.graph import dot, graph_of, mermaid
    from noetl_core.observe.drawing.svg import svg

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
    step: Annotated[str | None, typer.Option(help="Also read this step's args and event")] = None,
    task: Annotated[str | None, typer.Option(help="Read the names that this task of the step saw")] = None,
    iteration: Annotated[str | None, typer.Option(help="Read names of this iteration: 3, or 0.3 inside another loop")] = None,
    at: Annotated[str | None, typer.Option(help="Use the state just after this event", metavar="EVENT")] = None,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Show what a template evaluates to in an execution, or in one of its tasks; it sees no secrets. Exit code 1 if
    undefined."""
    with execution(id, on, store) as (where, id):
        found = where.api.render(id, template, step, at, task=task, iteration=iteration)
    for name in found.get("undefined", ()):
        hint = f" ({name['hint']})" if name["hint"] else ""
        say(f"{name['name']} is undefined{hint}")
    if found["value"] is None and found.get("undefined"):
        raise Exit(FAILED)
    output.as_data(found["value"], "json" if output_ == "text" else output_)


@app.command()
def report(
    id: Id,
    to: Annotated[str, typer.Option("-o", "--to", help="The file to write, or - for standard output", metavar="FILE")] = "",
    on: On = None,
    store: Store = None,
) -> None:
    """Write one self-contained HTML page about an execution: to show, to send, to keep."""
    from noetl_cli.display.sources import Sources  # 8 ms, with the next: needed only to report
    from noetl_core.observe.report import DRAWN
    from noetl_core.observe.report import report as page

    with execution(id, on, store) as (where, id):
        summary, why = where.api.execution(id), where.api.why(id)
        drawing = where.api.drawing(id, "svg", fold=True) if len(summary["steps"]) <= DRAWN else ""
        playbook = summary["playbook"]
        name = Sources().name(playbook["path"], playbook["digest"], playbook["version"])
        text = page(summary, why, where.api.timeline(id, 1), where.api.cost(id), drawing, name)
    if to == "-":
        print(text, end="")
        return
    file = Path(to or f"{id}.html")
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Exit(UNREACHABLE, f"{file}: {error.strerror}") from None
    print(f"{file}: {len(text.encode()):,} bytes")


@app.command()
def cost(id: Id, on: On = None, store: Store = None, output_: Output = "text") -> None:
    """Meter an execution: its use of services, step by step, and its cost on AWS at list prices."""
    with execution(id, on, store) as (where, id):
        found = where.api.cost(id)
    if output_ != "text":
        output.as_data(found, output_)
        return
    asked = found["total"]["units"].get("llm_input_tokens", 0) > 0
    whole = found["total"]["cost"]
    rows = [_priced(name, step["runs"], step, whole, asked) for name, step in found["steps"].items()]
    output.table([*rows, _priced("total", "", found["total"], whole, asked)])
    print(f"this run costs {_usd(whole)} at list prices")
    print(output.styled(UNITS, "dim"))
    if (sample := found.get("estimated")) is not None:
        print(f"estimated: {sample['read']:,} of {sample['commits']:,} commits were read, spread over the history")


UNITS = """\
WU, RU: DynamoDB's write and read units · SQS: requests · Lambda: invocations of workers and the router, ms: their time
S3: puts and gets · USD of a million: what a million such executions cost · (execution): what belongs to no step"""


def _usd(cost: float) -> str:
    """Return an amount that may be tiny, with two digits that count at least."""
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.9f}".rstrip("0").rstrip(".")


def _priced(name: str, runs: Any, part: Metered, whole: float, asked: bool) -> dict[str, Any]:
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
        "USD": _usd(part["cost"]),
        "share": f"{part['cost'] / whole:.0%}" if whole else "",
        "USD of a million": round(part["cost"] * 1e6, 2),
    }


def _draw(where: Backend, id: str, form: str) -> None:
    if form == "json":
        output.as_json(where.api.graph(id))
    else:
        print(where.api.drawing(id, cast("Drawn", form)), end="")
