"""Two processes share a local store: what one of them writes continues the execution that the other one carries out."""

from __future__ import annotations

import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from noetl_core.control.admit import StartRequest, register
from noetl_core.control.callbacks import answer, open_callbacks
from noetl_core.runtime.local import LocalWiring
from noetl_core.runtime.local_runner import Interrupted

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: n, path: %s }\nworkflow:\n  - step: a\n    tool: "
CALLED = HEAD % "called" + "{ kind: callback, timeout: 1d }\n"
CALLER = HEAD % "caller" + "{ kind: playbook, path: called }\n"
PROMPT_S = 8
"""The runner looks for others' commits once a second."""


def carry_out(wiring: LocalWiring, execution_id: str, ended: threading.Event) -> None:
    with suppress(Interrupted):
        if wiring.run(execution_id, timeout_s=60):
            ended.set()


@pytest.mark.parametrize("pause_s", [0.0, 0.7, 1.3])
def test_an_answer_to_a_called_playbook_that_another_process_routes_continues_the_caller(tmp_path: Path, pause_s: float) -> None:
    store = str(tmp_path / "runs.db")
    with closing(LocalWiring(store)) as runs, closing(LocalWiring(store)) as other:
        register(runs.control, CALLED)
        caller = runs.start(StartRequest(playbook=CALLER)).execution_id
        ended = threading.Event()
        thread = threading.Thread(target=carry_out, args=(runs, caller, ended))
        thread.start()
        called = None
        while called is None:
            heads = other.index.heads(path="called")
            called = next((h.execution_id for h in heads if open_callbacks(other.control, h.execution_id)), None)
            time.sleep(0.05)
        time.sleep(pause_s)
        (open_one,) = open_callbacks(other.control, called)
        answer(other.control, open_one["token"], {"ok": True})
        other.run(called, timeout_s=0.5)
        prompt = ended.wait(PROMPT_S)
        runs.runner.leave("the test is over")
        thread.join()
    assert prompt
