"""Lists of executions: pages of heads, newest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast, get_args
from urllib.parse import parse_qsl

from noetl_core.control import labels, read
from noetl_core.control.core import Control
from noetl_core.control.cursor import BadCursor, sign, unsign
from noetl_core.control.limit_views import awaited_by
from noetl_core.control.refusals import BadRequest
from noetl_core.dsl.diagnostics import InvalidPlaybook
from noetl_core.dsl.search import MOST, NAME
from noetl_core.engine.search import MAX_BYTES
from noetl_core.engine.state import State
from noetl_core.engine.statuses import Status
from noetl_core.instants import from_text, in_microseconds
from noetl_core.ports import CorruptLog, Head, NewerLog, NotFound
from noetl_core.values import at_once

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
    """A page of heads. Heads say `running` of an execution that waits: `status=waiting` looks which of the running ones do, and
    those that wait for a limit are shown as waiting in every list.
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
    fit = [
        head
        for head in heads
        if labels.has(head.labels, wanted) and (text is None or head.execution_id.startswith(text) or text in head.path)
    ]
    standing = _standing(control, fit, everyone=status == "waiting") if status in (None, "running", "waiting") else Standing()
    kept = {head.execution_id for head in fit if status is None or (standing.of(head) == status)}
    shown: list[ListedExecution] = []
    last: str | None = None
    for number, head in enumerate(heads, 1):
        if head.execution_id in kept:
            shown.append(_entry(head, standing))
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


@dataclass(frozen=True, slots=True)
class Standing:
    """What was found of executions that run, as their heads say: which of them wait, and for which limits."""

    waits: frozenset[str] = frozenset()
    limits: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    def of(self, head: Head) -> str:
        """Return the status as lists show it."""
        return "waiting" if head.execution_id in self.waits and head.status == "running" else head.status


def _standing(control: Control, heads: Sequence[Head], *, everyone: bool) -> Standing:
    """Look at the running ones of `heads`: at `everyone`, or at those alone that may wait for a limit."""
    running = [head for head in heads if head.status == "running" and (everyone or _is_limited(control, head))]
    states = {s.execution_id: s for s in at_once(lambda head: _waiting_state(control, head), running) if s is not None}
    limits = awaited_by(control, states)
    return Standing(frozenset(states if everyone else limits), limits)


def _is_limited(control: Control, head: Head) -> bool:
    """Whether the playbook of an execution, or a step of it, has a limit: no other can wait for one."""
    try:
        playbook = control.playbook(head.digest)
    except (NotFound, InvalidPlaybook):
        return False  # of this version nothing can be said
    return playbook.executor.concurrency is not None or any(step.concurrency is not None for step in playbook.steps)


def _waiting_state(control: Control, head: Head) -> State | None:
    try:
        state = control.load(head.execution_id)
    except (CorruptLog, NewerLog):
        return None  # it cannot be said, and the others of the list can
    return state if read.status_of(state) == "waiting" else None


def _entry(head: Head, standing: Standing) -> ListedExecution:
    entry = {**read.head_as_dict(head), "status": standing.of(head)}
    if (limits := standing.limits.get(head.execution_id)) is not None:
        entry["waiting_for"] = list(limits)
    return cast("ListedExecution", entry)


def is_shown_as(control: Control, head: Head, status: str) -> bool:
    """Whether lists show an execution with this status."""
    return _standing(control, [head], everyone=status == "waiting").of(head) == status


def instant(text: str) -> int:
    """The instant that `since` says. Raises `BadRequest`."""
    try:
        return in_microseconds(from_text(text))
    except ValueError as error:
        raise BadRequest(f"since is not an instant: {error}", "query.since") from None
