"""The worlds in which pairs of operations meet. Each is made once; every case begins with a copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from noetl_core.control.callbacks import open_callbacks
from noetl_core.control.lifecycle.operate import pause
from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import digest_of
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Commit, StreamId
from noetl_core.tools.base import ToolCall
from tests.sim.pairs.moments import Moments, WatchedCatalog
from tests.sim.ports import SECOND
from tests.sim.world import Record, World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/%s}\nworkflow:\n"

ASKS = HEAD % "asks" + "  - step: start\n    tool: [{name: ask, kind: callback, signal: asks}]\n"
QUICK = HEAD % "quick" + "  - step: start\n    tool: [{name: quick, kind: noop}]\n"
HOLDS = (
    HEAD % "holds"
    + "  - step: start\n    spec: {policy: {concurrency: {key: shop, max: 1}}}\n    tool: [{name: ask, kind: callback, signal: holds}]\n"
)
BRANCHES = (
    HEAD % "branches"
    + """
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: ask}, {step: token}, {step: nap}, {step: child}, {step: brief}, {step: limited}]}
  - step: ask
    tool: [{name: ask, kind: callback, signal: go}]
  - step: token
    tool: [{name: send, kind: noop, result: "{{ callback.token }}"}, {name: answer, kind: callback}]
  - step: nap
    tool: [{name: nap, kind: wait, duration: 600}]
  - step: child
    tool: [{name: call, kind: playbook, path: sim/asks}]
  - step: brief
    tool: [{name: call, kind: playbook, path: sim/quick}]
  - step: limited
    spec: {policy: {concurrency: {key: shop, max: 1}}}
    tool: [{name: work, kind: noop}]
"""
)
LAST = HEAD % "last" + "  - step: start\n    tool: [{name: work, kind: noop}]\n"
FAILS = (
    HEAD % "fails"
    + """
  - step: start
    tool: [{name: first, kind: noop}]
    next: {arcs: [{step: work}]}
  - step: work
    tool: [{name: boom, kind: http, url: x}]
"""
)
FIXED = FAILS.replace("kind: http, url: x", "kind: noop")
NEWEST = (
    HEAD % "newest"
    + """
  - step: start
    spec: {policy: {concurrency: {key: line, max: 1, on_limit: cancel_oldest}}}
    tool: [{name: ask, kind: callback, signal: newest}]
