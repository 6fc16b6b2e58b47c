"""`noetl plan`: the time and the cost of an execution before it starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noetl_cli.app import On, Output, Store, app
from noetl_cli.backends.opening import backend
from noetl_cli.display import output
from noetl_cli.errors import Exit
from noetl_cli.inputs import files
from noetl_cli.inputs.payload import check_sets, payload_of, put

if TYPE_CHECKING:
    from noetl_cli.backends.backend import Backend
    from noetl_core.api.requests import Api
    from noetl_core.dsl.model import Playbook
    from noetl_core.planning.changes import Change
    from noetl_core.planning.forecast import Forecast, PastRun

SPANS = 1_000
"""Spans of tasks and iterations that are read of a past execution, to count retries."""


@app.command()
def plan(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    last: Annotated[int, typer.Option(help="The newest executions to learn from", min=0, metavar="N")] = 20,
    base: Annotated[
        Path | None, typer.Option(help="An earlier version: list the steps and arcs that differ", metavar="FILE")
    ] = None,
    payload: Annotated[str | None, typer.Option(help="JSON, or @file")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="a.b=value; repeatable", metavar="A.B=VALUE")] = None,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Forecast how long an execution will take and what it will cost, as ranges, from past executions of the playbook, and for
    steps that none of them ran by defaults. What is assumed is listed."""
    from noetl_core.planning.changes import changes  # 200 ms, with the next: needed only to plan
    from noetl_core.planning.forecast import forecast

    playbook = _model(file)
    check_sets(set_ or (), playbook)
    given = payload_of(payload)
    for entry in set_ or ():
        put(given, entry)
    past, failed = _past(playbook.path, last, on, store)
    found = forecast(playbook, past, given)
    differing = [] if base is None else changes(_model(base), playbook)
    if output_ != "text":
        data = found.as_dict() | {"failed": failed}
        output.as_data(data if base is None else data | {"changes": [vars_of(each) for each in differing]}, output_)
        return
    if base is not None:
        print("\n".join(map(str, differing)) or f"the graph is that of {base}")
        print()
    _show(found, failed)


def vars_of(change: Change) -> dict[str, str]:
    return {"how": change.how, "what": change.what}


def _model(file: Path) -> Playbook:
    file = file / "playbook.yaml" if file.is_dir() else file
    return files.check(files.with_libraries(files.playbook(file), file), file)


def _past(path: str, last: int, on: str | None, store: str | None) -> tuple[list[PastRun], int]:
    """Return the newest completed executions, and the number of failed ones among them; none if there is no local store."""
    if not last:
        return [], 0
    found: list[PastRun] = []
    failed = 0
    try:
        where = backend(on or "local", store)
    except Exit:
        if on not in (None, "local") or store is not None:
            raise
        return [], 0
    with closing(where):
        for each in _newest(where, path, last):
            if each["status"] == "completed":
                found.append(past_run(where.api, each["execution_id"]))
            failed += each["status"] == "failed"
    return found, failed


def _newest(where: Backend, path: str, last: int) -> Iterator[Mapping[str, Any]]:
    cursor = None
    while last > 0:
        page = where.api.executions(path=path, limit=min(last, 100), cursor=cursor)
        yield from page["executions"][:last]
        last -= len(page["executions"])
        cursor = page["cursor"]
        if cursor is None:
            return


def past_run(api: Api, id: str) -> PastRun:
    """Return what is known of a past execution."""
    from noetl_core.planning.forecast import PastRun, PastStep  # 200 ms, as above

    summary, cost, spans = api.execution(id), api.cost(id), api.timeline(id, SPANS)["spans"]
    seconds: dict[str, float] = {}
    retries: dict[str, int] = {}
    for span in spans:
        if span["kind"] == "run":
            seconds[span["step"]] = seconds.get(span["step"], 0.0) + (span["duration_ms"] or 0.0) / 1000
        elif span["kind"] == "task" and span.get("attempt", 1) > 1:
            retries[span["step"]] = retries.get(span["step"], 0) + 1
    steps = {
        name: PastStep(
            step["runs"],
            seconds.get(name, 0.0),
            cost["steps"][name]["cost"] if name in cost["steps"] else 0.0,
            step["loop"]["total"] if "loop" in step else None,
            retries.get(name, 0),
        )
        for name, step in summary["steps"].items()
        if step["runs"]
    }
    return PastRun((summary["duration_ms"] or 0) / 1000, cost["total"]["cost"], steps)


def _show(found: Forecast, failed: int) -> None:
    runs = f"{output.plural(found.runs, 'past execution')}" if found.runs else "the structure alone"
    print(output.styled(f"{found.path}, by {runs}" + (f" ({failed} more failed)" if failed else ""), "bold"))
    print(f"time: {_time(found.seconds.low)} to {_time(found.seconds.high)}, typically {_time(found.seconds.typical)}")
    cost = found.cost
    print(f"cost: {_usd(cost.low)} to {_usd(cost.high)}, typically {_usd(cost.typical)}")
    rows = [
        {
            "step": step.name,
            "seconds": f"{step.seconds.low:.3g}..{step.seconds.high:.3g}",
            "typically": f"{step.seconds.typical:.3g}",
            "USD of a million": f"{step.cost.low * 1e6:,.2f}..{step.cost.high * 1e6:,.2f}",
        }
        for step in found.steps
    ]
    output.table(rows)
    print("assumes:")
    for text in found.assumes:
        print(f"  {text}")


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _usd(cost: float) -> str:
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.7f}".rstrip("0").rstrip(".")
