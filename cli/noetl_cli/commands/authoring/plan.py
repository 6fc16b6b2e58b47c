"""`noetl plan`: the time and the cost of an execution before it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from noetl_cli.app import On, Output, Store, app
from noetl_cli.backends.opening import backend
from noetl_cli.display import output
from noetl_cli.errors import Exit
from noetl_cli.inputs import files
from noetl_cli.inputs.payload import check_sets, payload_of, put
from noetl_core.values.request_bounds import MAX_PAST_RUNS

if TYPE_CHECKING:
    from noetl_core.api.shapes.catalog import Plan
    from noetl_core.dsl.model import Playbook
    from noetl_core.planning.changes import Change


@app.command()
def plan(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    last: Annotated[
        int, typer.Option(help="Number of newest executions to learn from", min=0, max=MAX_PAST_RUNS, metavar="N")
    ] = 20,
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
    text, playbook = _read(file)
    check_sets(set_ or (), playbook)
    workload = payload_of(payload)
    for entry in set_ or ():
        put(workload, entry)
    found = _plan(text, playbook, workload, last, on, store)
    differing = [] if base is None else _changes(base, playbook)
    if output_ != "text":
        data = dict(found)
        output.as_data(data if base is None else data | {"changes": [vars_of(each) for each in differing]}, output_)
        return
    if base is not None:
        print("\n".join(map(str, differing)) or f"the graph is the same as in {base}")
        print()
    _show(found)


def vars_of(change: Change) -> dict[str, str]:
    return {"how": change.how, "what": change.what}


def _changes(base: Path, playbook: Playbook) -> Sequence[Change]:
    from noetl_core.planning.changes import changes  # 200 ms: needed only with --base

    return changes(_read(base)[1], playbook)


def _read(file: Path) -> tuple[str, Playbook]:
    file = file / "playbook.yaml" if file.is_dir() else file
    text = files.with_libraries(files.playbook(file), file)
    return text, files.check(text, file)


def _plan(text: str, playbook: Playbook, payload: Mapping[str, Any], last: int, on: str | None, store: str | None) -> Plan:
    """Return the forecast from past executions; from the structure alone if there is no local store."""
    try:
        where = backend(on or "local", store)
    except Exit:
        if on not in (None, "local") or store is not None:
            raise
        from noetl_core.planning.forecast import forecast  # 200 ms: needed only to plan

        return cast("Plan", {**forecast(playbook, (), payload).as_dict(), "read": 0, "failed": 0})
    with closing(where):
        return where.api.plan(playbook=text, payload=payload, last=last)


def _show(found: Plan) -> None:
    failed, seconds, cost = found["failed"], found["seconds"], found["cost"]
    runs = f"{output.plural(found['runs'], 'past execution')}" if found["runs"] else "the structure alone"
    print(output.styled(f"{found['path']}, by {runs}" + (f" ({failed} more failed)" if failed else ""), "bold"))
    print(f"time: {_time(seconds['low'])} to {_time(seconds['high'])}, typically {_time(seconds['typical'])}")
    print(f"cost: {_usd(cost['low'])} to {_usd(cost['high'])}, typically {_usd(cost['typical'])}")
    rows = [
        {
            "step": step["step"],
            "seconds": f"{step['seconds']['low']:.3g}..{step['seconds']['high']:.3g}",
            "typically": f"{step['seconds']['typical']:.3g}",
            "USD of a million": f"{step['cost']['low'] * 1e6:,.2f}..{step['cost']['high'] * 1e6:,.2f}",
        }
        for step in found["steps"]
    ]
    output.table(rows)
    print("assumes:")
    for text in found["assumes"]:
        print(f"  {text}")


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _usd(cost: float) -> str:
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.7f}".rstrip("0").rstrip(".")
