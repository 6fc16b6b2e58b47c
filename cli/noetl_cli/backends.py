"""Where executions are: the local store in this process, or a stack behind its HTTP API."""

from __future__ import annotations

import os
from pathlib import Path

from noetl_cli.backend import Backend
from noetl_cli.errors import UNREACHABLE, USAGE, Exit
from noetl_cli.local_store import default_store, is_there


def backend(on: str | None, store: str | None, execution_id: str | None = None) -> Backend:
    """The wiring asked for: `local`, `stack` or the URL of an API; for an existing execution with nothing asked: the local store
    if it has it, else the stack."""
    if execution_id is not None and not (execution_id.isascii() and execution_id.isdecimal()):
        raise Exit(USAGE, f"{execution_id} is no execution's id: a number is expected")
    if on is not None and on != "local":
        return _stack(None if on == "stack" else on)
    local_store = store or default_store()
    if on == "local" or execution_id is None or is_there(local_store):
        from noetl_cli.local_backend import LocalBackend  # 400 ms: only who asks the local store

        local = LocalBackend(local_store)
        if on == "local" or execution_id is None or local.knows(execution_id):
            return local
        local.close()
    try:
        return _stack()
    except Exit:
        where = f"the local store {Path(local_store).absolute()} (NOETL_HOME or --store name another)"
        raise Exit(USAGE, f"there is no execution {execution_id} in {where}, and no stack is up") from None


def _stack(url: str | None = None) -> Backend:
    """The API at `url`, by default that of `api_url`."""
    from noetl_cli.stack_backend import StackBackend  # 6 ms: only who asks a stack

    return StackBackend(api_url(url))


def api_url(url: str | None = None) -> str:
    """`url`, else `NOETL_API_URL`, or that of the stack brought up last."""
    url = url or os.environ.get("NOETL_API_URL")
    if not url:
        from noetl_infra.stack import absent, current  # 30 ms: who names the API needs none of it

        stack = current()
        if stack is None or not stack.api_url:
            raise Exit(UNREACHABLE, f"{absent()}: run `noetl up`, or set NOETL_API_URL")
        url = stack.api_url
    return url
