"""Views that derive something else from a log: repeated decisions, spans, a graph, costs, task logs.

Each takes the control plane and returns the answer of the API.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

from noetl_core.api.refused import BadRequest
from noetl_core.control.core import Control
from noetl_core.dsl.parse import collection_paused
from noetl_core.observe.drawing.layouts import Layouts
from noetl_core.observe.event_changes import event_changes
from noetl_core.observe.logs import task_logs
from noetl_core.ports import NotFound
from noetl_core.values.instants import SECOND
from noetl_core.views.executions import executions
from noetl_core.views.explain.replay import Unfit, replay
from noetl_core.views.history import pages
from noetl_core.views.history.pages import BUSY_S

if TYPE_CHECKING:
    from noetl_core.api.requests.views import Drawn
    from noetl_core.api.shapes import views as view_shapes
    from noetl_core.observe.drawing.graph import Graph

LOGS = 100
NAME = 28
"""Maximum number of characters in a label of a drawn step."""
TASK_ENDS = frozenset({"TaskProcessed"})
"""Events that contain the output of tasks."""
_LAYOUTS = Layouts()


def replayed(control: Control, execution_id: str, after: str | None = None, source: str | None = None) -> view_shapes.Replay:
    """Replay from position `after`, with the playbook `source` if there is one.

    The caller continues with `cursor` until it is None. Raises `BadRequest`, `NotFound`, `InvalidPlaybook`.
    """
    after = after or "-1"
    if after != "-1" and not (after.isascii() and after.isdecimal() and len(after) < 10):
        raise BadRequest("after must be the position of a control commit", "query.after")
    playbook = None if source is None else control.playbook.parse(source, "<body.playbook>")
    try:
        done = replay(control, execution_id, playbook, after=int(after), until=control.clock.now() + BUSY_S * SECOND)
    except Unfit as error:
        raise BadRequest(str(error), "query.after") from None
    found: dict[str, Any] = {
        "execution_id": execution_id,
        "commits": done.commits,
        "differences": [
            {
                "event_id": f"{execution_id}.control.{d.seq}.0",
                "seq": d.seq,
                "recorded": d.recorded,
                "decided": d.decided,
                "changes": [*event_changes(d.recorded, d.decided)],
            }
            for d in done.differences
        ],
        "missing": [{"event_id": f"{execution_id}.control.{m.seq}.0", "seq": m.seq, "reasons": m.reasons} for m in done.missing],
        "cursor": None if done.over or (playbook is not None and done.differences) else str(done.last),
    }
    return cast("view_shapes.Replay", found)


def graph(
    control: Control, execution_id: str, *, layout: bool = False, at: str | None = None, unfold: Collection[str] | None = None
) -> view_shapes.Graph:
    """Return the playbook's steps and arcs with their progress in this execution, now or just after the event `at`; with
    `layout`, also with their coordinates. With `unfold`, parallel branches are folded, except those.
    """
    with collection_paused():
        status, digest, drawn = _graph(control, execution_id, at, unfold)
        view = _placed(control, digest, drawn) if layout else drawn.as_dict()
    return cast("view_shapes.Graph", {"execution_id": execution_id, "status": status, **view})


def playbook_graph(control: Control, source: str, *, layout: bool = False) -> view_shapes.PlaybookGraph:
    """Return the steps and arcs of a playbook that need not be registered. Raises `InvalidPlaybook`."""
    from noetl_core.observe.drawing.graph import graph_of  # 3 ms, as below

    playbook = control.playbook.parse(control.playbook.pinned(source), "<body>")
    with collection_paused():
        drawn = graph_of(playbook)
        view = _placed(control, playbook.digest, drawn) if layout else drawn.as_dict()
    return cast("view_shapes.PlaybookGraph", view)


def _placed(control: Control, digest: str, drawn: Graph) -> dict[str, Any]:
    """Return a graph with coordinates. They depend on the playbook alone, not on progress."""
    from noetl_core.observe.drawing.graph import graph_of  # 3 ms, as below
    from noetl_core.observe.drawing.layout import placed, places_of, with_lines_of, with_room  # 2 ms, as below

    if not any("branches" in node.facts for node in drawn.nodes):
        return placed(drawn, _LAYOUTS(digest, lambda: places_of(with_room(graph_of(control.playbook(digest))), NAME)))
    steps = "\n".join([node.step for node in drawn.nodes])  # the others are folded
    key = f"{digest} {blake2b(steps.encode(), digest_size=16).hexdigest()}"
    whole = graph_of(control.playbook(digest))
    return placed(drawn, _LAYOUTS(key, lambda: places_of(with_room(with_lines_of(drawn, whole)), NAME)))


def drawing(control: Control, execution_id: str, form: Drawn, unfold: Collection[str] | None = None) -> str:
    """Return the graph as text in the format `form`."""
    from noetl_core.observe.drawing.graph import dot, mermaid  # 3 ms, as above

    _, _, drawn = _graph(control, execution_id, None, unfold)
    if form == "svg":
        from noetl_core.observe.drawing.svg import svg  # 3 ms, as above

        return svg(drawn)
    return mermaid(drawn) if form == "mermaid" else dot(drawn)


def _graph(control: Control, execution_id: str, at: str | None, unfold: Collection[str] | None) -> tuple[str, str, Graph]:
    from noetl_core.observe.drawing.folding import folded  # 1 ms, as above
    from noetl_core.observe.drawing.graph import graph_of  # 3 ms, as above

    state, _ = executions.state_just_after(control, execution_id, at)
    drawn = graph_of(control.playbook(state.digest), state)
    return executions.status_of(state), state.digest, drawn if unfold is None else folded(drawn, unfold)


def logs(
    control: Control,
    execution_id: str,
    key: bytes,
    *,
    step: str | None = None,
    task: str | None = None,
    full: bool = False,
    after: str | None = None,
    limit: int = LOGS,
) -> view_shapes.Logs:
    """Return a page of task logs; with `full`, everything that was kept of them."""
    reading = pages.since(control, execution_id, after, key, names=TASK_ENDS, examined=pages.MAX_EXAMINED)
    entries = task_logs(reading.envelopes, step, task)
    whole = (_whole(control, entry) for entry in entries) if full else entries
    page, over = pages.page_of(whole, limit)
    cursor, more = pages.onward(control, execution_id, reading, over, key)
    out: view_shapes.Logs = {
        "execution_id": execution_id,
        "logs": cast("list[view_shapes.LogEntry]", page),
        "cursor": cursor,
        "more": more,
    }
    if control.output is not None and not more:
        tasks = control.output.of(execution_id)
        matching = [t for t in tasks if (step is None or t["step"] == step) and (task is None or t["task"] == task)]
        out["running"] = cast("list[view_shapes.RunningLog]", matching)
    return out


def _whole(control: Control, entry: dict[str, Any]) -> dict[str, Any]:
    """Return the entry with its complete text in place of the ends; unchanged if the object has expired."""
    more = entry.get("more")
    if more is None:
        return entry
    try:
        texts = json.loads(control.results.get(more["key"]))
    except NotFound:
        return entry
    return {**{k: v for k, v in entry.items() if k != "more"}, **texts}
