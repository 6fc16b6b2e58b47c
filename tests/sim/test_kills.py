"""Processes killed while they carry playbooks out: `resume` comes to the same end (`make kills` does this at length)."""

from __future__ import annotations

import pytest

from tests.sim.kills import kill_runs


@pytest.mark.nightly
def test_runs_with_killed_processes_end_like_undisturbed_runs() -> None:
    tally = kill_runs(4, first_seed=7)
    assert sum(tally.kills.values()) >= 4
    assert tally.kinds["lost"] == 0
