"""Lists of executions: pages of heads, newest first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast, get_args

from noetl_core.control import read
from noetl_core.control.core import Control
from noetl_core.control.cursor import BadCursor, sign, unsign
from noetl_core.control.refusals import BadRequest
from noetl_core.engine.statuses import Status
from noetl_core.instants import from_text, in_microseconds
from noetl_core.ports import CorruptLog, NewerLog

if TYPE_CHECKING:
    from noetl_core.client.shapes import Executions, ListedExecution

STATUSES: tuple[str, ...] = get_args(Status)
LISTED = 50


def page(
    control: Control,
    key: Callable[[], bytes],
    *,
    status: str | None = None,
    path: str | None = None,
    since: str | None = None,
    limit: int = LISTED,
    cursor: str | None = None,
) -> Executions:
    """A page of heads. Heads say `running` of an execution that waits: `status=waiting` looks which of the running ones do, so
    its pages may be short before the last. `key` signs cursors. Raises `BadRequest`, `BadCursor`."""
    if status is not None and status not in STATUSES:
        raise BadRequest(f"there is no status {status!r}", "query.status", f"known: {', '.join(STATUSES)}")
    heads = control.index.heads(
        status="running" if status == "waiting" else status,
        path=path,
        since=None if since is None else instant(since),
        limit=limit,
        before=None if cursor is None else before(cursor, key()),
    )
    onward = sign(heads[-1].execution_id, key()) if len(heads) == limit else None
    shown = [cast("ListedExecution", read.head_as_dict(h)) for h in heads]
    if status == "waiting":
        shown = [{**e, "status": "waiting"} for e in shown if waits(control, e["execution_id"])]
    return {"executions": shown, "cursor": onward}


def before(cursor: str, key: bytes) -> str:
    """The execution the page before ended with. Raises `BadCursor`."""
    last = unsign(cursor, key)
    if not isinstance(last, str):
        raise BadCursor("the cursor is one of a history")
    return last


def waits(control: Control, execution_id: str) -> bool:
    """Whether an execution that runs, as its head says, waits."""
    try:
        return read.status_of(control.load(execution_id)) == "waiting"
    except (CorruptLog, NewerLog):
        return False  # it cannot be said, and the others of the list can


def instant(text: str) -> int:
    """The instant that `since` says. Raises `BadRequest`."""
    try:
        return in_microseconds(from_text(text))
    except ValueError as error:
        raise BadRequest(f"since is not an instant: {error}", "query.since") from None
