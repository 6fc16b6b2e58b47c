"""Commands that show and follow the history of executions: events, logs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noetl_cli.app import Id, On, Output, Store, app
from noetl_cli.backends.backend import PAGE
from noetl_cli.backends.opening import execution
from noetl_cli.display import output
from noetl_cli.display.filters import Failed, Filter, Follow, OfIteration, OfStep, OfTask, Since, Tail, followed
from noetl_cli.display.running import Running, heading, lines
from noetl_cli.errors import USAGE, Exit, say

if TYPE_CHECKING:
    from noetl_cli.backends.backend import Backend
    from noetl_core.api.shapes.views import LogEntry


@app.command()
def events(
    id: Id,
    name: Annotated[str | None, typer.Option(help="Events with this name, such as StepDone or step.done")] = None,
    after: Annotated[str | None, typer.Option(help="Events after this event or cursor", metavar="EVENT")] = None,
    follow: Follow = False,
    step: OfStep = None,
    task: OfTask = None,
    iteration: OfIteration = None,
    failed: Failed = False,
    tail: Tail = None,
    since: Since = None,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Show an execution's history in causal order; with -f also new events."""
    wanted = Filter.of(step, task, iteration, failed, since)
    with execution(id, on, store) as (where, id):

        def page(cursor: str | None) -> tuple[list[Any], str | None, bool]:
            found = where.api.events(id, after=cursor, name=name, limit=PAGE)
            return list(found["events"]), found["cursor"], found["more"]

        shown = followed(page, wanted, follow=follow, tail=tail, after=after)
        if not _show(shown, output_, follow, lambda event: print(output.event_line(event))):
            _check_step(where, id, step)


@app.command()
def logs(
    id: Id,
    follow: Follow = False,
    step: OfStep = None,
    task: OfTask = None,
    iteration: OfIteration = None,
    failed: Failed = False,
    tail: Tail = None,
    since: Since = None,
    full: Annotated[bool, typer.Option("--full", help="Print all output that was kept, not only its end")] = False,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Show tasks' standard output and standard error; with -f also new output, while tasks run."""
    wanted, running = Filter.of(step, task, iteration, failed, since), Running()
    seen = follow and output_ == "text"
    with execution(id, on, store) as (where, id):

        def page(cursor: str | None) -> tuple[list[Any], str | None, bool]:
            found = where.api.logs(id, step=step, task=task, full=full or None, after=cursor)
            if seen and not found["logs"]:  # output of ended attempts comes first
                running.print(r for r in found.get("running", ()) if wanted.fits({**r, "timestamp": r["started_at"]}))
                sys.stdout.flush()
            return list(found["logs"]), found["cursor"], found["more"]

        shown = followed(page, wanted, follow=follow, tail=tail)
        count = _show(shown, output_, follow, lambda entry: print_entry(running.rest(entry)))
        if not count:
            _check_step(where, id, step)
    if output_ == "text" and not count:
        narrowed = wanted != Filter()
        say("no task that matches the options wrote anything" if narrowed else "no task wrote anything")


def _check_step(where: Backend, id: str, step: str | None) -> None:
    """Raise `Exit(2)` if the playbook has no such step."""
    if step is not None:
        where.api.step_summary(id, step, buckets=1)


def _show(entries: Iterable[Any], how: str, follow: bool, line: Callable[[Any], None]) -> int:
    """Print entries, each at once when following; return how many were printed as text."""
    if how != "text" and not follow:
        output.as_data(entries, how)
        return 0
    if how not in ("text", "jsonl"):
        raise Exit(USAGE, f"-f prints entries one by one: write --output jsonl, not {how}")
    count = 0
    for entry in entries:
        count += 1
        line(entry) if how == "text" else output.as_json(entry)
        if follow:
            sys.stdout.flush()
    return count


def print_entry(entry: LogEntry) -> None:
    """Print what a task that has ended wrote."""
    print(heading(entry, entry["timestamp"], entry["status"]))
    if entry.get("more"):
        print(output.styled("  ... more before this: noetl logs --full", "dim"))
    lines(entry.get("stdout", ""), "stdout")
    lines(entry.get("stderr", ""), "stderr")
