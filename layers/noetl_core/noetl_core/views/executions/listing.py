"""Lists executions: pages of heads, newest or oldest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast
from urllib.parse import parse_qsl

from noetl_core.api.refused import BadCursor, BadRequest
from noetl_core.control.core import Control
from noetl_core.dsl.sections.search import MOST, NAME
from noetl_core.engine.heads import is_found
from noetl_core.engine.routing.search_attributes import MAX_BYTES
from noetl_core.engine.statuses import LISTED_STATUSES
from noetl_core.ports import Head
from noetl_core.values.instants import SECOND, from_text, in_microseconds
from noetl_core.views.executions import executions, labels
from noetl_core.views.executions.activity import ACTIVITIES, STATES_READ, Activity, activities_of
from noetl_core.views.reading.cursor import sign, unsign

if TYPE_CHECKING:
    from noetl_core.api.shapes.executions import Executions, ListedExecution

LISTED = 50
LOOKED_AT = 500
"""Number of heads read at a time for a search."""
SEARCH_S = 3
"""Maximum time for a page of a search."""
SHORTEST_ID = 15
"""Digits of a text that may be a whole id."""


def page(
    control: Control,
    key: Callable[[], bytes],
    *,
    status: str | None = None,
    path: str | None = None,
    since: str | None = None,
    until: str | None = None,
    limit: int = LISTED,
    cursor: str | None = None,
    search: str | None = None,
    label: str | None = None,
    text: str | None = None,
    oldest_first: bool = False,
) -> Executions:
    """Return a page of heads; those with the status `running` include their activity (`views.executions.activity`).

    A filter by `label` (`key:value` or `key`), `until`, `text` or one of these activities as `status` examines heads until the
    page is full, or for `SEARCH_S`: `searched` counts them. `text` is an id, which is read directly, the beginning or the end of
    one, or a part of a path, an error, a label or a search attribute. `key` signs cursors. Raises `BadRequest`, `BadCursor`.
    """
    label_filter = labels.parse_label_filter(label)
    if status is not None and status not in LISTED_STATUSES:
        raise BadRequest(f"there is no status {status!r}", "query.status", f"known: {', '.join(LISTED_STATUSES)}")
    chosen = status in ACTIVITIES
    first, last_start = (None if value is None else instant(value, name) for value, name in ((since, "since"), (until, "until")))
    where = None if search is None else attributes(search)
    text = None if text is None else text.lower()
    least = LOOKED_AT if label_filter or text is not None or until is not None else STATES_READ if chosen else 0
    most = max(limit, least)

    def fits(head: Head) -> bool:
        within = last_start is None or head.started_at <= last_start
        return within and labels.has(head.labels, label_filter) and (text is None or _has(head, text))

    one = control.index.head(text) if text is not None and text.isdecimal() and len(text) >= SHORTEST_ID else None
    last = None if cursor is None else before(cursor, key())
    over = control.clock.now() + SEARCH_S * SECOND
    entries: list[ListedExecution] = []
    searched = 0
    while True:
        if one is not None:
            heads: Sequence[Head] = [one] if _is_listed(one, control.clock.now(), status, path, first, where) else []
        else:
            known = "running" if chosen else status
            heads = control.index.heads(known, path, first, most, last, where, oldest_first=oldest_first)
        fit = [head for head in heads if fits(head)]
        looked = fit[: STATES_READ if chosen else limit - len(entries)]
        activities = activities_of(
            control, looked, None if chosen or limit <= STATES_READ else 0
        )  # a search for an id lists thousands of heads
        entries += [
            _entry(head, activities.get(head.execution_id))
            for head in looked
            if not chosen or activities[head.execution_id].status == status
        ]
        full = len(entries) >= limit
        at = None
        if full:
            at = entries[limit - 1]["execution_id"]
        elif len(looked) < len(fit):
            at = looked[-1].execution_id
        elif one is None and len(heads) == most:
            at = heads[-1].execution_id
        searched += next((n for n, head in enumerate(heads, 1) if head.execution_id == at), len(heads))
        last = None if full and one is not None else at
        if last is None or full or control.clock.now() > over:
            break
    onward = None if last is None else sign(last, key())
    return {"executions": entries[:limit], "cursor": onward, "searched": searched}


def _has(head: Head, text: str) -> bool:
    """Return whether a text is in the id, the path, the error, the labels or the search attributes of an execution."""
    if head.execution_id.startswith(text) or head.execution_id.endswith(text):
        return True
    error = head.error or {}
    texts = [head.path, *(str(error.get(name) or "") for name in ("kind", "message", "step", "task"))]
    texts += [f"{name}:{value}" for name, value in [*head.labels.items(), *(head.search or {}).items()]]
    return any(text in each.lower() for each in texts)


def _is_listed(
    head: Head, now: int, status: str | None, path: str | None, since: int | None, where: Mapping[str, str] | None
) -> bool:
    """Return whether the index would list a head, which was read directly: expired ones may be there for a while."""
    return (
        (not head.expires_at or head.expires_at >= now // SECOND)
        and (status is None or head.status == ("running" if status in ACTIVITIES else status))
        and path in (None, head.path)
        and (since is None or head.started_at >= since)
        and (where is None or is_found(head, where))
    )


def attributes(search: str) -> dict[str, str]:
    """Return the attributes of `customer=acme&total=12`, percent-encoded as in a query. Raises `BadRequest`."""
    try:
        found = parse_qsl(search, keep_blank_values=True, strict_parsing=True, max_num_fields=MOST)
    except ValueError:
        found = []
    wrong = next((n for n, v in found if not NAME.match(n) or len(v.encode("utf-8", "surrogatepass")) > MAX_BYTES), None)
    if not found or wrong is not None:
        hint = f"for example customer=acme, or several with & between them; at most {MOST}"
        raise BadRequest(f"{(wrong or search)[:80]!r} names no search attributes", "query.search", hint)
    return dict(found)


def before(cursor: str, key: bytes) -> str:
    """Return the last execution of the previous page. Raises `BadCursor`."""
    last = unsign(cursor, key)
    if not isinstance(last, str):
        raise BadCursor("the cursor is from the history of an execution, not from a list of executions")
    return last


def _entry(head: Head, activity: Activity | None) -> ListedExecution:
    entry = executions.head_as_dict(head)
    if activity is not None:
        entry["status"] = activity.status
        if activity.waiting_for:
            entry["waiting_for"] = list(activity.waiting_for)
    return cast("ListedExecution", entry)


def instant(text: str, name: str = "since") -> int:
    """Return the instant of a parameter. Raises `BadRequest`."""
    try:
        return in_microseconds(from_text(text))
    except ValueError as error:
        raise BadRequest(f"{name} is not an instant: {error}", f"query.{name}") from None
