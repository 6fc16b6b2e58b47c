"""The command that serves the console."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noetl_cli.app import On, Store, app
from noetl_cli.errors import FAILED, UNREACHABLE, USAGE, Exit, Stopped, say

if TYPE_CHECKING:
    from noetl_console.answering import Answering
    from noetl_console.following import Following
    from noetl_console.server import Console


@app.command()
def console(
    on: On = None,
    port: Annotated[int | None, typer.Option(help="Port (default 4680, or a free one)", min=1, max=65535)] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the address")] = False,
    store: Store = None,
    upload_to: Annotated[
        str | None,
        typer.Option(
            help="Upload the pages to a stack deployed with Console=yes (its output ConsoleBucketName) and exit", metavar="BUCKET"
        ),
    ] = None,
) -> None:
    """Serve the console to this machine's browser (default: of the local store)."""
    if upload_to is not None:
        _upload(upload_to)
        return
    serving = begin(api_of(on, store), port)
    api, address = serving.api, serving.address()
    print(address, flush=True)
    say(f"the console of {api.name}; the address lets in one browser, once. Enter prints another address, Ctrl-C ends")
    if not no_open:
        show(address)
    try:
        _wait(serving)
    except Stopped as stopped:
        raise Exit(stopped.code, "the console ended") from None
    finally:
        end(serving)


def begin(api: Answering, port: int | None, following: Following | None = None) -> Console:
    """Serve the console in a thread, until `end`. Raises `Exit(2)` if the port is in use."""
    from noetl_console.server import Console  # 20 ms: needed only to serve it

    try:
        serving = Console(api, port, following)
    except OSError as error:
        api.close()
        raise Exit(USAGE, f"cannot listen on port {port}: {error.strerror}") from None
    threading.Thread(target=serving.serve_forever, name="console", daemon=True).start()
    return serving


def end(serving: Console) -> None:
    """Stop serving."""
    serving.shutdown()
    serving.server_close()
    serving.api.close()


def show(address: str) -> None:
    """Open an address in the browser, if there is one."""
    import webbrowser  # 10 ms: needed only to open one

    webbrowser.open(address)


def _upload(bucket: str) -> None:
    from botocore.exceptions import BotoCoreError, ClientError  # 200 ms, with the next two: needed only to upload

    from noetl_console.publishing import publish
    from noetl_core.aws.clients import client

    try:
        version = publish(client("s3"), bucket)
    except ClientError as error:
        raise Exit(FAILED, f"the bucket {bucket} is refused: {error}") from None
    except BotoCoreError as error:
        raise Exit(UNREACHABLE, f"S3 does not answer: {error}") from None
    print(f"s3://{bucket}/index.html shows version {version}")


def api_of(on: str | None, store: str | None) -> Answering:
    """Return the API that the console shows."""
    if on is not None and on != "local":
        from noetl_cli.backends.opening import api_url  # 10 ms, with the next: needed only to query a stack
        from noetl_console.remote import RemoteApi

        return RemoteApi(api_url(None if on == "stack" else on), os.environ.get("NOETL_TOKEN", "").strip() or None)
    from noetl_cli.backends import local_store  # 300 ms, with the next: needed only to serve a local store
    from noetl_console.local import LocalApi

    if store == local_store.IN_MEMORY:
        raise Exit(USAGE, "the console shows only a store in a file: write --store FILE, or leave --store out")
    where = Path(store or local_store.default_store())
    where.parent.mkdir(parents=True, exist_ok=True)
    return LocalApi(str(where))


def _wait(serving: Console) -> None:
    """Wait for a signal; print a new address for each line on standard input."""
    if sys.stdin.isatty():
        for _ in sys.stdin:
            print(serving.address(), flush=True)
    threading.Event().wait()
