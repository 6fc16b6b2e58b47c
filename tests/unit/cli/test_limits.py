"""`noetl limits`, and what `noetl show` says of an execution that waits for one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from noetl_cli.commands.limits import holders_and_waiters
from noetl_cli.display import output
from noetl_core.ports import LimitRecord
from noetl_core.views.executions import executions, listing, statistics
from noetl_core.views.executions.activity import STATES_READ
from noetl_core.views.executions.shared_limits import limits
from tests.commands import run
from tests.sim.concurrency import SHARED, STEPS, Server, start
from tests.sim.world import World


def wait_lines(summary: Any) -> list[str]:
    return [output.limited(wait) for wait in summary["waiting_for"] if wait["kind"] == "limit"]


def test_show_names_the_limit_and_the_execution_that_holds_it() -> None:
    world = World(concurrency=5)
    Server(world, seconds=1_000)
    ids = start(world, SHARED.replace("max: 5", "max: 1"), 3)
    summary = executions.summary(world.controls[0], ids[2])
    assert summary["status"] == "waiting"
    assert wait_lines(summary) == [f"waiting: limit orders-all 1/1, 2nd; held by {ids[0]}"]
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
    summary = executions.summary(world.controls[0], execution_id)
    assert summary["status"] == "waiting"
    text = "\n".join(wait_lines(summary))
    assert re.search(r"waiting: limit shop 7/2, (1st|2nd) \(step a\); held by 0, 1, 2, 3, 4, \.\.\.", text), text


def test_noetl_limits_lists_only_limits_in_use(tmp_path: Path) -> None:
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
    ("number", "ordinal"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (21, "21st")]
)
def test_ordinals(number: int, ordinal: str) -> None:
    assert output.nth(number) == ordinal


def listed(world: World, **asked: Any) -> list[dict[str, Any]]:
    return [{**e} for e in listing.page(world.controls[0], lambda: b"key", **asked)["executions"]]


def test_lists_and_counts_show_executions_waiting_for_a_limit_and_its_holder() -> None:
    world = World(concurrency=5)
    Server(world, seconds=1_000)
    ids = start(world, SHARED.replace("max: 5", "max: 1"), 3)
    found = {e["execution_id"]: e for e in listed(world)}
    assert [found[x]["status"] for x in ids] == ["running", "waiting", "waiting"]
    assert "waiting_for" not in found[ids[0]]
    (wait,) = found[ids[2]]["waiting_for"]
    assert (wait["limit"], wait["held"], wait["max"], wait["held_by"]) == ("orders-all", 1, 1, ids[:1])
    assert output.limited(wait) == f"waiting: limit orders-all 1/1; held by {ids[0]}"
    assert [e["execution_id"] for e in listed(world, status="running")] == ids[:1]
    assert {e["execution_id"] for e in listed(world, status="waiting")} == set(ids[1:])
    counts = statistics.stats(world.controls[0])["counts"]
    assert (counts["running"], counts["waiting"]) == (1, 2)


def test_counts_include_waiting_executions_beyond_the_states_that_are_read() -> None:
    world = World(concurrency=5)
    Server(world, seconds=1_000)
    start(world, SHARED.replace("max: 5", "max: 1"), STATES_READ + 5)
    counts = statistics.stats(world.controls[0])["counts"]
    assert (counts["running"], counts["waiting"]) == (1, STATES_READ + 4)


def test_a_list_reads_each_limit_once_and_little_of_each_log() -> None:
    world = World(concurrency=5)
    Server(world, seconds=1_000)
    start(world, SHARED.replace("max: 5", "max: 1"), 8)
    start(world, SHARED.replace("concurrency: {", "x-none: {").replace("path: sim/shared", "path: sim/free"), 8)
    calls, reads = world.places.calls, sum(world.store.reads.values())
    assert len(listed(world)) == 16
    assert world.places.calls - calls == 1
    assert sum(world.store.reads.values()) - reads <= 16 * 3


def test_ls_shows_the_limit_an_execution_waits_for(tmp_path: Path) -> None:
    text = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: held, path: cli/held}\n"
        "executor: {spec: {policy: {concurrency: {key: orders, max: 1}}}}\n"
        "workflow:\n  - step: start\n    tool: {name: a, kind: wait, duration: 600}\n"
    )
    (tmp_path / "held.yaml").write_text(text)
    ids = [run("run", "held.yaml", "--timeout", "1", cwd=tmp_path) for _ in range(2)]
    assert [done.returncode for done in ids] == [124, 124], ids
    shown = run("ls", cwd=tmp_path).stdout
    assert re.search(r"waiting .*limit orders 1/1", shown), shown


def test_run_accepts_a_priority_and_refuses_one_out_of_range(tmp_path: Path) -> None:
    text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p, path: cli/p}\nworkflow:\n  - step: start\n    tool: {kind: noop}\n"
    (tmp_path / "p.yaml").write_text(text)
    assert run("run", "p.yaml", "--priority", "2.5", cwd=tmp_path).returncode == 0
    assert '"priority": 2.5' in run("show", "@last", "--output", "json", cwd=tmp_path).stdout
    wrong = run("run", "p.yaml", "--priority", "1e7", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "--priority 1e+07: write a number from -1,000,000 to 1,000,000" in wrong.stderr


def test_a_displaced_holder_is_shown_with_the_execution_that_displaces_it() -> None:
    world = World(concurrency=5)
    Server(world, seconds=1_000)
    newest = STEPS.replace("max: 2}", "max: 1, on_limit: cancel_oldest}").replace("[{step: a}, {step: b}]", "[{step: a}]")
    first, second = start(world, newest, 2)
    shown = limits(world.controls[0], "shop")["limits"][0]
    (holder,) = shown["holders"]
    assert (holder["execution_id"], holder["displaced_by"]) == (first, second)
    assert [row["state"] for row in holders_and_waiters(shown)] == [
        f"since {holder['since']}, displaced by {second}",
        "waits, 1st",
    ]
