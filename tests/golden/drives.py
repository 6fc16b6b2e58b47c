"""Actions of people and other systems in a scenario: answer, pause, cancel, redrive."""

from __future__ import annotations

from collections.abc import Callable

from noetl_core.control import callbacks
from noetl_core.control.lifecycle import operate
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.control.sweeping.sweep import mark_stuck
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.redrive.plan import From, Redrive
from noetl_core.engine.statuses import MAX_ATTEMPTS
from noetl_core.events.control import EvaluationMarked
from noetl_core.events.event import fact
from noetl_core.events.shapes import Wait
from noetl_core.tools.base import ToolCall
from tests.sim.world import World

Drive = Callable[[World, str], None]


def echo(call: ToolCall) -> Outcome:
    """Most tools: what they are given is what they answer."""
    return Outcome.ok(call.inputs.get("result"))


def to_the_end(world: World, execution_id: str) -> None:
    world.run(execution_id)


def waits(world: World, execution_id: str) -> bool:
    runs = world.state(execution_id).runs.values()
    return bool(runs) and all(r.status == "suspended" for r in runs)


def answer(world: World, execution_id: str) -> None:
    world.run(execution_id, until=lambda: waits(world, execution_id))
    operate.signal(world.controls[0], execution_id, "approve", {"by": "Ada"}, "s1")
    operate.signal(world.controls[0], execution_id, "approve", {"by": "Eve"}, "s2")
    world.run(execution_id)


def early(world: World, execution_id: str) -> None:
    operate.signal(world.controls[0], execution_id, "approve", {"by": "Ada"}, "s1")
    world.run(execution_id)


def pause_and_resume(world: World, execution_id: str) -> None:
    world.run(execution_id, until=lambda: "first" in world.state(execution_id).steps)
    operate.pause(world.controls[0], execution_id)
    world.run(execution_id, limit=40)
    operate.resume(world.controls[0], execution_id)
    world.run(execution_id)


def cancel(world: World, execution_id: str) -> None:
    world.run(execution_id, until=lambda: waits(world, execution_id))
    operate.cancel(world.controls[0], execution_id, "enough")
    world.run(execution_id)


def cancel_at_work(world: World, execution_id: str) -> None:
    """Cancelled while work continues outside, which has begun."""
    world.run(execution_id, until=lambda: any(w["outside"]["looks"] for w in _outside(world, execution_id)))
    operate.cancel(world.controls[0], execution_id, "enough")
    world.run(execution_id)


def _outside(world: World, execution_id: str) -> list[Wait]:
    return [w for run in world.state(execution_id).runs.values() for w in run.waits if "outside" in w]


def by_token(world: World, execution_id: str) -> None:
    world.run(execution_id, until=lambda: waits(world, execution_id))
    (waiting,) = callbacks.open_callbacks(world.controls[0], execution_id)
    callbacks.heartbeat(world.controls[0], waiting["token"])
    callbacks.answer(world.controls[0], waiting["token"], {"ok": True})
    world.run(execution_id)


def stuck_and_mended(world: World, execution_id: str) -> None:
    world.run(execution_id, until=lambda: waits(world, execution_id))
    mark_stuck(world.controls[0], execution_id, "a command failed again and again; the functions' logs have the errors")
    operate.resume(world.controls[0], execution_id)
    world.run(execution_id)


def marked_and_stuck(world: World, execution_id: str) -> None:
    """A process ends while it evaluates, and so do the next two. An operator has it tried once more, which goes well."""
    world.run(execution_id, until=lambda: waits(world, execution_id))
    control = world.controls[0]
    control.route(execution_id, facts=[fact(EvaluationMarked, attempts=MAX_ATTEMPTS)])
    control.route(execution_id)
    operate.resume(control, execution_id)
    world.run(execution_id)


def cancel_and_undo(world: World, execution_id: str) -> None:
    world.run(execution_id, until=lambda: waits(world, execution_id))
    operate.cancel(world.controls[0], execution_id, "enough", compensate=True)
    world.run(execution_id)


def mended(begin: str | None) -> Drive:
    """Return a drive that redrives a failed execution after its tool was mended."""

    def drive(world: World, execution_id: str) -> None:
        world.run(execution_id)
        world.drain()
        world.tool = echo
        redrive(world.controls[0], execution_id, Redrive(None if begin is None else From.parse(begin), ctx={"mended": True}))
        world.run(execution_id)

    return drive
