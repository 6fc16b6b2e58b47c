"""Processes killed while they carry playbooks out: `resume` comes to the same end (`make kills` does this at length)."""

from __future__ import annotations

import pytest

from tests.sim.kills import kill_runs


@pytest.mark.nightly
def test_runs_whose_processes_are_killed_end_as_if_they_were_not() -> None:
    tally = kill_runs(4, first_seed=7)
    assert sum(tally.kills.values()) >= 4
    assert tally.kinds["lost"] == 0
