"""Commands that look at executions: ls, show, events, watch."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from noetl_cli.app import Id, On, Output, Store, app
from noetl_cli.backends.backend import Backend
from noetl_cli.backends.opening import backend, execution
from noetl_cli.display import output
from noetl_cli.errors import TIMEOUT, USAGE, Exit, say
from noetl_core.engine.statuses import STOPPED

if TYPE_CHECKING:
    from noetl_core.api.shapes.executions import TriggerName


@app.command("ls")
def list_executions(
    status: Annotated[str | None, typer.Option(help="Only with this status, such as failed, waiting or retrying")] = None,
    path: str | None = None,
    since: Annotated[str | None, typer.Option(help="Only started at or after this instant", metavar="INSTANT")] = None,
    until: Annotated[str | None, typer.Option(help="Only started at or before this instant", metavar="INSTANT")] = None,
    find: Annotated[
        str | None, typer.Option(help="Only with this text in the id, path, error, labels or search attributes", metavar="TEXT")
    ] = None,
    limit: int = 50,
    where_: Annotated[
        list[str] | None,
        typer.Option("--where", help="Only with this search attribute; repeatable: give the rarest first", metavar="NAME=VALUE"),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Only with this label, with any value or this one; repeatable", metavar="KEY[=VALUE]")
    ] = None,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """List executions, newest first (default: of the local store)."""
    if wrong := next((text for text in where_ or () if not text.partition("=")[2]), None):
        raise Exit(USAGE, f"--where {wrong}: write NAME=VALUE, for example --where customer=acme")
    search = urlencode([(text.partition("=")[0], text.partition("=")[2]) for text in where_ or ()]) or None
    labels = ",".join(text.replace("=", ":", 1) for text in label or ()) or None
    with closing(backend(on or "local", store)) as where:
        page = where.api.executions(
            status=status, path=path, since=since, until=until, q=find, limit=limit, search=search, label=labels
        )
        found, absent = page["executions"], where.missing_store
    shown: list[dict[str, Any]] = [{**e} for e in found]
    if output_ == "text":
        searched = any(e.get("search") for e in found)
        shown = [
            {
                "execution": e["execution_id"],
                "status": e["status"],
                "playbook": f"{e['playbook']['path']}@{e['playbook']['version']}",
                "started": f"{e['started_at'][:19]}Z",
                "ms": e["duration_ms"],
                **({"search": ", ".join(f"{k}={v}" for k, v in e.get("search", {}).items())} if searched else {}),
            }
            for e in found
        ]
        if any(e.get("warnings") for e in found):
            shown = [{**row, "warnings": e.get("warnings") or ""} for row, e in zip(shown, found, strict=True)]
        if any(e.get("waiting_for") for e in found):
            waits = [", ".join(output.awaited(wait) for wait in e.get("waiting_for", ())) for e in found]
            shown = [{**row, "waits for": text} for row, text in zip(shown, waits, strict=True)]
        if any(e.get("trigger") for e in found):  # a column that most stores would have empty
            shown = [{**row, "by": _by(e.get("trigger"))} for row, e in zip(shown, found, strict=True)]
    output.rows(shown, output_)
    if page["cursor"] is not None and output_ == "text":
        say(f"there are more: --limit {limit * 2} shows more; --status, --path and --since narrow the list")
    say(absent)


def _by(trigger: TriggerName | None) -> str:
    return f"{trigger['kind']} {trigger['name']}" if trigger else ""


@app.command()
def show(
    id: Id,
    step: Annotated[str | None, typer.Argument(metavar="STEP")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Show the failed iterations of STEP, by error")] = False,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Show an execution: status, steps, result; or one of its steps (ID STEP, or ID.STEP), with the errors of its iterations."""
    id, step = _with_step(id, step)
    if failed and step is None:
        raise Exit(USAGE, "--failed shows the failed iterations of a step: write noetl show ID STEP --failed")
    with execution(id, on, store) as (where, id):
        if step is not None:
            from noetl_cli.display.step import show_step  # 2 ms: needed only to show a step

            show_step(where, id, step, failed=failed, how=output_)
            return
        summary: dict[str, Any] = {**where.api.execution(id)}
        _put_tokens(where, summary)
        if output_ != "text":
            output.as_data(summary, output_)
            return
        from noetl_cli.display.execution_output import print_execution  # 4 ms: only for people

        print_execution(where, summary, steps=True)


@app.command()
def why(
    id: Id,
    step: Annotated[str | None, typer.Argument(metavar="STEP")] = None,
    at: Annotated[str | None, typer.Option(help="Explain only the decisions up to this event", metavar="EVENT")] = None,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Explain why a step ran or did not, back to the cause; without a step, why the execution ended as it did."""
    id, step = _with_step(id, step)
    from noetl_cli.display import explain  # 4 ms, with the next: needed only by `why`
    from noetl_cli.display.sources import Sources

    with execution(id, on, store) as (where, id):
        found = where.api.why(id, step, at=at)
    if output_ != "text":
        output.as_data(found, output_)
        return
    sources = Sources()
    explain.causes(found, sources)
    explain.facts(found, sources)
    if not found["causes"] and not found["facts"]:
        print(f"{id} {found['status']}: nothing stopped, failed or was left out")


def _with_step(id: str, step: str | None) -> tuple[str, str | None]:
    """Return the id and the step of `ID`, `ID STEP` or `ID.STEP`. Raises `Exit(2)`."""
    id, _, dotted = id.partition(".")
    if dotted and step:
        raise Exit(USAGE, f"two steps are given: {dotted} and {step}")
    return id, step or dotted or None


def _put_tokens(where: Backend, summary: dict[str, Any]) -> None:
    """Tokens of the waiting callbacks, for those who may answer them."""
    waiting = [w for w in summary.get("waiting_for", ()) if w["kind"] == "callback"]
    if not waiting:
        return
    try:
        found = where.api.callbacks(summary["execution_id"])["callbacks"]
    except Exit:  # the summary is complete without them
        return
    tokens = {c["wait_id"]: c["token"] for c in found}
    for wait in waiting:
        if wait["wait_id"] in tokens:
            wait["token"] = tokens[wait["wait_id"]]


@app.command()
def watch(
    id: Id,
    on: On = None,
    store: Store = None,
    timeout: Annotated[float | None, typer.Option(metavar="S")] = None,
    output_: Output = "text",
) -> None:
    """Follow an execution that runs elsewhere to its end."""
    from noetl_cli.display.follow import Watch, ended, polled  # 17 ms: needed only to follow an execution

    with execution(id, on, store) as (where, id):
        view = Watch(where, id, polled(where, id), quiet=output_ != "text")
        until = None if timeout is None else time.monotonic() + timeout
        try:
            while where.api.state(id)["status"] not in STOPPED:
                if until is not None and time.monotonic() > until:
                    raise Exit(TIMEOUT, f"execution {id} did not end within {timeout:g} s")
                view.tick()
                time.sleep(0.3)
        finally:
            view.close()
        ended(where, id, output_, False)


@app.command()
def get(
    what: Annotated[str, typer.Argument(metavar="ID[.STEP]")],
    to: Annotated[str, typer.Option("-o", "--to", help="The file to write, or - for standard output", metavar="FILE")] = "-",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file")] = False,
    on: On = None,
    store: Store = None,
) -> None:
    """Download the result of an execution, or of a step, with its references resolved."""
    from noetl_cli.display.download import download  # 10 ms: needed only to download

    id, _, step = what.partition(".")
    with execution(id, on, store) as (where, id):
        download(where.api, id, step or None, to, force=force)
