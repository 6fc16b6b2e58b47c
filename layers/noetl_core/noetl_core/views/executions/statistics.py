"""Counts executions by status and by playbook, up to `COUNTED` per status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from noetl_core.control.core import Control
from noetl_core.engine.statuses import LISTED_STATUSES, STATUSES, TERMINAL
from noetl_core.log.concurrent_reads import read_concurrently
from noetl_core.ports import Head
from noetl_core.values.instants import SECOND, to_rfc3339
from noetl_core.views.executions import labels
from noetl_core.views.executions.activity import STATES_READ, activities_of

if TYPE_CHECKING:
    from noetl_core.api.shapes import following as following_shapes

COUNTED: Final = 1_000
"""Maximum number of executions counted for each status."""
PATHS: Final = 100
DAY_S: Final = 24 * 3600
MINUTE: Final = 60 * SECOND


def stats(
    control: Control,
    *,
    path: str | None = None,
    since: int | None = None,
    label_filter: labels.LabelFilter | None = None,
    limit: int = COUNTED,
) -> following_shapes.Stats:
    """Return counts of the executions that began at `since` or later.

    By default, return counts of all in progress, and of those that began and ended within a day; at most `limit` of each status.
    """
    now = control.clock.now()
    begin = now - now % MINUTE - DAY_S * SECOND if since is None else since  # the same for a while: answers can be compared
    kinds = [status for status in STATUSES if status != "waiting"]  # activities are not in heads

    def of(status: str) -> Sequence[Head]:
        return control.index.heads(status, path, begin if since is not None or status in TERMINAL else None, limit=limit)

    def matching(heads: Sequence[Head]) -> Sequence[Head]:
        return [head for head in heads if labels.has(head.labels, label_filter or {})]

    counted = dict(zip(kinds, read_concurrently(of, kinds), strict=True))
    by_status = {status: matching(heads) for status, heads in counted.items()}
    running = by_status.get("running", ())
    activities = activities_of(control, running)
    total: Counter[str] = Counter()
    paths: dict[str, Counter[str]] = {}
    newest: dict[str, int] = {}
    for status, heads in by_status.items():
        for head in heads:
            word = activities[head.execution_id].status if status == "running" else status
            total[word] += 1
            paths.setdefault(head.path, Counter())[word] += 1
            newest[head.path] = max(newest.get(head.path, 0), head.started_at)
    most = sorted(paths, key=lambda name: (-paths[name].total(), name))[:PATHS]
    found: dict[str, Any] = {
        "since": to_rfc3339(begin),
        "counts": _counts(total),
        "paths": [{"path": name, "counts": _counts(paths[name]), "newest": to_rfc3339(newest[name])} for name in most],
        "exact": len(running) <= STATES_READ and all(len(heads) < limit for heads in counted.values()),
    }
    return cast("following_shapes.Stats", found)


def _counts(found: Counter[str]) -> dict[str, int]:
    return {word: found[word] for word in LISTED_STATUSES}
