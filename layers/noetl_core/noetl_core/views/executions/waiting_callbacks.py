"""Lists the callbacks that wait, over all executions.

Tokens are not shown: a caller who may answer names the execution and the wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from noetl_core.control.callbacks import Reply, answer, callback_view, callback_waits, heartbeat, token_for
from noetl_core.control.core import Control
from noetl_core.log.concurrent_reads import read_concurrently
from noetl_core.ports import CorruptLog, Head, NewerLog, NotFound
from noetl_core.values.instants import to_rfc3339
from noetl_core.views.executions import executions
from noetl_core.views.executions.listing import before
from noetl_core.views.reading.cursor import sign

if TYPE_CHECKING:
    from noetl_core.api.shapes import following as following_shapes

LOOKED_AT: Final = 100
"""Maximum number of running executions that one page examines: callbacks are in their states."""
SHOWN: Final = 100


def waiting_callbacks(
    control: Control,
    key: Callable[[], bytes],
    *,
    path: str | None = None,
    limit: int = SHOWN,
    cursor: str | None = None,
    looked_at: int = LOOKED_AT,
) -> following_shapes.WaitingCallbacks:
    """Return a page of the callbacks for which running executions wait, the newest execution first.

    All callbacks of one execution are on one page. At most `looked_at` executions are read for a page. Raises `BadCursor`.
    """
    heads = control.index.heads("running", path, limit=looked_at, before=None if cursor is None else before(cursor, key()))
    found: list[dict[str, Any]] = []
    last: Head | None = None
    for head, waits in zip(heads, read_concurrently(lambda head: _of(control, head), heads), strict=True):
        found += waits
        if len(found) >= limit:
            last = head
            break
    if last is None and len(heads) == looked_at:
        last = heads[-1]
    onward = None if last is None else sign(last.execution_id, key())
    return {"callbacks": cast("list[following_shapes.WaitingCallback]", found), "cursor": onward}


def _of(control: Control, head: Head) -> list[dict[str, Any]]:
    try:
        state = control.load(head.execution_id)
    except (CorruptLog, NewerLog):
        return []  # unreadable log: skip it, list the others
    about = {
        "execution_id": head.execution_id,
        "playbook": {"path": state.path, "version": state.version, "digest": state.digest},
        "started_at": to_rfc3339(state.started_at),
    }
    return [{**about, **callback_view(run, wait)} for run, wait in callback_waits(state)]


def answer_wait(
    control: Control, execution_id: str, wait_id: str, data: Any = None, error: Mapping[str, Any] | None = None
) -> Reply:
    """Answer the callback that waits under `wait_id`. Raises `NotFound`, and the errors of `callbacks.answer`."""
    return answer(control, _token(control, execution_id, wait_id), data, error)


def wait_heartbeat(control: Control, execution_id: str, wait_id: str) -> Reply:
    """Record that the answerer is still at work. Raises `NotFound`, and the errors of `callbacks.heartbeat`."""
    return heartbeat(control, _token(control, execution_id, wait_id))


def _token(control: Control, execution_id: str, wait_id: str) -> str:
    state = executions.load(control, execution_id)
    for run, wait in callback_waits(state):
        if wait["wait_id"] == wait_id:
            return token_for(control, state, run, wait)
    raise NotFound(f"no callback waits under {wait_id[:200]} in execution {execution_id}: it was answered, or is over")
