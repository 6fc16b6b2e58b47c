"""Routes that read an execution's log as something else: decisions taken again, spans, a graph, costs, task logs."""

from __future__ import annotations

import json
from typing import Any

from noetl_core.control import read
from noetl_core.control.api.call import Answer, BadRequest, Call, Field, Route
from noetl_core.control.core import Control
from noetl_core.control.cursor import history
from noetl_core.control.read import BUSY_S, Bounded
from noetl_core.control.replay import Unfit, replay
from noetl_core.engine.records import StreamId
from noetl_core.engine.waits import SECOND
from noetl_core.ports import NotFound

SPANS = 2_000
LOGS = 100
GRAPHS = {"json": "application/json", "mermaid": "text/plain", "dot": "text/plain", "svg": "image/svg+xml"}


def replayed(call: Call) -> dict[str, Any]:
    """Replay from `after`; a caller goes on with the `cursor` it is given, until there is none."""
    after = call.argument("after") or "-1"
    if after != "-1" and not (after.isascii() and after.isdecimal() and len(after) < 10):
        raise BadRequest("after is the position of a control commit", "query.after")
    playbook = None
    if call.method == "POST":
        playbook = call.control.playbook.parse(call.object()["playbook"], "<body.playbook>")
    control = call.control
    try:
        done = replay(control, call.execution_id, playbook, after=int(after), until=control.clock.now() + BUSY_S * SECOND)
    except Unfit as error:
        raise BadRequest(str(error), "query.after") from None
    return {
        "execution_id": call.execution_id,
        "commits": done.commits,
        "differences": [
            {"event_id": f"{call.execution_id}.control.{d.seq}.0", "seq": d.seq, "recorded": d.recorded, "decided": d.decided}
            for d in done.differences
        ],
        "missing": [
            {"event_id": f"{call.execution_id}.control.{m.seq}.0", "seq": m.seq, "reasons": m.reasons} for m in done.missing
        ],
        "cursor": None if done.over or (playbook is not None and done.differences) else str(done.last),
    }


def timeline(call: Call) -> dict[str, Any]:
    """Spans of step runs, and of tasks and iterations as far as the limit goes."""
    from noetl_core.observe.timeline import Timeline

    control = call.control
    found, _ = read.since(control, call.execution_id, None, b"")
    envelopes = Bounded(found, control)
    line = Timeline(call.limit(SPANS, 10_000))
    line.observe(envelopes)
    now = control.clock.now() / SECOND
    return {"execution_id": call.execution_id, **line.as_dict(now), "partial": envelopes.partial}


def graph(call: Call) -> Answer:
    """The playbook's steps and arcs, with what they came to in this execution."""
    from noetl_core.observe.graph import dot, graph_of, mermaid

    form = call.choice("format", list(GRAPHS))
    state = read.load(call.control, call.execution_id)
    control = call.control.store.read(StreamId(call.execution_id))
    drawn = graph_of(call.control.playbook(state.digest), state, (e for c in control for e in c.events))
    if form == "json":
        return Answer(200, {"execution_id": call.execution_id, "status": read.status_of(state), **drawn.as_dict()})
    if form == "svg":
        from noetl_core.observe.svg import svg

        return Answer(200, svg(drawn), GRAPHS[form])
    return Answer(200, (mermaid if form == "mermaid" else dot)(drawn), GRAPHS[form])


def cost(call: Call) -> dict[str, Any]:
    """Metered units and list prices, by step."""
    from noetl_core.observe.cost import WORKER_MB, Meter

    state = read.load(call.control, call.execution_id)
    meter = Meter(call.execution_id, worker_mb=int(call.service.facts.get("worker_memory_mb", WORKER_MB)))
    commits = Bounded(history(call.control.store, call.execution_id), call.control)
    meter.observe(commits)
    return {
        "execution_id": call.execution_id,
        "status": read.status_of(state),
        **meter.as_dict(),
        "partial": commits.partial,
    }


def logs(call: Call) -> dict[str, Any]:
    """What tasks wrote, a page at a time; with `full`, all that was kept of it."""
    from noetl_core.observe.logs import task_logs

    full = call.choice("full", ("false", "true")) == "true"
    key = call.service.cursor_key
    found, position = read.since(call.control, call.execution_id, call.argument("after"), key())
    envelopes = Bounded(found, call.control)
    entries = task_logs(envelopes, call.argument("step"), call.argument("task"))
    whole = (_whole(call.control, entry) for entry in entries) if full else entries
    page, over = read.page_of(whole, call.limit(LOGS))
    cursor, more = read.onward(call.control, call.execution_id, position, over and not envelopes.partial, key())
    return {"execution_id": call.execution_id, "logs": page, "cursor": cursor, "more": more}


def _whole(control: Control, entry: dict[str, Any]) -> dict[str, Any]:
    """The entry with all that was kept in place of the ends; as it is when the object has expired."""
    more = entry.get("more")
    if more is None:
        return entry
    try:
        texts = json.loads(control.results.get(more["key"]))
    except NotFound:
        return entry
    return {**{k: v for k, v in entry.items() if k != "more"}, **texts}


AFTER = {"after": "the cursor of the answer before: positions up to it were replayed"}
VIEW = "/api/executions/{execution_id}/"

ROUTES = (
    Route(
        "GET",
        VIEW + "replay",
        "Every control decision taken again: where they differ",
        replayed,
        query=AFTER,
        right="executions:read",
    ),
    Route(
        "POST",
        VIEW + "replay",
        "What another playbook would have decided: the first difference",
        replayed,
        query=AFTER,
        body={"playbook": Field(str, "its text", required=True)},
        refuses=(422,),
        right="executions:read",
    ),
    Route(
        "GET",
        VIEW + "timeline",
        "Step runs, attempts, waits, tasks and iterations as spans, in parallel lanes",
        timeline,
        query={"limit": "spans of tasks and iterations at most, 1 to 10000"},
        right="executions:read",
    ),
    Route(
        "GET",
        VIEW + "graph",
        "Steps and arcs with what they came to",
        graph,
        query={"format": f"one of {', '.join(GRAPHS)}"},
        right="executions:read",
    ),
    Route("GET", VIEW + "cost", "Metered units and list prices, by step", cost, right="executions:read"),
    Route(
        "GET",
        VIEW + "logs",
        "Standard output and standard error of tasks",
        logs,
        query={
            "step": "of this step",
            "task": "of this task",
            "full": "true: all that was kept, not its end",
            "after": "the cursor of the answer before",
            "limit": f"attempts at most, 1 to {read.MAX_PAGE}",
        },
        right="executions:read",
    ),
)
