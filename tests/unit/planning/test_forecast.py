"""Forecasts: ranges from past executions and from the structure, and what they assume; differences of two graphs."""

from __future__ import annotations

import json
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from noetl_core.api.app import Api as Served
from noetl_core.dsl.parse import parse_playbook
from noetl_core.planning.changes import changes
from noetl_core.planning.forecast import PastRun, forecast
from noetl_core.planning.structure import Range
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.service.operations.base import cursor_key
from noetl_core.testing import run
from noetl_core.views.explain.past_runs import past_run
from tests.api_server import served
from tests.commands import in_process

TEXT = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: planned, path: tests/planned }
workload: { items: [] }
workflow:
  - step: load
    loop: { in: "{{ workload.items }}", iterator: item }
    tool:
      name: page
      kind: http
      url: "http://shop.example/{{ iter.item }}"
      spec:
        timeout: 5
        policy:
          rules:
            - { when: "{{ outcome.error.retryable }}", then: { do: retry, attempts: 3, delay: 2 } }
            - { else: { then: { do: continue } } }
    next: { arcs: [{ step: check, when: "{{ workload.items | length > 20 }}" }, { step: save }] }
  - step: check
    tool: { kind: noop }
    next: { arcs: [{ step: save }] }
  - step: save
    tool: { name: insert, kind: postgres, auth: shop, command: SELECT 1 }
    next: { arcs: [{ step: pause }] }
  - step: pause
    tool: { kind: wait, duration: 60 }
