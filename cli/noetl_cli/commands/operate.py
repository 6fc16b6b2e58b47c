"""Commands that operate an execution: resume, cancel, pause, redrive, signal, callback."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from noetl_cli import files
from noetl_cli.app import Id, On, Output, Store, app
from noetl_cli.backends import TERMINAL, backend
from noetl_cli.errors import FAILED, USAGE, Exit


@app.command()
def resume(id: Id, on: On = None, store: Store = None, output_: Output = "human") -> None:
    """Go on with a paused execution, or with one that this machine left unfinished."""
    from noetl_cli.follow import Watch, ended

    with closing(backend(on, store, id)) as where:
        status = where.get(f"executions/{id}/state")["status"]
        if status in TERMINAL:
            raise Exit(FAILED, f"execution {id} has already ended ({status})")
        if status in ("paused", "stuck") or where.name == "stack":
            where.post(f"executions/{id}/resume", {})
        watch = Watch(where, id, quiet=output_ != "human")
        try:
            where.follow(id, None, watch.tick)
        finally:
            watch.close()
        ended(where, id, output_, False)


@app.command()
def cancel(
    id: Id,
    reason: str = "",
    compensate: Annotated[bool, typer.Option("--compensate", help="then undo finished steps by their `compensate`")] = False,
    on: On = None,
    store: Store = None,
) -> None:
    """Cancel an execution, and its children."""
    given = {"reason": reason, "compensate": compensate}
    with closing(backend(on, store, id)) as where:
        answer = where.post(f"executions/{id}/cancel", {k: v for k, v in given.items() if v})
        if compensate and answer["status"] == "cancelling" and where.name == "local":
            where.follow(id, None, lambda: None)  # this process carries the compensations out
            answer = where.get(f"executions/{id}/state")
        print(f"{id} {answer['status']}")


@app.command()
def redrive(
    id: Id,
    begin: Annotated[
        str | None, typer.Option("--from", help="where to begin; default: where it failed", metavar="STEP[/TASK][@0.3]")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="a key of ctx; repeatable", metavar="ctx.A=VALUE")] = None,
    args: Annotated[str | None, typer.Option(help="args of the step to set: JSON, or @file", metavar="JSON|@file")] = None,
    playbook: Annotated[Path | None, typer.Option(help="go on with this version of the playbook", metavar="FILE")] = None,
    version: Annotated[int | None, typer.Option(help="go on with this version of the playbook", metavar="N")] = None,
    preview: Annotated[bool, typer.Option("--preview", help="only say what would run again")] = False,
    on: On = None,
    store: Store = None,
    output_: Output = "human",
    events: Annotated[bool, typer.Option("--events", help="Add the event log")] = False,
) -> None:
    """Run an execution that has ended again, keeping what it finished, and follow it to its end."""
    from noetl_cli import output
    from noetl_cli.follow import Watch, ended
    from noetl_cli.payload import json_of, put

    body: dict[str, Any] = {"from": begin, "version": version, "preview": preview or None}
    if playbook is not None:
        body["playbook"] = files.read(playbook)
        files.check(body["playbook"], playbook)
    if args is not None:
        body["args"] = json_of(args, "--args")
    for entry in set_ or []:
        if not entry.startswith("ctx."):
            raise Exit(USAGE, f"--set {entry!r}: expected ctx.a=value (args of the step: --args)")
        put(body.setdefault("ctx", {}), entry.removeprefix("ctx."))
    with closing(backend(on, store, id)) as where:
        answer = where.post(f"executions/{id}/redrive", {k: v for k, v in body.items() if v is not None})
        if preview:
            _show(answer["redrive"]) if output_ == "human" else output.as_json(answer["redrive"])
            return
        watch = Watch(where, id, quiet=output_ != "human")
        try:
            where.follow(id, None, watch.tick)
        finally:
            watch.close()
        ended(where, id, output_, events)


def _show(shown: dict[str, Any]) -> None:
    """A preview for people."""
    for run in shown["again"]:
        parts = [f"tasks {', '.join(run['tasks'])}"] if "tasks" in run else []
        if run.get("kept_tasks"):
            parts.append(f"keeps {', '.join(run['kept_tasks'])}")
        if "iterations" in run:
            parts.append(f"iterations {', '.join(run['iterations']) or 'none'} ({run['kept_iterations']} kept)")
        print(f"again  {run['step']}: {'; '.join(parts)}")
    for word, names in (("then", shown["then"]), ("waits", shown["waiting"]), ("kept", shown["kept"])):
        if names:
            print(f"{word:6} {', '.join(names)}")


@app.command()
def pause(id: Id, on: On = None, store: Store = None) -> None:
    """Pause an execution: running pipelines stop at their next task."""
    with closing(backend(on, store, id)) as where:
        print(f"{id} {where.post(f'executions/{id}/pause', {})['status']}")


@app.command()
def signal(
    id: Id,
    name: str,
    data: Annotated[str, typer.Option(help="JSON, or @file", metavar="JSON|@file")] = "{}",
    on: On = None,
    store: Store = None,
) -> None:
    """Send a named signal: what `kind: callback` with `signal: NAME` waits for."""
    from noetl_cli.payload import json_of

    given = json_of(data, "--data")
    with closing(backend(on, store, id)) as where:
        answer = where.post("events", {"execution_id": id, "name": name, "data": given})
        print(f"{id} {answer['status']}")


@app.command()
def callback(
    token: Annotated[str, typer.Argument(help="what `callback.token` or `callback.url` gave, or `noetl show` shows")],
    data: Annotated[str | None, typer.Option(help="the task's result: JSON, or @file", metavar="JSON|@file")] = None,
    error: Annotated[str | None, typer.Option(help="fail the task: a message, or JSON {kind, message, ...}")] = None,
    heartbeat: Annotated[bool, typer.Option("--heartbeat", help="only say that whoever is to answer is alive")] = False,
    on: On = None,
    store: Store = None,
) -> None:
    """Answer a waiting callback."""
    from noetl_cli.payload import json_of

    if (data is not None) + (error is not None) + heartbeat > 1:
        raise Exit(USAGE, "give one of --data, --error and --heartbeat")
    token = token.rsplit("/", 1)[-1].removeprefix("noetl-callback:")
    body: dict[str, Any] = {"heartbeat": True} if heartbeat else {}
    if data is not None:
        body["data"] = json_of(data, "--data")
    if error is not None:
        said = json_of(error, "--error") if error.lstrip().startswith(("{", "@")) else error
        body |= {"status": "error", "error": said}
    execution_id = token.split(".")[0]
    if not (execution_id.isascii() and execution_id.isdecimal()):
        raise Exit(USAGE, f"{token[:80]} is no callback's token: `noetl show ID` shows those an execution waits for")
    with closing(backend(on, store, execution_id)) as where:
        answer = where.post("callbacks", {**body, "token": token})
        print(f"{answer['execution_id']} {answer['callback']}")
