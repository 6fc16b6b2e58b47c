"""`noetl limits`, and what `noetl show` says of an execution that waits for one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from noetl_cli import output
from noetl_core.control import read
from noetl_core.control.limit_views import limits
from noetl_core.ports import LimitRecord
from tests.commands import run
from tests.sim.test_concurrency import SHARED, STEPS, Server, start
from tests.sim.world import World


def said_of(summary: Any) -> list[str]:
    return [output.limited(wait) for wait in summary["waiting_for"] if wait["kind"] == "limit"]


def test_show_says_who_waits_for_whom() -> None:
    world = World(concurrency=5)
    Server(world, seconds=1_000)
    ids = start(world, SHARED.replace("max: 5", "max: 1"), 3)
    summary = read.summary(world.controls[0], ids[2])
    assert summary["status"] == "waiting"
    assert said_of(summary) == [f"waiting: limit orders-all 1/1, 2nd; held by {ids[0]}"]
    shown: Any = limits(world.controls[0], "orders-all")["limits"][0]
    assert (shown["held"], shown["max"], shown["waiting"], shown["more"]) == (1, 1, True, False)
    assert [holder["execution_id"] for holder in shown["holders"]] == ids[:1]
    assert [waiter["execution_id"] for waiter in shown["waiters"]] == ids[1:]
    (listed,) = limits(world.controls[0], None)["limits"]
    assert "holders" not in listed


def test_show_names_the_step_that_waits() -> None:
    world = World(concurrency=5)
    world.places.held["shop"] = LimitRecord("shop", {str(n): world.clock.time for n in range(7)}, 2, False, 1)
    (execution_id,) = start(world, STEPS, 1)
    summary = read.summary(world.controls[0], execution_id)
    assert summary["status"] == "waiting"
    said = "\n".join(said_of(summary))
    assert re.search(r"waiting: limit shop 7/2, (1st|2nd) \(step a\); held by 0, 1, 2, 3, 4, \.\.\.", said), said


def test_the_command_lists_what_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "rated.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: rated, path: cli/rated}\n"
        "executor: {spec: {policy: {concurrency: {key: orders, max: 2}}}}\n"
        "workflow:\n  - step: start\n"
        "    tool: {name: a, kind: noop, spec: {policy: {rate: {key: api/v1, per_second: 5}}}}\n"
    )
    done = run("run", "rated.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    listed = run("limits", cwd=tmp_path)
    assert "api/v1" in listed.stdout and "5/s" in listed.stdout
    assert "orders" not in listed.stdout, "it is free again"
    assert "limit orders is not in use" in run("limits", "orders", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("number", "said"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (21, "21st")]
)
def test_ordinals(number: int, said: str) -> None:
    assert output.nth(number) == said
