"""Commands that operate an execution: resume, cancel, pause, signal, callback."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

import typer

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
def cancel(id: Id, reason: str = "", on: On = None, store: Store = None) -> None:
    """Cancel an execution."""
    with closing(backend(on, store, id)) as where:
        answer = where.post(f"executions/{id}/cancel", {"reason": reason} if reason else {})
        print(f"{id} {answer['status']}")


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

    with closing(backend(on, store, id)) as where:
        answer = where.post("events", {"execution_id": id, "name": name, "data": json_of(data, "--data")})
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
    with closing(backend(on, store, token.split(".")[0])) as where:
        answer = where.post(f"callbacks/{token}", body)
        print(f"{answer['execution_id']} {answer['callback']}")
