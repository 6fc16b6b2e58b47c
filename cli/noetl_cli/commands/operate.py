"""Commands that operate an execution: resume, cancel, pause, redrive, signal, callback."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noetl_cli.app import Id, On, Output, Store, app
from noetl_cli.backends.opening import backend, execution
from noetl_cli.display import output
from noetl_cli.errors import FAILED, USAGE, Exit, say
from noetl_cli.inputs import files
from noetl_cli.inputs.payload import json_of, put
from noetl_core.engine.statuses import HELD, TERMINAL

if TYPE_CHECKING:
    from noetl_core.api.shapes.executions import RedrivePlan


@app.command()
def resume(id: Id, on: On = None, store: Store = None, output_: Output = "text") -> None:
    """Continue a paused execution, or one that this machine left unfinished."""
    from noetl_cli.display.follow import Watch, ended  # 17 ms: needed only to follow an execution

    with execution(id, on, store) as (where, id):
        status = where.api.state(id)["status"]
        if status in TERMINAL:
            raise Exit(FAILED, f"execution {id} has already ended ({status})")
        if status in HELD or where.name == "stack":
            where.api.resume(id)
        watch = Watch(where, id, quiet=output_ != "text")
        try:
            where.follow(id, None, watch.tick)
        finally:
            watch.close()
        ended(where, id, output_, False)


@app.command()
def cancel(
    id: Id,
    reason: str = "",
    compensate: Annotated[bool, typer.Option("--compensate", help="Then run the `compensate` tasks of finished steps")] = False,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Cancel an execution, and its children."""
    with execution(id, on, store) as (where, id):
        status = where.api.cancel(id, reason=reason or None, compensate=compensate or None)["status"]
        if compensate and status == "cancelling" and where.name == "local":
            where.follow(id, None, lambda: None)  # this process runs the compensations
            status = where.api.state(id)["status"]
        _operated(id, status, output_)


def _operated(id: str, status: str, how: str) -> None:
    """Print the state of an execution after an operation."""
    output.done(f"{id} {status}", {"execution_id": id, "status": status}, how)


@app.command()
def redrive(
    id: Id,
    begin: Annotated[
        str | None,
        typer.Option("--from", help="Step or task to begin with (default: the one that failed)", metavar="STEP[/TASK][@N]"),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A key of ctx to set; repeatable", metavar="ctx.A=VALUE")
    ] = None,
    args: Annotated[str | None, typer.Option(help="Arguments of the step to set: JSON, or @file", metavar="JSON|@file")] = None,
    playbook: Annotated[Path | None, typer.Option(help="Continue with the playbook in this file", metavar="FILE")] = None,
    version: Annotated[
        str | None, typer.Option(help="Continue with this version of the playbook: a number or an alias", metavar="N|ALIAS")
    ] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Only show the parts that would run again")] = False,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
    events: Annotated[bool, typer.Option("--events", help="Add the event log")] = False,
) -> None:
    """Run an ended execution again, keeping its finished work, and follow it to its end."""
    from noetl_cli.display.follow import Watch, ended  # 17 ms: needed only to follow an execution

    ctx: dict[str, Any] = {}
    source = None if playbook is None else files.playbook(playbook)
    if source is not None and playbook is not None:
        files.check(source, playbook)
    step_args = None if args is None else json_of(args, "--args")
    if not isinstance(step_args, dict | None):
        raise Exit(USAGE, f"--args is a JSON {type(step_args).__name__}; an object is expected")
    for entry in set_ or []:
        if not entry.startswith("ctx."):
            raise Exit(USAGE, f"--set {entry!r}: expected ctx.a=value (args of the step: --args)")
        put(ctx, entry.removeprefix("ctx."))
    with execution(id, on, store) as (where, id):
        shown = where.api.redrive(
            id, begin=begin, ctx=ctx or None, args=step_args, playbook=source, version=version, preview=preview or None
        )["redrive"]
        if preview:
            _show(shown) if output_ == "text" else output.as_data(shown, output_)
            return
        watch = Watch(where, id, quiet=output_ != "text")
        try:
            where.follow(id, None, watch.tick)
        finally:
            watch.close()
        ended(where, id, output_, events)
        if playbook is not None and output_ == "text":
            say(f"noetl record {id} --fix turns this execution into a test that fails with the earlier playbook")


def _show(shown: RedrivePlan) -> None:
    """A preview for people."""
    for run in shown["again"]:
        visits = run.get("kept_visits", {})
        first = [f"{task}@{visits.get(task, 0) + 1}" if visits else task for task in run.get("tasks", ())[:1]]
        parts = [f"tasks {', '.join([*first, *run['tasks'][1:]])}"] if "tasks" in run else []
        if kept := [f"{task}@1-{visits[task]}" if visits.get(task, 1) > 1 else task for task in run.get("kept_tasks", ())]:
            parts.append(f"keeps {', '.join(kept)}")
        if "iterations" in run:
            parts.append(f"iterations {', '.join(run['iterations']) or 'none'} ({run['kept_iterations']} kept)")
        print(f"again  {run['step']}: {'; '.join(parts)}")
    for word, names in (("then", shown["then"]), ("waits", shown["waiting"]), ("kept", shown["kept"])):
        if names:
            print(f"{word:6} {', '.join(names)}")


@app.command()
def pause(id: Id, on: On = None, store: Store = None, output_: Output = "text") -> None:
    """Pause an execution: running pipelines stop at their next task."""
    with execution(id, on, store) as (where, id):
        _operated(id, where.api.pause(id)["status"], output_)


@app.command()
def signal(
    id: Id,
    name: str,
    data: Annotated[str, typer.Option(help="JSON, or @file", metavar="JSON|@file")] = "{}",
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Send a named signal, for which `kind: callback` with `signal: NAME` waits."""
    payload = json_of(data, "--data")
    with execution(id, on, store) as (where, id):
        _operated(id, where.api.signal(id, name, payload)["status"], output_)


@app.command()
def callback(
    token: Annotated[str, typer.Argument(help="The value of `callback.token` or `callback.url`, or as shown by `noetl show`")],
    data: Annotated[str | None, typer.Option(help="The task's result: JSON, or @file", metavar="JSON|@file")] = None,
    error: Annotated[str | None, typer.Option(help="Fail the task: a message, or JSON {kind, message, ...}")] = None,
    heartbeat: Annotated[bool, typer.Option("--heartbeat", help="Only signal that the responder is alive")] = False,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Answer a waiting callback."""
    if (data is not None) + (error is not None) + heartbeat > 1:
        raise Exit(USAGE, "give only one of --data, --error and --heartbeat")
    token = token.rsplit("/", 1)[-1].removeprefix("noetl-callback:")
    result = None if data is None else json_of(data, "--data")
    failure = json_of(error, "--error") if error is not None and error.lstrip().startswith(("{", "@")) else error
    execution_id = token.split(".")[0]
    if not (execution_id.isascii() and execution_id.isdecimal()):
        raise Exit(USAGE, f"{token[:80]} is not a callback token: `noetl show ID` shows the tokens of an execution")
    with closing(backend(on, store, execution_id)) as where:
        answer = where.api.callback_heartbeat(token) if heartbeat else where.api.answer_callback(token, result, failure)
    output.done(f"{answer['execution_id']} {answer['callback']}", answer, output_)
