"""Operators at the same moment, each a process of its own over one local store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from noetl_core.control.admit import StartRequest, admit
from noetl_core.control.lifecycle.operate import NotNow, cancel
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.engine.records import StreamId
from noetl_core.engine.redrive.plan import From, Redrive
from noetl_core.runtime.local import LocalWiring

SOURCE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: unit/two}
workflow:
  - step: start
    tool: [{name: ask, kind: callback, signal: go}]
"""
REDRIVES = (
    Redrive(None, {"by": "ada"}),
    Redrive(None, {"by": "bob"}),
    Redrive(From.parse("start"), {}),
    Redrive(None, {}),
)


@pytest.fixture
def operators(tmp_path: Path) -> Iterator[list[LocalWiring]]:
    with ExitStack() as stack:
        yield [stack.enter_context(closing(LocalWiring(tmp_path / "runs.db"))) for _ in REDRIVES]


def test_one_of_several_simultaneous_redrives_succeeds(
    operators: list[LocalWiring],
) -> None:
    first = operators[0].control
    execution_id = admit(first, StartRequest(playbook=SOURCE)).execution_id
    cancel(first, execution_id)
    planned = threading.Barrier(len(operators), timeout=30)
    outcomes: dict[int, str] = {}

    def operate(number: int) -> None:
        control = operators[number].control
        index = control.index

        def together(*args: Any) -> None:  # all have planned before one commits
            control.index = index
            planned.wait()
            index.set_due(*args)

        control.index = Mock(wraps=index, set_due=together)
        try:
            redrive(control, execution_id, REDRIVES[number])
            outcomes[number] = "done"
        except NotNow as error:
            outcomes[number] = str(error)

    threads = [threading.Thread(target=operate, args=(n,)) for n in range(len(operators))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = [number for number, outcome in outcomes.items() if outcome == "done"]
    assert len(done) == 1, outcomes
    assert all("redriven by another request at the same time" in outcomes[n] for n in outcomes if n not in done)
    events = [e for commit in first.store.read(StreamId(execution_id)) for e in commit.events if e.name == "ExecutionRedriven"]
    assert [(e.data.get("set", {}), e.data.get("from")) for e in events] == [
        (REDRIVES[done[0]].ctx, None if REDRIVES[done[0]].begin is None else "start")
    ]