"""
)
CHILDREN = {"sim/asks": ASKS, "sim/quick": QUICK}
PARSED: dict[str, Playbook] = {}
"""Parsed playbooks by their digest, for the processes of all worlds."""


@dataclass
class Scene:
    """A world, and the ids of its executions and tokens by name."""

    world: World
    names: dict[str, str]
    redriven: int = 0
    """Redrives without edits that were acknowledged."""
    paused_alone: bool = False
    """A child may be paused of itself."""

    def copy(self, seed: int = 0) -> Scene:
        """Return a scene that shares nothing that changes."""
        old, new = self.world, empty(seed)
        new.clock.time, new.clock.nonces, new.next_sweep, new.tool = old.clock.time, old.clock.nonces, old.next_sweep, old.tool
        new.store.streams = {stream: list(commits) for stream, commits in old.store.streams.items()}
        new.store.bodies = dict(old.store.bodies)
        new.store.snapshots = {x: dict(held) for x, held in old.store.snapshots.items()}
        new.queue.messages, new.queue.sent = [replace(m) for m in old.queue.messages], list(old.queue.sent)
        new.records = [replace(r) for r in old.records]
        new.results.objects = dict(old.results.objects)
        new.index.all_heads, new.index.due_at = dict(old.index.all_heads), dict(old.index.due_at)
        new.gates.held, new.places.held = dict(old.gates.held), dict(old.places.held)
        new.places.queues = {key: dict(line) for key, line in old.places.queues.items()}
        new.calls = list(old.calls)
        catalog, kept = new.catalog, old.catalog
        catalog.by_path.update({path: list(versions) for path, versions in kept.by_path.items()})
        catalog.pinned.update(kept.pinned)
        return Scene(new, dict(self.names))

    def commit(self, execution: str) -> Commit:
        """Return the newest commit of the only run of an execution that has not been routed."""
        (run,) = self.world.state(self.names[execution]).runs
        return self.world.store.streams[StreamId(self.names[execution], run)][-1]


def empty(seed: int = 0) -> World:
    """Return a world of two control processes, whose port calls are the moments of `faults`."""
    moments = Moments(seed)
    world = World(moments, routers=2)
    world.catalog = WatchedCatalog(world.catalog, moments)  # type: ignore[assignment]
    world.controls = [world.new_control(), world.new_control()]
    for control in world.controls:
        control.playbook.parsed = PARSED
    world.tool = _answers
    for path, source in CHILDREN.items():
        world.catalog.register(path, digest_of(source), source, 1)
    return world


def _answers(call: ToolCall) -> Outcome:
    return Outcome.failed("client_error", "no") if call.kind == "http" else Outcome.ok(call.inputs.get("result"))


def live() -> Scene:
    """An execution in the middle of everything: it waits for a signal, a token, a timer, a child, a place in a limit; another child
    is about to end."""
    world = empty()
    holder = world.start(HOLDS, idempotency_key="holder").execution_id
    world.run(holder, until=lambda: _suspended(world, holder) == 1)
    parent = world.start(BRANCHES, idempotency_key="parent").execution_id
    world.run(parent, until=lambda: _suspended(world, parent) == 5 and _rests_but(world, "sim/quick"))
    children = {world.state(child).path: child for child in world.state(parent).children}
    (answer,) = open_callbacks(world.controls[0], parent)
    names = {"parent": parent, "child": children["sim/asks"], "brief": children["sim/quick"], "holder": holder}
    return Scene(world, {**names, "token": answer["token"]})


def paused() -> Scene:
    """As `live`, after a pause."""
    scene = live()
    scene.world.clock.time += SECOND
    pause(scene.world.controls[0], scene.names["parent"])
    return scene


def last() -> Scene:
    """An execution whose last boundary is stored and not routed."""
    world = empty()
    execution_id = world.start(LAST).execution_id
    world.run(execution_id, until=lambda: len(world.records) == 1)
    return Scene(world, {"parent": execution_id})


def ended() -> Scene:
    """An execution that has failed; its playbook has a later version that works."""
    world = empty()
    execution_id = world.start(FAILS).execution_id
    world.run(execution_id)
    world.drain()
    world.tool = lambda call: Outcome.ok(call.inputs.get("result"))
    world.catalog.register("sim/fails", digest_of(FIXED), FIXED, 2)
    return Scene(world, {"parent": execution_id})


def line() -> Scene:
    """A limit of one place with `cancel_oldest`: its holder has it for longer than a sweep leaves holders alone."""
    world = empty()
    holder = world.start(NEWEST, idempotency_key="holder").execution_id
    world.run(holder, until=lambda: _suspended(world, holder) == 1)
    world.clock.time += 120 * SECOND
    return Scene(world, {"parent": holder})


SCENES: Mapping[str, Callable[[], Scene]] = {"live": live, "paused": paused, "last": last, "ended": ended, "line": line}


def _suspended(world: World, execution_id: str) -> int:
    return sum(bool(run.waits) for run in world.state(execution_id).runs.values())


def _rests_but(world: World, path: str) -> bool:
    """Return whether nothing is to be done but to route the ends of the executions of a path."""
    left = [r.commit.stream.execution_id for r in world.records]
    open_ = [m for m in world.queue.messages if m.visible_at <= world.clock.time]
    return not open_ and bool(left) and all(world.state(x).path == path for x in left)


def record_of(scene: Scene, execution: str) -> Record:
    """Return the record on its way of an execution."""
    return next(r for r in scene.world.records if r.commit.stream.execution_id == scene.names[execution])
