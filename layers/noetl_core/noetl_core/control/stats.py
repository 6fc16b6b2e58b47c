"""How many executions there are of each status, over all and by playbook; of a bounded number of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from noetl_core.control import labels, read
from noetl_core.control.core import Control
from noetl_core.control.limit_views import waiting_executions
from noetl_core.engine.records import StreamId
from noetl_core.engine.state import State
from noetl_core.engine.statuses import STATUSES
from noetl_core.instants import SECOND, to_rfc3339
from noetl_core.ports import CorruptLog, Head, NewerLog
from noetl_core.values import at_once

if TYPE_CHECKING:
    from noetl_core.client import following_shapes

COUNTED: Final = 1_000
"""Executions of a status that are counted."""
LOOKED_AT: Final = 100
"""Running executions of which is looked whether they wait, or try a task again."""
RUNS: Final = 10
"""Open runs of an execution that are looked at for that."""
PATHS: Final = 100
DAY_S: Final = 24 * 3600
SHOWN: Final = ("running", "waiting", "retrying", "paused", "cancelling", "stuck", "completed", "failed", "cancelled")
ATTEMPT: Final = ("TaskStarted", "TaskRetried", "TaskProcessed")


def stats(
    control: Control, *, path: str | None = None, since: int | None = None, wanted: labels.Asked | None = None
) -> following_shapes.Stats:
    """Return counts of the executions that began at `since` or later; since a day by default."""
    begin = control.clock.now() - DAY_S * SECOND if since is None else since
    kinds = [status for status in SHOWN if status in STATUSES]

    def of(status: str) -> Sequence[Head]:
        return control.index.heads(status, path, begin, limit=COUNTED)

    def asked(heads: Sequence[Head]) -> Sequence[Head]:
        return [head for head in heads if labels.has(head.labels, wanted or {})]

    counted = dict(zip(kinds, at_once(of, kinds), strict=True))
    by_status = {status: asked(heads) for status, heads in counted.items()}
    running = by_status.get("running", ())
    said = dict(zip((h.execution_id for h in running), at_once(lambda h: _doing(control, h), running[:LOOKED_AT]), strict=False))
    if len(running) > LOOKED_AT:
        said |= dict.fromkeys(waiting_executions(control), "waiting") | said
    total: Counter[str] = Counter()
    paths: dict[str, Counter[str]] = {}
    newest: dict[str, int] = {}
    for status, heads in by_status.items():
        for head in heads:
            word = said.get(head.execution_id, status) if status == "running" else status
            total[word] += 1
            paths.setdefault(head.path, Counter())[word] += 1
            newest[head.path] = max(newest.get(head.path, 0), head.started_at)
    most = sorted(paths, key=lambda name: (-paths[name].total(), name))[:PATHS]
    found: dict[str, Any] = {
        "since": to_rfc3339(begin),
        "counts": _counts(total),
        "paths": [{"path": name, "counts": _counts(paths[name]), "newest": to_rfc3339(newest[name])} for name in most],
        "exact": len(running) <= LOOKED_AT and all(len(heads) < COUNTED for heads in counted.values()),
    }
    return cast("following_shapes.Stats", found)


def _counts(found: Counter[str]) -> dict[str, int]:
    return {word: found[word] for word in SHOWN}


def _doing(control: Control, head: Head) -> str:
    """Return `running`, `waiting` or `retrying` of an execution whose head says that it runs."""
    try:
        state = control.load(head.execution_id)
        return "retrying" if _retries(control, state) else read.status_of(state)
    except (CorruptLog, NewerLog):
        return "running"


def _retries(control: Control, state: State) -> bool:
    """Return whether what an open run did last was to try a task again, or to begin to wait for that."""
    for run in list(state.runs)[:RUNS]:
        last = control.store.last(StreamId(state.execution_id, run))
        events = last.events if last is not None else ()
        attempt = next((event.name for event in reversed(events) if event.name in ATTEMPT), "")
        if attempt == "TaskRetried":
            return True
    return False
