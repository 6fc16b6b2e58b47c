"""Lists of executions: pages of heads, newest first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast, get_args
from urllib.parse import parse_qsl

from noetl_core.control import labels, read
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
LOOKED_AT = 500
"""Heads of which one page looks at labels and paths."""


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
    label: str | None = None,
    text: str | None = None,
) -> Executions:
    """A page of heads. Heads say `running` of an execution that waits: `status=waiting` looks which of the running ones do.
    `label` is `key:value` or `key`, `text` the beginning of an id or a part of a path. With these three pages may be short before
    the last. `key` signs cursors. Raises `BadRequest`, `BadCursor`."""
    wanted = labels.asked(label)
    if status is not None and status not in STATUSES:
        raise BadRequest(f"there is no status {status!r}", "query.status", f"known: {', '.join(STATUSES)}")
    heads = control.index.heads(
        status="running" if status == "waiting" else status,
        path=path,
        since=None if since is None else instant(since),
        limit=limit if not wanted and text is None else max(limit, LOOKED_AT),
        before=None if cursor is None else before(cursor, key()),
        where=None if search is None else attributes(search),
    )
    shown: list[ListedExecution] = []
    last: str | None = None
    for number, head in enumerate(heads, 1):
        entry = cast("ListedExecution", read.head_as_dict(head))
        fits = labels.has(head.labels, wanted) and (text is None or head.execution_id.startswith(text) or text in head.path)
        if fits and status == "waiting":
            fits, entry = waits(control, head.execution_id), {**entry, "status": "waiting"}
        shown += [entry] if fits else []
        if len(shown) == limit or number == max(limit, LOOKED_AT):
            last = head.execution_id
            break
    else:
        last = heads[-1].execution_id if len(heads) == limit else None
    onward = None if last is None else sign(last, key())
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
