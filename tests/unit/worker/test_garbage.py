"""The objects of a step are freed when it ends: the garbage collector finds none of them."""

from __future__ import annotations

import gc

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.runtime.local import LocalWiring

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: chain, path: tests/chain}\nworkflow:\n"


def chain(steps: int, tool: str) -> str:
    arcs = [f"next: {{arcs: [{{step: s{n + 1}}}]}}" for n in range(steps - 1)] + [""]
    return HEAD + "".join(f"- {{step: s{n}, tool: {tool}{', ' if arc else ''}{arc}}}\n" for n, arc in enumerate(arcs))


def left_for_the_collector(source: str) -> int:
    """Run a playbook; return how many objects only the garbage collector can free afterwards."""
    local = LocalWiring()
    try:
        execution_id = local.start(StartRequest(playbook=source)).execution_id
        gc.collect()
        gc.disable()
        try:
            local.run(execution_id)
            return gc.collect()
        finally:
            gc.enable()
    finally:
        local.close()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "tool",
    ["{kind: noop}", "{kind: noop, result: '{{ workload | length }}'}"],
    ids=["plain", "templates"],
)
def test_steps_leave_nothing_for_the_garbage_collector(tool: str) -> None:
    left_for_the_collector(chain(2, tool))  # creates the objects that are made once
    few, many = left_for_the_collector(chain(5, tool)), left_for_the_collector(chain(45, tool))
    if many - few >= 40:  # something else was made once: a run that takes long renews its lease, for example
        many = left_for_the_collector(chain(45, tool))
    assert many - few < 40, f"40 more steps leave {many - few} objects more"
