"""Commands that operate an execution: resume, cancel, pause, signal."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from noetl_cli.app import Id, On, Output, Store, app
from noetl_cli.backends import TERMINAL, backend
from noetl_cli.errors import FAILED, Exit


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
