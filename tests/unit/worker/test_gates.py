"""The age of a worker's knowledge of a gate."""

from __future__ import annotations

import pytest

from noetl_core.ports import Gate
from noetl_core.values.instants import SECOND
from noetl_core.worker.claiming.gates import REMEMBERED, STANDS_S, RecentGates
from tests.sim.ports import SimClock


class _Counted:
    def __init__(self) -> None:
        self.held: dict[str, Gate] = {}
        self.reads = 0

    def gate(self, execution_id: str) -> Gate:
        self.reads += 1
        return self.held.get(execution_id, Gate())

    def set_gate(self, execution_id: str, gate: Gate) -> None:
        self.held[execution_id] = gate


def test_an_open_gate_is_read_once_a_second() -> None:
    below, clock = _Counted(), SimClock()
    gates = RecentGates(below, clock)
    for _ in range(3):
        assert gates.gate("1") == Gate()
    assert below.reads == 1
    below.held["1"] = Gate("pause")
    clock.time += STANDS_S * SECOND
    assert gates.gate("1") == Gate("pause")


@pytest.mark.parametrize("gate", [Gate("pause"), Gate("stop"), Gate("run", frozenset({"r1"}))])
def test_a_gate_that_is_not_open_is_read_every_time(gate: Gate) -> None:
    below = _Counted()
    gates = RecentGates(below, SimClock())
    below.held["1"] = gate
    assert gates.gate("1") == gates.gate("1") == gate
    below.held.clear()
    assert gates.gate("1") == Gate() and below.reads == 3


def test_ones_own_change_is_seen_at_once_and_few_are_remembered() -> None:
    below = _Counted()
    gates = RecentGates(below, SimClock())
    gates.gate("1")
    gates.set_gate("1", Gate("stop"))
    assert gates.gate("1") == Gate("stop")
    for n in range(REMEMBERED + 1):
        gates.gate(f"x{n}")
    gates.gate("x1")
    assert below.reads == 2 + REMEMBERED + 1
    gates.gate("x0")
    assert below.reads == 2 + REMEMBERED + 2
