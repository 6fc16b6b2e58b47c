"""The ask function: it answers workers with a run that follows, and takes their boundaries from the log alone."""

from __future__ import annotations

import json
import os
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest

from noetl_core.control.admit import StartRequest, admit
from noetl_core.engine.records import Ask, Event, StreamId
from noetl_core.log.codec import decode_command, encode_ask
from noetl_core.ports import Unavailable
from noetl_core.runtime import control_wiring
from noetl_core.testing.contracts.event_store import commit
from noetl_core.values.instants import SECOND
from tests.contract.aws import bodies
from tests.unit.functions.conftest import Context, Function

CHAIN = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: chain, path: chain}
workflow:
- step: first
  tool: {kind: noop}
  next: {arcs: [{step: second}]}
- step: second
  tool: {kind: noop}
"""


@pytest.fixture
def ask_function(function: Function) -> ModuleType:
    return function("ask")


def ended() -> Ask:
    """The ask of a worker whose run has just ended."""
    control = control_wiring.control()
    execution_id = admit(control, StartRequest(playbook=CHAIN)).execution_id
    (run,) = control.load(execution_id).runs
    stream, now = StreamId(execution_id, run), control.clock.now()
    control.store.append(commit(stream, 0, events=(Event("StepStarted", 1, {"step": "first", "as_of": 0, "worker": "w"}),)))
    control.store.append(commit(stream, 1, events=(Event("StepDone", 2, {"result": None, "set_ctx": {}}),), wake=True))
    return Ask("a1", execution_id, run, 1, 0, "w", "default", now + 600 * SECOND, now + SECOND)


def steps_sent() -> list[str]:
    return [decode_command(body).step for body in bodies(os.environ["COMMAND_QUEUES"].split('"')[3])]


def test_a_worker_is_answered_with_the_run_that_follows(ask_function: ModuleType) -> None:
    ask = ended()
    answer = ask_function.handler(encode_ask(ask), Context())
    command = decode_command(answer["command"])
    assert (answer["v"], command.step, command.mode) == (1, "second", "first")
    assert command.claim is not None
    assert (command.claim["worker"], command.claim["ask"]) == ("w", "a1")
    assert json.loads(json.dumps(answer)) == answer
    again = ask_function.handler(encode_ask(ask), Context())
    assert again == answer
    assert steps_sent() == ["first"], "the run that is claimed is in no queue"


def test_a_boundary_that_the_log_does_not_hold_is_refused(ask_function: ModuleType) -> None:
    ask = ended()
    for forged in ({"seq": 0}, {"seq": 7}, {"run_id": "r0"}):
        answer = ask_function.handler({**encode_ask(ask), **forged}, Context())
        assert answer == {"v": 1, "command": None}
    state = control_wiring.control().load(ask.execution_id)
    assert (state.seq, len(state.runs)) == (0, 1)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "odd",
    [
        {"v": 2},
        {"execution_id": "x"},
        {"seq": -1},
        {"seq": True},
        {"worker": "w" * 200},
        {"worker": None},
        {"id": ""},
        {"until": "soon"},
        {"computes": 1},
    ],
    ids=str,
)
def test_a_malformed_ask_is_an_error(ask_function: ModuleType, odd: dict[str, Any]) -> None:
    ask = encode_ask(ended())
    with pytest.raises(ValueError, match="not an ask"):
        ask_function.handler({**ask, **odd}, Context())


def test_a_record_of_the_stream_is_no_ask(ask_function: ModuleType) -> None:
    """Callers of this function must not be able to forge records that the router trusts."""
    with pytest.raises(ValueError, match="not an ask"):
        ask_function.handler({"Records": [{"eventSource": "aws:dynamodb", "dynamodb": {"NewImage": {}}}]}, Context())


def test_an_ask_that_cannot_be_answered_is_left_to_the_stream(ask_function: ModuleType) -> None:
    ask = ended()
    control = control_wiring.control()
    control.store = Mock(wraps=control.store, append=Mock(side_effect=Unavailable("throttled")))
    assert ask_function.handler(encode_ask(ask), Context()) == {"v": 1, "command": None}


def test_effects_that_fail_after_the_put_are_left_to_a_wake(ask_function: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = ended()
    control = control_wiring.control()
    monkeypatch.setattr(control, "carry_out", Mock(side_effect=Unavailable("throttled")))
    answer = ask_function.handler(encode_ask(ask), Context())
    assert decode_command(answer["command"]).step == "second", "the worker has its answer all the same"
    assert [json.loads(body)["wake"] for body in bodies(os.environ["CONTROL_QUEUE_URL"])] == []
    assert ask.execution_id in [due.execution_id for due in control.index.due(control.clock.now())]
