"""Does one operation on many executions, a page at a time: previews which ones, or returns the result of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from noetl_core.api.refused import BadRequest
from noetl_core.control.core import Control
from noetl_core.control.lifecycle import operate
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.control.refusals import refusal
from noetl_core.engine.redrive.plan import From, Redrive
from noetl_core.engine.state import State
from noetl_core.ports import Head
from noetl_core.values.frozen import frozen
from noetl_core.views.executions import executions, labels
from noetl_core.views.executions.activity import ACTIVITIES, STATES_READ, Activity, activities_of
from noetl_core.views.executions.listing import before, instant
from noetl_core.views.reading.cursor import sign

if TYPE_CHECKING:
    from noetl_core.api.shapes import following as following_shapes

Action = Literal["cancel", "pause", "resume", "redrive"]
ELIGIBLE_STATUSES: Final[dict[str, frozenset[str]]] = {
    "cancel": frozenset({"running", "paused", "cancelling", "stuck"}),
    "pause": frozenset({"running"}),
    "resume": frozenset({"paused", "stuck"}),
    "redrive": frozenset({"failed", "cancelled"}),
}
"""Statuses that a filtered batch acts on. For others, pass ids."""
DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 100
"""Maximum number of executions in one request: an operation takes some milliseconds, and an API call ends after 29 seconds."""
MAX_HEADS: Final = 200
"""Maximum number of heads that one request examines."""


@frozen
class Selection:
    """Selects executions: by ids, or by status, playbook, time and labels."""

    ids: Sequence[str] | None = None
    status: str | None = None
    path: str | None = None
    since: str | None = None
    until: str | None = None
    label: str | None = None


@frozen
class Arguments:
    """The arguments of the operation."""

    reason: str | None = None
    compensate: bool | None = None
    begin: str | None = None


def batch(
    control: Control,
    key: Callable[[], bytes],
    which: Selection,
    action: Action,
    arguments: Arguments,
    *,
    preview: bool = False,
    limit: int = DEFAULT_LIMIT,
    cursor: str | None = None,
) -> following_shapes.Batch:
    """Do `action` to a page of executions; with `preview`, only return which.

    A refusal is part of the result and does not stop the others. Raises `BadRequest`, `BadCursor`.
    """
    if not any((which.ids, which.status, which.path, which.since, which.until, which.label)):
        raise BadRequest("a batch must select its executions", "body.filter", "ids, status, path, since, until or label")
    if which.ids and which.label:
        raise BadRequest("ids and label cannot be combined", "body.filter.label", "one of them")
    label_filter = labels.parse_label_filter(which.label, "body.filter.label")
    found: list[dict[str, Any]] = []
    last: str | None = None
    heads = list(_heads(control, key, which, cursor))
    fit = [head for head in heads if which.ids or (labels.has(head.labels, label_filter) and _fits(head, which, action))]
    activities = activities_of(control, fit) if which.status in ACTIVITIES and not which.ids else {}
    for head in fit:
        if not activities or activities[head.execution_id].status == which.status:
            found.append(_one(control, head, activities.get(head.execution_id), action, arguments, preview))
        if len(found) >= limit:
            last = head.execution_id
            break
    if last is None and len(heads) == _looked_at(which):
        last = heads[-1].execution_id
    onward = None if last is None or which.ids else sign(last, key())
    return cast("following_shapes.Batch", {"action": action, "preview": preview, "executions": found, "cursor": onward})


def _heads(control: Control, key: Callable[[], bytes], which: Selection, cursor: str | None) -> Iterator[Head]:
    if which.ids:
        if len(which.ids) > MAX_LIMIT:
            raise BadRequest(f"a batch has {MAX_LIMIT} ids at most", "body.filter.ids")
        for execution_id in dict.fromkeys(which.ids):
            head = control.index.head(execution_id)
            yield head or Head(execution_id, "unknown", "", 0, "", 0, 0)
        return
    since = None if which.since is None else instant(which.since)
    status = "running" if which.status in ACTIVITIES else which.status
    yield from control.index.heads(
        status, which.path, since, limit=_looked_at(which), before=None if cursor is None else before(cursor, key())
    )


def _looked_at(which: Selection) -> int:
    return STATES_READ if which.status in ACTIVITIES else MAX_HEADS


def _fits(head: Head, which: Selection, action: Action) -> bool:
    if which.until is not None and head.started_at > instant(which.until):
        return False
    return head.status in ELIGIBLE_STATUSES[action]


def _one(
    control: Control, head: Head, activity: Activity | None, action: Action, arguments: Arguments, preview: bool
) -> dict[str, Any]:
    status = head.status if activity is None else activity.status
    about: dict[str, Any] = {
        "execution_id": head.execution_id,
        "playbook": {"path": head.path, "version": head.version, "digest": head.digest},
    }
    if preview:
        fits = head.status in ELIGIBLE_STATUSES[action] or (action, head.status) == ("redrive", "completed")
        return {**about, "status": status, "outcome": "would" if fits else "refused"}
    try:
        state = _done(control, head.execution_id, action, arguments)
    except Exception as error:  # refusals are part of the result; bugs are logged with their traceback
        error_body = refusal(error, head.execution_id).body["error"]
        return {**about, "status": status, "outcome": "refused", "error": {k: error_body[k] for k in ("code", "message")}}
    return {**about, "status": executions.status_of(state), "outcome": "done"}


def _done(control: Control, execution_id: str, action: Action, arguments: Arguments) -> State:
    match action:
        case "cancel":
            return operate.cancel(control, execution_id, arguments.reason or "", compensate=bool(arguments.compensate))
        case "pause":
            return operate.pause(control, execution_id)
        case "resume":
            return operate.resume(control, execution_id)
        case "redrive":
            begin = None if arguments.begin is None else From.parse(arguments.begin)
            return redrive(control, execution_id, Redrive(begin, {}, {})).state
