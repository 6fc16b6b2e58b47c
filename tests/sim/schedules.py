"""Worlds in which schedules start playbooks."""

from __future__ import annotations

from datetime import UTC, datetime

from noetl_core.control.catalog.registration import register
from noetl_core.engine.records import request_of
from noetl_core.ports import PortError
from tests.sim.ports import SECOND, Crash, Faults
from tests.sim.world import World

PATH = "reports/nightly"


def playbook(*triggers: str, path: str = PATH, more: str = "") -> str:
    listed = "\n".join(f"      - {{{trigger}}}" for trigger in triggers)
    return f"""\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: nightly, path: {path}}}
executor:
  spec:
    triggers:
{listed or "      []"}
workload: {{day: null}}
workflow:
  - step: start
    tool: {{kind: noop, result: "{{{{ [workload.day, trigger.kind, trigger.name, trigger.previous_at] }}}}"}}
{more}"""


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


def world_at(text: str, faults: Faults | None = None) -> World:
    world = World(faults=faults or Faults())
    world.clock.time = at(text)
    world.next_sweep = world.clock.time + 60 * SECOND
    return world


def started(world: World) -> list[tuple[str, str]]:
    """Return the trigger and the occurrence of every execution, in order."""
    requests = [request_of(commits[0]) for stream, commits in world.store.streams.items() if stream.run_id is None]
    return sorted((t["id"], t["name"]) for r in requests if (t := r.get("trigger")) is not None)


def register_in(world: World, source: str) -> None:
    """Register like a client that retries until it has an answer."""
    while True:
        try:
            register(world.controls[0], source)
            return
        except (Crash, PortError):
            world.controls[0] = world.new_control()
