"""Helpers for redriven executions: requests, and checks at their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl_core.control.lifecycle.operate import NotNow
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.redrive.plan import From, Redrive
from noetl_core.engine.state import State
from noetl_core.log.stored_values import Values
from noetl_core.ports import PortError
from noetl_core.tools.base import ToolCall
from tests.sim.ports import Crash
from tests.sim.world import World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/redrive}\nworkflow:\n"


def asked(begin: str | None = None, **edits: Any) -> Redrive:
    return Redrive(None if begin is None else From.parse(begin), **edits)


def again(world: World, execution_id: str, begin: str | None = None, **more: Any) -> Any:
    """Redrive like an operator who retries until there is an answer."""
    edits = {k: more.pop(k) for k in ("ctx", "args") if k in more}
    while True:
        try:
            return redrive(world.controls[0], execution_id, asked(begin, **edits), **more)
        except (Crash, PortError):
            world.controls[0] = world.new_control()
        except NotNow:
            return None  # the crash came after the commit


def result(world: World, state: State) -> Any:
    return Values(world.store, world.results, state.execution_id).at(state.result)


def failing(world: World, fails: Callable[[ToolCall], bool]) -> None:
    def tool(call: ToolCall) -> Outcome:
        if fails(call):
            return Outcome.failed("client_error", f"{call.task} does not work")
        return Outcome.ok(call.inputs.get("result", call.inputs.get("args", call.inputs.get("url"))))

    world.tool = tool
