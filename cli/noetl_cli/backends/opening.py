"""Opens the backend of executions: the local store in this process, or the HTTP API of a stack."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from noetl_cli.backends.backend import Backend
from noetl_cli.backends.local_store import default_store, is_there
from noetl_cli.errors import UNREACHABLE, USAGE, Exit

LAST: Final = "@last"
SHORT: Final = range(3, 13)
"""A shortened id: its last or first digits."""
OFFERED: Final = 20
"""The most executions that a shell completion offers."""
SEARCHED: Final = 1000
"""The newest executions, among which a shortened id is searched."""


@contextmanager
def execution(id: str, on: str | None, store: str | None) -> Iterator[tuple[Backend, str]]:
    """Open the backend of an existing execution; yield it with the full id of `id`, which may be `@last` or a shortened id.
    Raises `Exit(2)`."""
    with closing(_listing(on, store) if _is_short(id) else backend(on, store, id)) as where:
        yield where, in_full(where, id)


def in_full(where: Backend, id: str) -> str:
    """Return the full id of `id`, which may be `@last` or a shortened id. Raises `Exit(2)`."""
    return _whole(where, id) if _is_short(id) else id


def _is_short(id: str) -> bool:
    return id == LAST or (id.isascii() and id.isdecimal() and len(id) in SHORT)


def newest() -> list[tuple[str, str]]:
    """Return the newest ids of the local store, each with its playbook and status, for shell completion."""
    if not is_there(default_store()):
        return []
    with closing(backend("local", None)) as where:
        found = where.api.executions(limit=OFFERED)["executions"]
    return [(each["execution_id"], f"{each['playbook']['path']} {each['status']}") for each in found]


def _listing(on: str | None, store: str | None) -> Backend:
    """Return the backend for lists of executions: the local store if there is one, otherwise the stack."""
    if on is not None or is_there(store or default_store()):
        return backend(on or "local", store)
    try:
        return _stack()
    except Exit:
        return backend("local", store)


def _whole(where: Backend, id: str) -> str:
    """Return the id of the newest execution (`@last`), or of the one whose id ends or begins with `id`."""
    found = where.api.executions(limit=1 if id == LAST else SEARCHED)["executions"]
    if id == LAST:
        if not found:
            raise Exit(USAGE, f"{LAST}: there is no execution yet on {where.name}")
        return found[0]["execution_id"]
    ids = [each["execution_id"] for each in found]
    fits = [each for each in ids if each.endswith(id)] or [each for each in ids if each.startswith(id)]
    if len(fits) != 1:
        what = f"{len(fits)} executions" if fits else f"none of the newest {len(ids)} executions"
        told = f": {', '.join(fits[:5])}" if fits else ""
        have = "have ids that end or begin" if len(fits) > 1 else "has an id that ends or begins"
        raise Exit(USAGE, f"{what} on {where.name} {have} with {id}{told}")
    return fits[0]


def backend(on: str | None, store: str | None, execution_id: str | None = None) -> Backend:
    """Return the backend for `local`, `stack` or the URL of an API. Without `on`, for an existing execution: the local store if
    it has the execution, otherwise the stack."""
    if execution_id is not None and not (execution_id.isascii() and execution_id.isdecimal()):
        raise Exit(USAGE, f"{execution_id} is not the id of an execution: a number is expected, digits of its end, or {LAST}")
    if on is not None and on != "local":
        return _stack(None if on == "stack" else on)
    local_store = store or default_store()
    if on == "local" or execution_id is None or is_there(local_store):
        from noetl_cli.backends.local import LocalBackend  # 400 ms: needed only to query the local store

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
    """Return the backend of the API at `url`, by default that of `api_url`."""
    from noetl_cli.backends.stack import StackBackend, own_token  # 6 ms: needed only to query a stack

    return StackBackend(api_url(url), own_token())


def api_url(url: str | None = None) -> str:
    """Return `url`, otherwise `NOETL_API_URL`, otherwise the URL of the stack brought up last."""
    url = url or os.environ.get("NOETL_API_URL")
    if not url:
        from noetl_infra.stack import absent, current  # 30 ms: needed only without a URL

        stack = current()
        if stack is None or not stack.api_url:
            raise Exit(UNREACHABLE, f"{absent()}: run `noetl up`, or set NOETL_API_URL")
        url = stack.api_url
    return url
