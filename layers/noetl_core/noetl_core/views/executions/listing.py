"""Lists executions: pages of heads, newest first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast
from urllib.parse import parse_qsl

from noetl_core.api.refused import BadCursor, BadRequest
from noetl_core.control.core import Control
from noetl_core.dsl.sections.search import MOST, NAME
from noetl_core.engine.routing.search_attributes import MAX_BYTES
from noetl_core.engine.statuses import LISTED_STATUSES
from noetl_core.ports import Head
from noetl_core.values.instants import from_text, in_microseconds
from noetl_core.views.executions import executions, labels
from noetl_core.views.executions.activity import DOING, STATES_READ, Doing, doing
from noetl_core.views.reading.cursor import sign, unsign

if TYPE_CHECKING:
    from noetl_core.api.shapes.executions import Executions, ListedExecution

LISTED = 50
LOOKED_AT = 500
"""Maximum number of heads that one page examines when it filters by label or path."""


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
    """Return a page of heads; those with the status `running` include their activity (`views.executions.activity`).

    With `label` (`key:value` or `key`), `text` (the beginning of an id, or a part of a path) or one of these activities as
    `status`, pages before the last may be short. `key` signs cursors. Raises `BadRequest`, `BadCursor`.
    """
    wanted = labels.parse_label_filter(label)
    if status is not None and status not in LISTED_STATUSES:
        raise BadRequest(f"there is no status {status!r}", "query.status", f"known: {', '.join(LISTED_STATUSES)}")
    chosen = status in DOING
    least = LOOKED_AT if wanted or text is not None else STATES_READ if chosen else 0
    most = max(limit, least)
    heads = control.index.heads(
        status="running" if chosen else status,
        path=path,
        since=None if since is None else instant(since),
        limit=most,
        before=None if cursor is None else before(cursor, key()),
        where=None if search is None else attributes(search),
    )
    fit = [
        head
        for head in heads
        if labels.has(head.labels, wanted) and (text is None or head.execution_id.startswith(text) or text in head.path)
    ]
    looked = fit[: STATES_READ if chosen else limit]
    activities = doing(
        control, looked, None if chosen or limit <= STATES_READ else 0
    )  # a search for an id lists thousands of heads
    entries = [
        _entry(head, activities.get(head.execution_id))
        for head in looked
        if not chosen or activities[head.execution_id].status == status
    ]
    last = None
    if len(entries) >= limit:
        last = entries[limit - 1]["execution_id"]
    elif len(looked) < len(fit):
        last = looked[-1].execution_id
    elif len(heads) == most:
        last = heads[-1].execution_id
    onward = None if last is None else sign(last, key())
    return {"executions": entries[:limit], "cursor": onward}


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
    """Return the last execution of the previous page. Raises `BadCursor`."""
    last = unsign(cursor, key)
    if not isinstance(last, str):
        raise BadCursor("the cursor is one of a history")
    return last


def _entry(head: Head, doing: Doing | None) -> ListedExecution:
    entry = executions.head_as_dict(head)
    if doing is not None:
        entry["status"] = doing.status
        if doing.waiting_for:
            entry["waiting_for"] = list(doing.waiting_for)
    return cast("ListedExecution", entry)


def instant(text: str) -> int:
    """Return the instant of `since`. Raises `BadRequest`."""
    try:
        return in_microseconds(from_text(text))
    except ValueError as error:
        raise BadRequest(f"since is not an instant: {error}", "query.since") from None
