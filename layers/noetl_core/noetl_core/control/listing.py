"""Lists of executions: pages of heads, newest first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast, get_args
from urllib.parse import parse_qsl

from noetl_core.control import read
from noetl_core.control.core import Control
from noetl_core.control.cursor import BadCursor, sign, unsign
from noetl_core.control.refusals import BadRequest
from noetl_core.dsl.search import MOST, NAME
from noetl_core.engine.search import MAX_BYTES
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
    search: str | None = None,
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
        where=None if search is None else attributes(search),
    )
    onward = sign(heads[-1].execution_id, key()) if len(heads) == limit else None
    shown = [cast("ListedExecution", read.head_as_dict(h)) for h in heads]
    if status == "waiting":
        shown = [{**e, "status": "waiting"} for e in shown if waits(control, e["execution_id"])]
    return {"executions": shown, "cursor": onward}


def attributes(search: str) -> dict[str, str]:
    """Return the attributes of `customer=acme&total=12`, percent-encoded as in a query. Raises `BadRequest`."""
    try:
        found = parse_qsl(search, keep_blank_values=True, strict_parsing=True, max_num_fields=MOST)
    except ValueError:
        found = []
    wrong = next((n for n, v in found if not NAME.match(n) or len(v.encode("utf-8", "surrogatepass")) > MAX_BYTES), None)
    if not found or wrong is not None:
        hint = f"such as customer=acme, or several with & between them; at most {MOST}"
        raise BadRequest(f"{(wrong or search)[:80]!r} names no search attributes", "query.search", hint)
    return dict(found)


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