"""
MODEL = parse_playbook(TEXT)


def past(chance: random.Random) -> PastRun:
    """Return an execution with a number of pages, and with times and failures of its services, as chance has it."""
    items = list(range(int(chance.lognormvariate(2.8, 0.5)) + 1))
    failing = [n for n in items if chance.random() < 0.1]
    pages: list[dict[str, Any]] = [
        {"index": failing, "attempt": 1, "error": {"kind": "timeout"}, "seconds": 4, "optional": True},
        {"ok": {}, "seconds": round(chance.uniform(0.2, 1.5), 2)},
    ]
    insert = {"ok": {}, "seconds": round(chance.lognormvariate(0, 1), 2)}
    played = run(TEXT, {"items": items}, {"load": pages, "save": insert})
    assert played.status == "completed"
    try:
        return past_run(played.control, played.id)
    finally:
        played.close()


@pytest.fixture(scope="module", params=[1, 2])
def runs(request: pytest.FixtureRequest) -> list[PastRun]:
    chance = random.Random(request.param)
    return [past(chance) for _ in range(11)]


def contains(found: Range, value: float) -> bool:
    return found.low <= value <= found.high


@pytest.mark.one_in(6)
def test_a_plan_from_ten_executions_contains_the_eleventh(runs: list[PastRun]) -> None:
    """And with each of the eleven as the one that is not known, all but two at most; the range is no wider than three times
    the differences of the executions."""
    found = forecast(MODEL, runs[:10])
    assert contains(found.seconds, runs[10].seconds) and contains(found.cost, runs[10].cost)
    missed = 0
    for number, one in enumerate(runs):
        others = forecast(MODEL, runs[:number] + runs[number + 1 :])
        missed += not (contains(others.seconds, one.seconds) and contains(others.cost, one.cost))
    assert missed <= 2
    times = [one.seconds for one in runs]
    assert found.seconds.high - found.seconds.low < 3 * (max(times) - min(times))


def test_assumptions_are_listed(runs: list[PastRun]) -> None:
    found = forecast(MODEL, runs)
    counts = sorted(len_ for one in runs if (len_ := one.steps["load"].iterations) is not None)
    assert f"load: {counts[5]} iterations, as in the last 11 runs: {counts[0]}..{counts[-1]}" in found.assumes
    checked = sum("check" in one.steps for one in runs)
    assert 0 < checked < 11 and f"check: in {checked} of 11 runs" in found.assumes
    assert any(text.startswith("load: ") and "retr" in text for text in found.assumes)
    assert any(text.startswith("range: 19 of 20 executions") for text in found.assumes)


def test_a_payload_scales_the_loops_that_depend_on_it(runs: list[PastRun]) -> None:
    small, large = (forecast(MODEL, runs, {"items": list(range(n))}) for n in (2, 200))
    assert "load: 200 iterations, as the payload says" in large.assumes
    assert large.seconds.typical > forecast(MODEL, runs).seconds.high > small.seconds.high
    assert small.seconds.typical >= 60, "the wait is as it was"


def test_steps_that_were_removed_or_added_are_reckoned(runs: list[PastRun]) -> None:
    shorter = parse_playbook(
        TEXT.replace("    next: { arcs: [{ step: pause }] }\n  - step: pause\n    tool: { kind: wait, duration: 60 }\n", "")
    )
    assert forecast(shorter, runs).seconds.typical == pytest.approx(forecast(MODEL, runs).seconds.typical - 60, abs=0.5)
    longer = parse_playbook(
        TEXT + "    next: { arcs: [{ step: rest }] }\n  - step: rest\n    tool: { name: nap, kind: wait, duration: 1h }\n"
    )
    found = forecast(longer, runs)
    assert found.seconds.typical == pytest.approx(forecast(MODEL, runs).seconds.typical + 3600, abs=1)
    assert "rest: no past execution ran it" in found.assumes and "rest: nap (wait) waits 3600 s" in found.assumes
    assert [str(change) for change in changes(MODEL, longer)] == ["+ step rest", "+ arc pause -> rest"]
    assert [str(change) for change in changes(longer, shorter)] == [
        "- step pause", "- step rest", "- arc save -> pause", "- arc pause -> rest",
    ]  # fmt: skip
    assert changes(MODEL, MODEL) == []


def test_the_structure_alone_gives_bounds_by_defaults(runs: list[PastRun]) -> None:
    found = forecast(MODEL, [], {"items": [1, 2, 3]})
    assert "load: 3 iterations, as the workload says" in found.assumes
    assert "load: page (http) takes 0.05 to 5 s, by default, and up to 3 attempts" in found.assumes
    assert [step.share for step in found.steps] == [None] * 4
    assert found.seconds.low >= 60 + 3 * 0.05 and found.seconds.high >= 3 * (3 * 5 + 2 * 2) + 60
    bounds = forecast(MODEL, [])
    assert all(contains(bounds.seconds, one.seconds) and contains(bounds.cost, one.cost) for one in runs)
    assert forecast(MODEL, []) == bounds


def test_the_command_learns_from_the_local_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flow = TEXT[: TEXT.index("workflow:")] + (
        "workflow:\n  - step: each\n    loop: { in: '{{ workload.items }}', iterator: n }\n    tool: { kind: noop, result: '{{ iter.n }}' }\n"
    )
    (tmp_path / "flow.yaml").write_text(flow)
    (tmp_path / "old.yaml").write_text(flow.replace("step: each", "step: all"))
    store = ("--store", str(tmp_path / "runs.db"))
    first = in_process("plan", "flow.yaml")
    assert first.exception is None and "by the structure alone" in first.stdout
    for items in ("[1]", "[1, 2, 3]"):
        assert in_process("run", "flow.yaml", "--set", f"items={items}", *store).exception is None
    found = json.loads(in_process("plan", "flow.yaml", *store, "--base", "old.yaml", "--output", "json").stdout)
    assert (
        found["runs"] == 2 and found["cost"]["low"] > 0 and "each: 2 iterations, as in the last 2 runs: 1..3" in found["assumes"]
    )
    assert found["changes"] == [{"how": "added", "what": "step each"}, {"how": "removed", "what": "step all"}]
    text = in_process("plan", "flow.yaml", *store, "--base", "old.yaml", "--set", "items=[1, 2]").stdout
    assert "+ step each\n- step all\n" in text and "each: 2 iterations, as the payload says" in text
    with closing(LocalWiring(tmp_path / "runs.db")) as wiring:
        service = Service(lambda: wiring.control, cursor_key(lambda: wiring.control), {"name": "test"}, rights=lambda *_: True)
        with served(Served(service)) as url:
            over_the_api = json.loads(
                in_process("plan", "flow.yaml", "--on", url, "--base", "old.yaml", "--output", "json").stdout
            )
    assert over_the_api == found


def test_few_executions_give_a_range_that_is_of_use() -> None:
    two = [PastRun(seconds, 0.001, {}) for seconds in (0.02, 4)]
    found = forecast(MODEL, two, {"items": []})
    step_defaults = forecast(MODEL, [], {"items": []})
    assert found.seconds.high <= 2 * 4 + step_defaults.seconds.high, "not weeks, as a formula for two values gives"
    assert any(
        "from half the least to twice the most, because fewer than 5 past executions show no spread" in text
        for text in found.assumes
    )
