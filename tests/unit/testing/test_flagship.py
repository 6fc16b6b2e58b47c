"""The tools of authors on the flagship (examples/flights), for real on small data: 200 recorded executions are rehearsed with a
changed guard, three failures are fixed with tests that were red, and nothing is called."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest, register
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.redrive.plan import From, Redrive
from noetl_core.runtime.embedded import text_of
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.base import ToolCall
from noetl_core.tools.registry import ToolRegistry
from tests.commands import in_process

FLIGHTS = Path(__file__).parents[3] / "examples/flights/playbook.yaml"
RUNS, DIFFERING = 200, 10
GUARD = "event.name == 'step.done' and ctx.matches_source"
MISTAKES = {  # text -> the mistake instead of it, and the step that is run again
    "a column": ("GROUP BY origin, dest", "GROUP BY orign, dest", "analyse"),
    "a key": ("{totals['flights']:,}", "{totals['flihgts']:,}", "report"),
    "a comparison": (".totals.distinct_flights }}", ".totals.flights + 1 }}", "validate"),
}


class Api:
    """A tool in place of `http`: three flights a month on two pages; the second page is refused once in some months. While it is
    `wrong`, its totals are others."""

    kind, inline = "http", True

    def __init__(self) -> None:
        self.calls = 0
        self.wrong = False

    def run(self, call: ToolCall) -> Outcome:
        self.calls += 1
        if call.inputs["url"].endswith("/summary"):
            months = [{"month": n, "flights": 3, "departed": 3, "dep_delay_sum": 30, "distance_sum": 600} for n in (1, 2)]
            return self._ok({"total": 6 + self.wrong, "months": months})
        month, page = int(call.inputs["params"]["month"]), int(call.inputs["params"]["page"])
        if page == 2 and month == 2 and call.attempt == 1:
            return Outcome.failed("rate_limit", "slow down", http={"status": 429, "headers": {"Retry-After": "0"}})
        rows = [
            {
                "id": 10 * month + n,
                "month": month,
                "carrier": "UA",
                "origin": "JFK",
                "dest": "LAX",
                "dep_delay": 10,
                "distance": 200,
            }
            for n in ((1, 2) if page == 1 else (3,))
        ]
        return self._ok({"data": rows, "paging": {"hasMore": page == 1}})

    def _ok(self, data: Any) -> Outcome:
        body = {"status": 200, "headers": {}, "data": data, "url": "http://flights.example", "elapsed_ms": 1}
        return Outcome.ok(body, http={"status": 200, "headers": {}})


PAYLOAD = {"months": [1, 2], "min_route_flights": 1}


@pytest.fixture
def flights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Api, LocalWiring]]:
    monkeypatch.chdir(tmp_path)
    api = Api()
    wiring = LocalWiring(tmp_path / ".noetl" / "runs.db", tools=ToolRegistry({"http": api}))
    yield api, wiring
    wiring.close()


def run(wiring: LocalWiring, version: int) -> str:
    started = wiring.start(StartRequest(path="examples/flights", version=version, payload=PAYLOAD))
    assert wiring.run(started.execution_id, timeout_s=60)
    return started.execution_id


@pytest.mark.nightly
def test_a_changed_guard_names_the_executions_that_it_changes(flights: Any, tmp_path: Path) -> None:
    api, wiring = flights
    text = text_of(FLIGHTS)
    register(wiring.control, text)
    wrong = []
    for number in range(RUNS):
        api.wrong = number % (RUNS // DIFFERING) == 7
        wrong += [run(wiring, 1)] if api.wrong else []
        if not api.wrong:
            run(wiring, 1)
    called = api.calls
    file = tmp_path / "flights.yaml"
    assert text.count(GUARD) == 1
    file.write_text(text.replace(GUARD, "event.name == 'step.done'"))
    found = json.loads(in_process("rehearse", str(file), "--last", str(RUNS), "--output", "json").stdout)
    assert len(found) == RUNS and [one for one in found if one["skipped"] or one["unknown"]] == []
    changed = [one for one in found if one["changes"]]
    assert {one["execution_id"] for one in changed} == set(wrong) and len(wrong) == DIFFERING
    assert all("failed becomes completed" in one["changes"] for one in changed)
    assert api.calls == called, "nothing is called"


@pytest.mark.nightly
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_failure_that_is_fixed_has_a_test_that_was_red(mistake: str, flights: Any, tmp_path: Path) -> None:
    api, wiring = flights
    text = text_of(FLIGHTS)
    good, bad, step = MISTAKES[mistake]
    assert text.count(good) == 1
    register(wiring.control, text.replace(good, bad))
    execution_id = run(wiring, 1)
    register(wiring.control, text)
    redrive(wiring.control, execution_id, Redrive(From(step)), version=2)
    assert wiring.run(execution_id, timeout_s=60)
    called = api.calls
    (tmp_path / "flights.yaml").write_text(text)
    done = in_process("record", execution_id, "--fix")
    assert done.exception is None, done.exception
    assert "replays the execution" in done.stdout and "with version 1 the test fails: status is failed" in done.stdout
    assert in_process("test", "flights.test.yaml").exit_code == 0
    assert api.calls == called
