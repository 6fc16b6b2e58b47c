"""`noetl serve`: schedules, timers and waits of the local store, in one long-running process."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from noetl_cli.app import Output, Store, app
from noetl_cli.backends.local_store import IN_MEMORY, default_store
from noetl_cli.display import output
from noetl_cli.errors import USAGE, Exit, say
from noetl_core.values.instants import to_rfc3339

if TYPE_CHECKING:
    from noetl_cli.backends.local import LocalBackend
    from noetl_core.engine.records import Commit


@app.command()
def serve(
    port: Annotated[
        int | None, typer.Option(help="Accept webhooks on this port of this machine", metavar="N", min=0, max=65535)
    ] = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Start the schedules of the local store, and continue its waiting executions, until Ctrl-C."""
    from noetl_cli.backends.local import LocalBackend  # 400 ms: needed only to query the local store

    if store == IN_MEMORY:
        raise Exit(USAGE, "a store in memory ends with its process: there is nothing to serve")
    where = LocalBackend(store or default_store())
    with closing(where), _hooks(where, port):
        known = where.api.triggers()["triggers"]
        on = sum(1 for trigger in known if trigger["enabled"] and "deleted_at" not in trigger)
        say(f"serving {store or default_store()}: {on} of {len(known)} triggers are on (noetl triggers ls); Ctrl-C ends it")
        news: deque[Commit] = deque()
        where.wiring.observe(lambda commit: news.append(commit) if commit.stream.run_id is None else None)

        def tick() -> None:
            while news:
                _tell(news.popleft(), output_)

        where.serve(tick)
        tick()


@contextmanager
def _hooks(where: LocalBackend, port: int | None) -> Iterator[None]:
    """Accept webhooks meanwhile, if a port is given."""
    if port is None:
        yield
        return
    from noetl_cli.backends.hook_server import HookServer, serving  # 20 ms: needed only to take webhooks

    try:
        server = HookServer(where.wiring, where.wiring.credentials, port)
    except OSError as error:
        raise Exit(USAGE, f"cannot listen on port {port}: {error.strerror}") from None
    say(f"webhooks are accepted at {server.address}PATH/NAME")
    with serving(server):
        yield


def _tell(commit: Commit, how: str) -> None:
    """Print that an execution has begun or ended."""
    for event in commit.events:
        told: dict[str, str]
        if event.name == "PlaybookExecutionRequested":
            trigger = event.data.get("trigger")
            told = {"playbook": event.data["path"]} | ({"trigger": trigger["name"], "id": trigger["id"]} if trigger else {})
            status = "started"
        elif event.name == "WorkflowFinished":
            error = event.data.get("error")
            told, status = {"error": error["message"]} if error else {}, event.data["status"]
        else:
            continue
        if how == "text":
            clock = datetime.fromisoformat(to_rfc3339(commit.ts)).astimezone().strftime("%H:%M:%S")
            print(clock, commit.stream.execution_id, output.styled(status, status), *told.values())
        else:
            line = {"at": to_rfc3339(commit.ts), "execution_id": commit.stream.execution_id, "status": status}
            output.as_lines([{**line, **told}])
        sys.stdout.flush()
