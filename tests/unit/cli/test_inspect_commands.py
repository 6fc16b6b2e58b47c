"""Commands that look at executions: nothing is cut that was asked for, failures come first, ids may be short."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands import PATIENCE_S, Command
from tests.unit.cli.runs import HELLO, Run, result_of, when

STEPS = 25
LOOP = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: loop, path: test/loop }
workload: { bad: [3, 8] }
workflow:
  - step: items
    spec: { policy: { failure: { mode: best_effort } } }
    loop: { in: "{{ range(10) | list }}", iterator: n }
    tool: { kind: noop, result: "{{ 1 // (0 if iter.n in workload.bad else 1) }}" }
"""


@pytest.fixture
def looped(noetl: Run, tmp_path: Path) -> Run:
    (tmp_path / "loop.yaml").write_text(LOOP)
    assert noetl("run", "loop.yaml").returncode == 0
    return noetl


def test_steps_are_shown_whole_and_limited_lists_name_the_next_limit(noetl: Run, tmp_path: Path) -> None:
    chain = "".join(
        f"  - {{ step: s{n}, tool: {{ kind: noop }}, next: {{ arcs: [{{ step: s{n + 1}, args: {{ n: {n} }} }}] }} }}\n"
        for n in range(STEPS)
    )
    head = HELLO[: HELLO.index("workflow:")]
    (tmp_path / "chain.yaml").write_text(f"{head}workflow:\n{chain}  - {{ step: s{STEPS}, tool: {{ kind: noop }} }}\n")
    assert noetl("run", "chain.yaml").returncode == 0
    shown = noetl("show", "@last").stdout
    assert all(f"s{n} " in shown for n in range(STEPS + 1))
    for _ in range(2):
        assert noetl("run", "hello.yaml").returncode == 0
    assert "there are more: --limit 4" in noetl("ls", "--limit", "2").stderr
    assert "there are more" not in noetl("ls").stderr


def test_failed_iterations_are_grouped_with_their_items_and_redriven_by_default(looped: Run) -> None:
    shown = looped("show", "@last", "items", "--failed").stdout
    assert "10 iterations: 8 succeeded, 2 failed" in shown
    assert "2 x template in task items_task" in shown
    assert "  @3  3\n  @8  8\n" in shown
    (group,) = json.loads(looped("show", "@last", "items", "--failed", "--output", "json").stdout)["failed_iterations"]
    assert (group["iterations"], group["items"]) == ([[3], [8]], [3, 8])
    assert "iterations 3, 8 (8 kept)" in looped("redrive", "@last", "--preview").stdout
    assert looped("show", "@last", "--failed").returncode == 2


def test_a_timeline_lists_failed_iterations_first(looped: Run) -> None:
    lines = [line for line in looped("timeline", "@last", "--tasks").stdout.splitlines() if line.startswith("  [")]
    assert [line.split()[0] for line in lines[:2]] in (["[3]", "[8]"], ["[8]", "[3]"])
    assert len(lines) == 10


@pytest.mark.nightly
def test_an_id_may_be_the_last_one_or_its_last_digits(noetl: Run) -> None:
    ids = [result_of(noetl("run", "hello.yaml", "--output", "json"))["execution_id"] for _ in range(2)]
    assert json.loads(noetl("show", "@last", "--output", "json").stdout)["execution_id"] == ids[1]
    short = next(ids[0][-n:] for n in range(3, 13) if not ids[1].endswith(ids[0][-n:]))
    assert json.loads(noetl("show", short, "--output", "json").stdout)["execution_id"] == ids[0]
    done = noetl("show", ids[0][:3], "--on", "local")
    assert done.returncode == 2 and "2 executions on local have ids that end or begin with" in done.stderr


def test_last_without_any_execution_is_a_usage_error(noetl: Run) -> None:
    done = noetl("show", "@last")
    assert done.returncode == 2 and "there is no execution yet" in done.stderr


def test_events_and_logs_are_filtered(looped: Run) -> None:
    def events(*options: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in looped("events", "@last", "--output", "jsonl", *options).stdout.splitlines()]

    failed = events("--failed", "--name", "TaskProcessed")
    assert [e["iteration"] for e in failed] == [[3], [8]]
    assert {e.get("step") for e in events("--step", "items")} == {"items"}
    assert {e["task"] for e in events("--task", "items_task", "--iteration", "@8")} == {"items_task"}
    assert [e["name"] for e in events("--tail", "1")] == ["PlaybookProcessed"]
    assert events("--since", "2100-01-01T00:00:00Z") == [] and events("--since", "1h") == events()
    assert events("--after", failed[-1]["event_id"])[0]["name"] != "PlaybookExecutionRequested"
    for wrong in (("--since", "soon"), ("--iteration", "x"), ("-f", "--output", "yaml")):
        assert looped("events", "@last", *wrong).returncode == 2, wrong
    assert looped("logs", "@last", "--step", "items").stderr == "no task that matches the options wrote anything\n"


