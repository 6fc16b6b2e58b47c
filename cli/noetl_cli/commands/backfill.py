"""`noetl backfill`: runs a playbook for the occurrences of its schedule in the past."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from noetl_cli.app import On, Output, Store, app
from noetl_cli.backends.opening import backend
from noetl_cli.display import output
from noetl_cli.errors import say

if TYPE_CHECKING:
    from noetl_cli.backends.backend import Backend


@app.command()
def backfill(
    path: Annotated[str, typer.Argument(metavar="PATH[@VERSION]")],
    begin: Annotated[
        str,
        typer.Option(
            "--from", help="Start of the period, in the schedule's zone unless the instant has its own", metavar="INSTANT"
        ),
    ],
    end: Annotated[str, typer.Option("--to", help="End of the period (exclusive)", metavar="INSTANT")],
    trigger: Annotated[str | None, typer.Option(help="The schedule, if the playbook has several", metavar="NAME")] = None,
    parallel: Annotated[int, typer.Option(help="Maximum number of executions at a time", metavar="N")] = 1,
    again: Annotated[
        str | None, typer.Option(help="Run the same occurrences again, as another backfill with this name", metavar="WORD")
    ] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Only show the occurrences that would run")] = False,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Run a registered playbook for past occurrences of its schedule, and follow the backfill to its end."""
    from noetl_cli.display.follow import Watch, ended  # 17 ms: needed only to follow an execution

    with closing(backend(on or "local", store)) as where:
        shown = where.api.backfill(path, begin, end, trigger=trigger, parallel=parallel, again=again, preview=preview or None)
        if preview and output_ != "text":
            output.as_data(shown, output_)
            return
        named = f"{shown['playbook']['path']}@{shown['playbook']['version']}"
        many = f"{shown['occurrences']} occurrences" if shown["occurrences"] > 1 else "1 occurrence"
        told = f"{named}: {many} of {shown['trigger']}, from {shown['first']} to {shown['last']}"
        if preview:
            print(told)
            return
        execution_id = shown["execution_id"]
        if output_ == "text":
            say(told)
            say(f"execution {execution_id} on {where.name}" + ("" if shown["created"] else _before(where, execution_id)))
        watch = Watch(where, execution_id, quiet=output_ != "text")
        try:
            where.follow(execution_id, None, watch.tick)
        finally:
            watch.close()
        ended(where, execution_id, output_, False)


def _before(where: Backend, execution_id: str) -> str:
    """Report the state of an earlier identical backfill, and return how to continue it."""
    status = where.api.execution(execution_id)["status"]
    if status not in ("failed", "cancelled"):
        return ", which was started before"
    again = f"noetl redrive {execution_id}{output.on_option(where.name)}"
    return f", which was started before and is {status}: `{again}` runs what is missing"
