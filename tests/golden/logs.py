"""A recorded history as a file: playbooks, every stream of every execution, objects; and what it came to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noetl_core.dsl.parse import parse_playbook
from noetl_core.engine.records import Commit, StreamId
from noetl_core.engine.state import State
from noetl_core.log.codec import decode_events
from noetl_core.log.stored_values import Values
from tests.sim.world import World

FOLDER = Path(__file__).parent
FORMAT = 1


@dataclass(frozen=True)
class Golden:
    """A history: `execution_id` is the execution it is about (its children are in it too)."""

    about: str
    execution_id: str
    playbooks: Mapping[str, str]
    commits: tuple[Commit, ...]
    objects: Mapping[str, str]
    expect: Mapping[str, Any]

    def world(self) -> World:
        """Return a world that holds the history, with nothing in progress."""
        world = World()
        for path, source in self.playbooks.items():
            world.catalog.register(path, parse_playbook(source).digest, source, 0)
        for commit in self.commits:
            world.store.streams.setdefault(commit.stream, []).append(commit)
        world.results.objects.update({key: body.encode() for key, body in self.objects.items()})
        return world

    def executions(self) -> list[str]:
        return sorted({c.stream.execution_id for c in self.commits})


def taken(world: World, execution_id: str, about: str, playbooks: Mapping[str, str]) -> Golden:
    """The history of a world."""
    commits = tuple(c for stream in world.store.streams.values() for c in stream)
    objects = {key: body.decode() for key, body in world.results.objects.items()}
    return Golden(about, execution_id, playbooks, commits, objects, came_to(world, execution_id))


def came_to(world: World, execution_id: str) -> dict[str, Any]:
    """Return a summary of a history's end, in terms that do not depend on the form of the state."""
    state: State = world.state(execution_id)
    values = Values(world.store, world.results, execution_id)
    return {
        "status": state.status,
        "ctx": state.ctx,
        "result": values.at(state.result) if state.status == "completed" else None,
        "error": None if state.failure is None else state.failure.get("kind"),
        "steps": {name: [step.status, step.visits] for name, step in state.steps.items()},
        "calls": sum(e.name == "TaskProcessed" for s in world.store.streams.values() for c in s for e in c.events),
    }


def read(name: str, folder: Path = FOLDER) -> Golden:
    d = json.loads((folder / f"{name}.json").read_text())
    assert d["format"] == FORMAT, name
    commits = tuple(_commit(row) for row in d["commits"])
    return Golden(d["about"], d["execution_id"], d["playbooks"], commits, d["objects"], d["expect"])


def write(name: str, golden: Golden) -> None:
    """One commit a line, so that a change shows what it changes."""
    head = {"format": FORMAT, "about": golden.about, "execution_id": golden.execution_id, "playbooks": golden.playbooks}
    tail = {"objects": golden.objects, "expect": golden.expect}
    rows = ",\n".join(json.dumps(_row(c), ensure_ascii=False) for c in golden.commits)
    first, last = json.dumps(head, indent=1, ensure_ascii=False), json.dumps(tail, indent=1, ensure_ascii=False)
    (FOLDER / f"{name}.json").write_text(f'{first[:-2]},\n "commits": [\n{rows}\n ],\n{last[2:]}\n')


def _row(c: Commit) -> list[Any]:
    facts = {k: getattr(c, k) for k in ("wake", "lease_until", "expires_at", "v") if getattr(c, k)}
    events: Any = c.events
    return [c.stream.execution_id, c.stream.run_id, c.seq, c.ts, c.writer, facts, [[e.name, e.ts, e.data] for e in events]]


def _commit(row: list[Any]) -> Commit:
    execution_id, run_id, seq, ts, writer, facts, events = row
    body = json.dumps(events).encode()
    return Commit(StreamId(execution_id, run_id), seq, ts, writer, decode_events(body, facts["v"]), **facts)
