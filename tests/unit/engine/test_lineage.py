"""Reasons of ended tokens, by code. Logs from before the codes get them from their sentences."""

from __future__ import annotations

import json

import pytest

from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.engine.records import Commit, StreamId
from noetl_core.engine.redrive.lineage import lineage_of
from noetl_core.engine.redrive.plan import From, Redrive
from noetl_core.log.codec import decode_events
from tests.golden import logs


@pytest.mark.parametrize(
    ("expired", "gone"),
    [
        ({"reason": "join meet has already fired", "code": "join"}, "join"),
        ({"reason": "what a join says today", "code": "join"}, "join"),
        ({"reason": "join forces: 'x' is undefined", "code": "error"}, "error"),
        ({"reason": "join meet has already fired"}, "join"),
        ({"reason": "join meet waits for 3 tokens, 2 came"}, "join"),
        ({"reason": "join forces: 'x' is undefined"}, "error"),
        ({"reason": "admission stayed denied"}, "denied"),
    ],
)
def test_the_cause_of_an_expired_token_is_read_from_code_or_reason(expired: dict[str, str], gone: str) -> None:
    rows = [["TokenEnqueued", 0, {"token": "t", "step": "meet"}], ["TokenExpired", 0, {"token": "t", **expired}]]
    events = decode_events(json.dumps(rows).encode(), 1)
    assert lineage_of([Commit(StreamId("1"), 0, 0, "w", events)]).tokens["t"].expired == gone


@pytest.mark.parametrize("name", ["join_any", "join_count"])
def test_redriving_an_older_log_does_not_restore_tokens_that_joins_dropped(name: str) -> None:
    golden = logs.read(name)
    assert '"code"' not in (logs.FOLDER / f"{name}.json").read_text(), "an older log"
    world = golden.world()
    redrive(world.controls[0], golden.execution_id, Redrive(From.parse("meet")))
    state = world.state(golden.execution_id)
    assert [run.step for run in state.runs.values()] == ["meet"]
    assert not state.tokens
