"""Histories in the form of logs of version 1, kept unchanged: they fold to the same states, whatever is changed since.

The files of `v1` and `v1/states.json` are never recorded again. A state may have more keys by now, but none fewer.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl_core.engine.fold.control_stream import fold_commits
from noetl_core.engine.records import StreamId
from noetl_core.engine.snapshots import snapshot
from noetl_core.engine.state import State
from noetl_core.views.explain.replay import replay
from tests.golden import logs

FOLDER = logs.FOLDER / "v1"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json") if path.stem != "states")
STATES: dict[str, dict[str, Any]] = json.loads((FOLDER / "states.json").read_text())
"""By history and execution: the folded control stream, as a snapshot keeps it."""


def states_of(name: str) -> dict[str, Any]:
    """Return the states to which the control streams of a history fold."""
    golden = logs.read(name, FOLDER)
    streams = golden.world().store.streams
    folded = {e: snapshot(fold_commits(State(e), streams[StreamId(e)])).state for e in golden.executions()}
    found: dict[str, Any] = json.loads(json.dumps(folded))
    return found


def kept(was: Any, now: Any) -> Any:
    """`now`, less the keys that mappings have got since."""
    if isinstance(was, dict) and isinstance(now, dict):
        return {k: kept(was[k], v) for k, v in now.items() if k in was}
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        return [kept(a, b) for a, b in zip(was, now, strict=True)]
    return now


def test_there_is_a_state_for_each_history() -> None:
    assert sorted(STATES) == NAMES
    assert len(NAMES) == 35


@pytest.mark.parametrize("name", NAMES)
def test_a_log_of_version_1_folds_to_the_states_it_folded_to(name: str) -> None:
    assert kept(STATES[name], states_of(name)) == STATES[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_log_of_version_1_is_of_version_1(name: str) -> None:
    assert {commit.v for commit in logs.read(name, FOLDER).commits} == {1}


@pytest.mark.parametrize("name", NAMES)
def test_decisions_of_version_1_are_taken_again_as_they_were(name: str) -> None:
    golden = logs.read(name, FOLDER)
    control = golden.world().controls[0]
    for execution_id in golden.executions():
        assert replay(control, execution_id).differences == (), execution_id
