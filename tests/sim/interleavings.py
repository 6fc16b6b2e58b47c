"""Playbooks and helpers of the tests of unlucky interleavings."""

from __future__ import annotations

from noetl_core.engine.records import Command
from noetl_core.views.explain.replay import replay
from tests.sim import invariants
from tests.sim.world import World

STEPS = 8
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/t}\nworkflow:\n"

CHAIN = (
    HEAD
    + """
  - step: start
    tool: [{name: a, kind: noop, args: {n: 1}}]
    next: {arcs: [{step: second}]}
  - step: second
    tool: [{name: b, kind: noop, args: {n: 2}}]
    next: {arcs: [{step: third}]}
  - step: third
    tool: [{name: c, kind: noop, args: {n: 3}}]
"""
)


def chain(steps: int = STEPS) -> str:
    """Return a playbook of steps one after the other."""
    return HEAD + "".join(
        f"  - step: {'start' if n == 0 else f's{n}'}\n    tool: [{{name: t{n}, kind: noop, args: {{n: {n}}}}}]\n"
        + (f"    next: {{arcs: [{{step: s{n + 1}}}]}}\n" if n < steps - 1 else "")
        for n in range(steps)
    )


def failed_with(world: World, execution_id: str) -> str:
    """Return the kind of the error with which an execution ended."""
    failure = world.state(execution_id).failure
    assert failure is not None
    return str(failure["kind"])


def only_command(world: World) -> Command:
    messages = [m for m in world.queue.messages if m.command is not None]
    assert len(messages) == 1
    world.queue.messages.remove(messages[0])
    assert messages[0].command is not None
    return messages[0].command


def done(world: World, execution_id: str, status: str = "completed") -> None:
    assert world.run(execution_id).status == status
    world.drain()
    invariants.check(world, execution_id)
    world.faults.quiet = True
    assert replay(world.controls[0], execution_id).differences == ()
