"""The embedded stack with asks: they are answered, and functions killed in the middle of calls lose nothing (`make kills ON=stack`
does this at length)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from noetl_infra.stack import Stack
from tests.e2e.kills import SHAPES, STEPS, asking_stack, events_of, kill_functions, runs_taken
from tests.e2e.support import Api
from tests.properties import SEED

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif("NOETL_E2E_ENDPOINT" in os.environ, reason="has an embedded stack of its own"),
]


PATIENCE_S = 60


@pytest.fixture(scope="module")
def asking() -> Iterator[Stack]:
    with asking_stack("yes") as stack:
        yield stack


def test_asks_are_answered_although_the_stream_delivers_at_once(asking: Stack) -> None:
    """Several times, because functions start, and workers of a busy machine stop asking for a while."""
    api, taken, until = Api(asking.api_url), [0], time.monotonic() + PATIENCE_S
    while taken[-1] < STEPS - 2 and time.monotonic() < until:
        execution_id = api.start(SHAPES["chain"])
        assert api.wait(execution_id)["status"] == "completed"
        taken.append(runs_taken(events_of(api, execution_id)))
    assert taken[-1] >= STEPS - 2, f"of {STEPS - 1} steps, so many were begun by an ask: {taken}"


def test_executions_end_once_with_their_results_although_functions_are_killed(asking: Stack) -> None:
    tally = kill_functions(asking, 6, SEED)
    assert tally.kills.total() == 6
    assert tally.executions