SAYS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: says, path: test/says }
workflow:
  - step: start
    tool: { kind: python, code: "print('one')" }
    next: { arcs: [{ step: ask }] }
  - step: ask
    tool: { kind: callback, signal: go }
    next: { arcs: [{ step: end }] }
  - step: end
    tool: { kind: python, code: "print('two')" }
"""


def test_logs_and_events_are_followed_to_the_end(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "says.yaml").write_text(SAYS)
    with Command("run", "says.yaml", "--output", "json", cwd=tmp_path) as run:
        id = when(tmp_path, "StepSuspended", 1)
        with Command("logs", id, "-f", cwd=tmp_path) as logs, Command("events", id, "-f", "--tail", "1", cwd=tmp_path) as events:
            until(lambda: "one" in logs.stdout and events.stdout != "")
            assert "two" not in logs.stdout
            assert noetl("signal", id, "go").returncode == 0
            assert (logs.wait(), events.wait(), run.wait()) == (0, 0, 0)
            assert "two" in logs.stdout
            assert "SignalReceived" in events.stdout and "PlaybookProcessed" in events.stdout


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_undefined_name_is_reported_and_is_no_success(looped: Run) -> None:
    done = looped("render", "@last", "{{ steps.itms.result }}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == 'steps.itms is undefined (did you mean "items"?)\n'.replace("steps.itms", "steps.itms.result")
    done = looped("render", "@last", "{{ ctx.none | default(none) }}{{ workload.bad[0] }}")
    assert (done.returncode, json.loads(done.stdout)) == (0, "None3")
    assert json.loads(looped("render", "@last", "{{ workload.bad }}").stdout) == [3, 8]


def test_a_replay_lists_the_fields_that_differ(noetl: Run, tmp_path: Path) -> None:
    assert noetl("run", "hello.yaml").returncode == 0
    other = HELLO + "    next: { arcs: [{ step: again, args: { n: 1 } }] }\n  - { step: again, tool: { kind: noop } }\n"
    (tmp_path / "other.yaml").write_text(other)
    done = noetl("replay", "@last", "--playbook", "other.yaml")
    assert done.returncode == 1
    assert '    NextEvaluated: selected[0]: (nothing) -> {"arc": 0, "step": "again"}\n' in done.stdout
    assert "  - WorkflowFinished" in done.stdout and "  + StepScheduled" in done.stdout


def test_a_cost_has_the_sum_of_this_run_and_the_share_of_each_step(looped: Run) -> None:
    shown = looped("cost", "@last").stdout
    assert re.search(r"^this run costs \$0\.0000\d+ at list prices$", shown, re.MULTILINE)
    shares = [int(share) for share in re.findall(r"(\d+)%", shown)]
    assert shares[-1] == 100 and abs(sum(shares[:-1]) - 100) <= 1
    assert "WU, RU: DynamoDB's write and read units" in shown


def test_diff_finds_nothing_in_equal_runs_and_names_fields_otherwise(looped: Run) -> None:
    first = json.loads(looped("show", "@last", "--output", "json").stdout)["execution_id"]
    assert looped("run", "loop.yaml").returncode == 0
    same = looped("diff", first, "@last")
    assert (same.returncode, same.stdout.splitlines()[-1]) == (0, "no difference but time")
    assert looped("run", "loop.yaml", "--set", "bad=[3]").returncode == 0
    other = looped("diff", first, "@last")
    assert other.returncode == 1
    assert {"inputs.bad: (nothing) -> [3]", "items result[8]: null -> 1", "items loop.failed: 2 -> 1"} <= set(
        other.stdout.splitlines()
    )
    found = json.loads(looped("diff", first, "@last", "--output", "json").stdout)
    assert {d["field"] for d in found["differences"] if d.get("step")} == {"result[8]", "loop.failed", "loop.succeeded"}


@pytest.mark.nightly
def test_a_step_may_stand_behind_a_dot(looped: Run) -> None:
    assert looped("show", "@last.items").stdout == looped("show", "@last", "items").stdout != ""
    assert looped("why", "@last.items").stdout == looped("why", "@last", "items").stdout != ""
    twice = looped("show", "@last.items", "items")
    assert (twice.returncode, twice.stderr) == (2, "two steps are given: items and items\n")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("command", ["logs", "events"])
def test_a_step_that_does_not_exist_is_a_usage_error(looped: Run, command: str) -> None:
    wrong = looped(command, "@last", "--step", "itms")
    assert wrong.returncode == 2 and "has no step itms (did you mean 'items'?)" in wrong.stderr
    assert looped(command, "@last", "--step", "items").returncode == 0
