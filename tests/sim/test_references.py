"""References that lead nowhere or too far: the author's error, clear and final, never a redelivery."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.engine.outcome import Outcome
from tests.sim.world import World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/refs}\nworkflow:\n"
GUARD = (
    HEAD
    + """
  - step: start
    tool: [{name: a, kind: http, url: "http://x"}]
    next: {arcs: [{step: end, when: "{{ event.result.rows | length > 0 }}"}]}
  - step: end
    tool: [{name: z, kind: noop}]
"""
)
INPUT = (
    HEAD
    + """
  - step: start
    tool:
      - {name: a, kind: http, url: "http://x"}
      - {name: b, kind: noop, args: {n: "{{ _prev.rows[0] }}"}}
"""
)


def ref(key: str = "1/results/none.json", size: int = 10) -> dict[str, Any]:
    return {"kind": "result_ref", "store": "s3", "key": key, "size": size, "checksum": "sha256:0"}


@pytest.mark.parametrize("playbook", [GUARD, INPUT])
@pytest.mark.parametrize("body", [None, b"{not json"])
def test_a_reference_to_nothing_or_to_no_data_fails_the_execution_clearly(playbook: str, body: bytes | None) -> None:
    world = World()
    if body is not None:
        world.results.objects["1/results/none.json"] = body
    world.tool = lambda call: Outcome.ok(ref())
    state = world.run(world.start(playbook).execution_id, limit=400)
    assert state.status == "failed"
    assert state.failure is not None
    assert state.failure["kind"] == "template"
    assert "1/results/none.json" in state.failure["message"]


def test_a_guard_over_a_gigabyte_is_refused_without_loading_it() -> None:
    world = World()
    world.tool = lambda call: Outcome.ok(ref(size=1 << 30))
    state = world.run(world.start(GUARD).execution_id, limit=400)
    assert state.failure is not None
    assert (state.status, state.failure["kind"]) == ("failed", "limit")
