"""Routes that read an execution's log as something else: decisions taken again."""

from __future__ import annotations

from typing import Any

from noetl_core.control.api.call import BadRequest, Call, Field, Route
from noetl_core.control.replay import Unfit, replay

REPLAY_S = 20
"""A request replays for so long at most: what is left of an API call's 29 seconds goes to the answer."""


def replayed(call: Call) -> dict[str, Any]:
    """Replay from `after`; a caller goes on with the `cursor` it is given, until there is none."""
    after = call.argument("after") or "-1"
    if after != "-1" and not (after.isascii() and after.isdecimal() and len(after) < 10):
        raise BadRequest("after is the position of a control commit", "query.after")
    playbook = None
    if call.method == "POST":
        playbook = call.control.playbook.parse(call.object()["playbook"], "<body.playbook>")
    control = call.control
    until = control.clock.now() + REPLAY_S * 1_000_000
    try:
        done = replay(control, call.execution_id, playbook, after=int(after), until=until)
    except Unfit as error:
        raise BadRequest(str(error), "query.after") from None
    return {
        "execution_id": call.execution_id,
        "commits": done.commits,
        "differences": [
            {"event_id": f"{call.execution_id}.control.{d.seq}.0", "seq": d.seq, "recorded": d.recorded, "decided": d.decided}
            for d in done.differences
        ],
        "cursor": None if done.over or (playbook is not None and done.differences) else str(done.last),
    }


AFTER = {"after": "the cursor of the answer before: positions up to it were replayed"}

ROUTES = (
    Route(
        "GET", "/api/executions/{execution_id}/replay", "Every control decision again: where they differ", replayed, query=AFTER
    ),
    Route(
        "POST",
        "/api/executions/{execution_id}/replay",
        "What another playbook would have decided: the first difference",
        replayed,
        query=AFTER,
        body={"playbook": Field(str, "its text", required=True)},
        refuses=(422,),
    ),
)
