"""`noetl replay`: decisions repeated, and the state at any event; `noetl diff`: two executions compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noetl_cli.app import ExecutionId, Id, On, Output, Store, app
from noetl_cli.backends.backend import Backend, pages
from noetl_cli.backends.opening import execution, in_full
from noetl_cli.display import output
from noetl_cli.display.differing import differing
from noetl_cli.errors import FAILED, UNREACHABLE, USAGE, Exit
from noetl_cli.inputs import files

if TYPE_CHECKING:
    from noetl_core.api.shapes.executions import ExecutionState
    from noetl_core.api.shapes.why import Compared, Diff, PartlyCompared


@app.command()
def replay(
    id: Id,
    at: Annotated[str | None, typer.Option(help="Show the state just after this event", metavar="EVENT")] = None,
    playbook: Annotated[Path | None, typer.Option(help="Decide by this playbook instead", metavar="FILE")] = None,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Repeat every control decision of an execution; exit code 1 if one differs, 3 if its input is missing."""
    if at is not None and playbook is not None:
        raise Exit(USAGE, "--at shows recorded states: it cannot be combined with --playbook")
    source = None
    if playbook is not None:
        source = files.playbook(playbook)
        files.check(source, playbook)
    with execution(id, on, store) as (where, id):
        if at is not None:
            _show(where.api.state(id, at), output_)
            return
        found = _replayed(where, id, source)
    if output_ != "text":
        output.as_data(found, output_)
    else:
        _tell(found, playbook)
    if found["differences"]:
        raise Exit(FAILED)
    if found["missing"]:
        raise Exit(UNREACHABLE)


@app.command()
def diff(
    a: Annotated[str, typer.Argument(metavar="A", click_type=ExecutionId())],
    b: Annotated[str, typer.Argument(metavar="B", click_type=ExecutionId())],
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Compare two executions: status, inputs, results, ctx, path and durations, step by step; exit code 1 when they differ."""
    with execution(a, on, store) as (where, a):
        other = in_full(where, b)
        found = where.api.diff(a, other)
    if output_ != "text":
        output.as_data(found, output_)
    else:
        _tell_apart(found)
    if found["differences"]:
        raise Exit(FAILED)


def _tell_apart(found: Diff) -> None:
    sides: tuple[tuple[str, Compared], ...] = (("A", found["a"]), ("B", found["b"]))
    for name, side in sides:
        playbook = f"{side['playbook']['path']}@{side['playbook']['version']} {side['playbook']['digest'][:19]}"
        lasted = "" if side["duration_ms"] is None else f" in {side['duration_ms'] / 1000:.2f} s"
        print(f"{name} {side['execution_id']} {side['status']}{lasted}, {playbook}")
    for each in found["differences"]:
        visit = f" visit {each['visit']}" if each.get("visit", 1) > 1 else ""
        where = f"{each['step']}{visit} " if "step" in each else ""
        print(f"{where}{each['field']}: {each['a']} -> {each['b']}")
    if found["more"]:
        print(output.styled("... and more", "dim"))
    slower = [d for d in found["durations"] if d["a_ms"] and d["b_ms"] and _far_apart(d["a_ms"], d["b_ms"])]
    slower.sort(key=lambda d: -abs((d["a_ms"] or 0) - (d["b_ms"] or 0)))
    for took in slower[:SLOWER]:
        visit = f" visit {took['visit']}" if took["visit"] > 1 else ""
        print(f"{took['step']}{visit} took {took['a_ms']:,.1f} ms -> {took['b_ms']:,.1f} ms")
    partial = found.get("partial")
    if not found["differences"]:
        print("no difference but time")
    if partial and partial["compared"] < partial["visits"]:
        _tell_totals(partial)


def _tell_totals(partial: PartlyCompared) -> None:
    """Print how much was compared, and the steps whose average durations differ greatly."""
    compared = f"{partial['compared']:,} of {partial['visits']:,} visits were compared one by one"
    print(output.styled(f"{compared}, the others by how many there are, how many failed, and how often each arc fired", "dim"))
    for each in partial["steps"]:
        a, b = each["a"]["mean_ms"], each["b"]["mean_ms"]
        if a and b and _far_apart(a, b):
            print(f"{each['step']} took {a:,.1f} ms -> {b:,.1f} ms on average")


SLOWER = 10
"""The most visits with very different durations that are printed: those with the largest difference."""


def _far_apart(a: float, b: float) -> bool:
    return max(a, b) > 2 * min(a, b) and abs(a - b) > 100


def _replayed(where: Backend, id: str, source: str | None) -> dict[str, Any]:
    """The whole log, request by request."""
    found: dict[str, Any] = {"execution_id": id, "commits": 0, "differences": [], "missing": []}
    for part in pages(lambda after: where.api.replay(id, after=after, playbook=source)):
        found["commits"] += part["commits"]
        found["differences"] += part["differences"]
        found["missing"] += part["missing"]
    return found


def _tell(found: dict[str, Any], playbook: Path | None) -> None:
    by = "" if playbook is None else f" by {playbook}"
    for difference in found["differences"]:
        print(f"commit {difference['seq']} decided again{by} differs ({difference['event_id']}):")
        for line in differing(difference["changes"]):
            print(f"  {line}")
    for lacking in found["missing"]:
        print(f"commit {lacking['seq']} cannot be decided again ({lacking['event_id']}): values that it read are gone")
        for reason in lacking["reasons"]:
            print(f"  {reason}")
    count = len(found["differences"])
    total = "no difference" if not count else f"{count} difference{'s' if count > 1 else ''}"
    print(f"{found['commits']} control commits decided again{by}: {total}")


def _show(state: ExecutionState, how: str) -> None:
    if how != "text":
        output.as_data(state, how)
        return
    print(f"{state['execution_id']} {state['status']}")
    for name, value in (("ctx", state["ctx"]), ("run", state.get("run"))):
        if value:
            print(f"{name}: {json.dumps(value, ensure_ascii=False)}")
    steps: list[Mapping[str, Any]] = [{"step": name, **step} for name, step in state["steps"].items()]
    for title, rows in (("steps", steps), ("open runs", state["runs"]), ("tokens", state["tokens"])):
        if rows:
            output.table(rows, title)
