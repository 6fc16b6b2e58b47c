"""Playbooks with callbacks, and helpers of their tests."""

from __future__ import annotations

from typing import Any

from noetl_core.engine.outcome import Outcome
from noetl_core.engine.state import State
from noetl_core.events.shapes import Wait
from noetl_core.expr import Secret
from noetl_core.log.stored_values import Values
from noetl_core.tools.base import ToolCall
from noetl_core.views.explain.replay import replay
from tests.sim import invariants
from tests.sim.world import World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/callback}\n"

ASK = (
    HEAD
    + """
workflow:
  - step: start
    tool:
      - {name: send, kind: http, url: "http://mail/{{ callback.token }}"}
      - name: ask
        kind: callback
        timeout: 3600
        schema: {type: object, required: [ok], properties: {ok: {type: boolean}}}
      - {name: after, kind: noop, result: "{{ ask }}"}
"""
)
BEATING = (
    HEAD
    + """
workflow:
  - step: start
    tool:
      - {name: send, kind: http, url: "http://mail/{{ callback.token }}"}
      - {name: ask, kind: callback, heartbeat: 60}
"""
)


class Mail:
    """A tool that records the messages that it is to send."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    def __call__(self, call: ToolCall) -> Outcome:
        if call.task != "send":
            return Outcome.ok(call.inputs.get("result"))
        assert not isinstance(call.inputs["url"], Secret), "tools are given what they need"
        self.tokens.append(str(call.inputs["url"]).removeprefix("http://mail/"))
        return Outcome.ok(f"sent to {call.inputs['url']}")


def asked(world: World, source: str = ASK) -> tuple[str, str]:
    """Start an execution and run it until it waits; return its id and the token that was sent."""
    world.tool = mail = Mail()
    execution_id = world.start(source).execution_id
    world.run(execution_id, until=lambda: bool(waits(world, execution_id)))
    return execution_id, mail.tokens[-1]


def waits(world: World, execution_id: str) -> list[Wait]:
    return [w for r in world.state(execution_id).runs.values() for w in r.waits]


def ended(world: World, execution_id: str, status: str = "completed") -> State:
    state = world.run(execution_id)
    assert state.status == status, state.failure
    world.faults.quiet = True
    world.drain()
    invariants.check(world, execution_id)
    assert replay(world.controls[0], execution_id).differences == ()
    return state


def result(world: World, state: State) -> Any:
    return Values(world.store, world.results, state.execution_id).at(state.result)


def everything_stored(world: World) -> str:
    log = [c for commits in world.store.streams.values() for c in commits]
    return repr(log) + repr(world.results.objects) + repr(world.queue.sent)
