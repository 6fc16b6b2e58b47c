"""A timeline of as many runs as can be shown: those that failed, the slowest, and no others; without the streams of long ones."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from tests.api_requests import ask
from tests.unit.control.decode_counts import observe_decoding
from tests.unit.control.long_playbooks import loop
from tests.unit.control.workflows import source

SEVERAL: list[dict[str, Any]] = [
    {
        "step": "start",
        "tool": {"kind": "noop"},
        "next": {"spec": {"mode": "inclusive"}, "arcs": [{"step": n} for n in ("a", "bad", "slow", "map")]},
    },
    {"step": "a", "tool": {"kind": "noop"}},
    {"step": "bad", "tool": {"kind": "noop", "result": "{{ 1 / 0 }}"}, "next": {"arcs": [{"step": "a", "when": "{{ true }}"}]}},
    {"step": "slow", "tool": {"kind": "wait", "seconds": 0.2}},
    *loop(300, "local"),
]


@pytest.fixture
def get() -> Any:
    local = LocalWiring()
    service = Service(lambda: local.control, lambda: b"key")
    execution_id = local.start(StartRequest(playbook=source(SEVERAL))).execution_id
    assert local.run(execution_id)

    def asked(status: int = 200, **query: str) -> Any:
        words = {"begin": "from", "end": "to"}
        parameters = {words.get(name, name): value for name, value in query.items()}
        answer = ask(service, "GET", f"/api/executions/{execution_id}/timeline", parameters)
        assert answer.status == status, answer.sent
        return answer.body

    yield asked
    local.close()


def runs(line: Any) -> list[str]:
    return [span["step"] for span in line["spans"] if span["kind"] == "run"]


def test_failed_and_slow_runs_are_kept(get: Any) -> None:
    whole = get(rows="100")
    assert whole["rows"] == {"total": 6, "shown": 6}
    assert sorted(runs(whole)) == ["a", "a", "bad", "map", "slow", "start"]
    assert "bad" in runs(get(rows="1"))
    assert get(rows="2")["rows"] == {"total": 6, "shown": 2}
    assert set(runs(get(rows="3"))) == {"bad", "slow", "map"} or "slow" in runs(get(rows="3"))
    (mapped,) = (s for s in whole["spans"] if s["kind"] == "run" and s["step"] == "map")
    assert mapped["loop"] == {"total": 300, "succeeded": 300, "failed": 0}
    assert [s["kind"] for s in whole["spans"] if s["step"] == "map"] == ["run"]
    assert {"run", "attempt", "task"} <= {s["kind"] for s in whole["spans"] if s["step"] == "slow"}


FORKED: list[dict[str, Any]] = [
    {
        "step": "start",
        "tool": {"kind": "noop"},
        "next": {"spec": {"mode": "inclusive"}, "arcs": [{"step": "fast"}, {"step": "parts"}]},
    },
    {"step": "fast", "tool": {"kind": "noop"}, "next": {"arcs": [{"step": "end"}]}},
    {
        "step": "parts",
        "loop": {"in": [1, 2], "iterator": "i", "spec": {"mode": "parallel", "policy": {"exec": "distributed"}}},
        "tool": {"kind": "wait", "seconds": 0.05},
        "next": {"arcs": [{"step": "end"}]},
    },
    {
        "step": "end",
        "spec": {"join": "all"},
        "tool": {"kind": "noop"},
        "next": {"arcs": [{"step": "lone", "when": "{{ false }}"}]},
    },
    {"step": "lone", "tool": {"kind": "noop"}},
]


@pytest.mark.parametrize("query", [{}, {"rows": "100"}], ids=["whole", "rows"])
def test_each_run_of_the_critical_path_was_opened_by_the_end_of_the_one_before(query: dict[str, str]) -> None:
    local = LocalWiring()
    execution_id = local.start(StartRequest(playbook=source(FORKED))).execution_id
    assert local.run(execution_id)
    service = Service(lambda: local.control, lambda: b"key")
    line = ask(service, "GET", f"/api/executions/{execution_id}/timeline", query).body
    critical = [span for span in line["spans"] if span.get("critical")]
    assert [span["step"] for span in critical if span["kind"] == "run"] == ["start", "parts", "end"]
    assert any(span["kind"] == "chunk" for span in critical)
    assert line["started_at"] == ask(service, "GET", f"/api/executions/{execution_id}").body["started_at"]
    local.close()


def test_runs_of_a_step_and_of_a_time(get: Any) -> None:
    assert runs(get(rows="100", step="a")) == ["a", "a"]
    assert runs(get(rows="100", end="0")) == ["start"]
    assert "start" not in runs(get(rows="100", begin="150"))
    assert get(rows="100", begin="2001-01-01T00:00:00Z")["rows"]["total"] == 6
    assert get(400, begin="yesterday")["error"]["code"] == "malformed"
    assert get(400, rows="0")["error"]["code"] == "malformed"


def test_streams_of_long_runs_are_not_read(get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    observe_decoding(monkeypatch, lambda _, events: sizes.append(len(events)))
    get(rows="100")
    assert max(sizes) < 100
