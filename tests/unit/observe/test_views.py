"""Timeline, graph, cost and task logs of executions that were run."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from noetl_core.dsl.parse import parse_playbook
from noetl_core.engine.state import State
from noetl_core.observe.cost import EXECUTION, Meter
from noetl_core.observe.drawing.graph import dot, graph_of, mermaid
from noetl_core.observe.drawing.svg import svg
from noetl_core.observe.logs import task_logs
from noetl_core.observe.timeline import Timeline
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from noetl_core.views.reading.cursor import history
from noetl_core.views.reading.envelopes import expand
from tests.running import run_text
from tests.sim.interleavings import chain, done
from tests.sim.world import World
from tests.waiting import run_until_it_waits

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: views, path: test/views }\nworkflow:\n"
FORK = (
    HEAD
    + """\
  - step: start
    tool: { kind: noop }
    next:
      spec: { mode: inclusive }
      arcs: [{ step: left }, { step: right }, { step: never, when: "{{ false }}" }]
  - step: left
    loop: { in: [1, 2, 3], iterator: i, spec: { mode: parallel, max_in_flight: 2 } }
    tool: { kind: noop, result: "{{ iter.i }}" }
    next: { arcs: [{ step: end }] }
  - step: right
    tool:
      - { name: say, kind: noop, message: "hello <world>" }
      - name: flaky
        kind: python
        args: { attempt: "{{ _attempt }}" }
        code: |
          import sys
          print("out", attempt)
          print("err", attempt, file=sys.stderr)
          if attempt < 2: raise ValueError("not yet")
          result = 1
        spec: { policy: { rules: [{ when: "{{ outcome.status == 'error' }}", then: { do: retry, attempts: 3, delay: 0.01 } }] } }
    next: { arcs: [{ step: end }, { step: start, when: "{{ false }}" }] }
  - step: never
    tool: { kind: noop }
  - step: end
    spec: { join: all }
    tool: { kind: noop }
"""
)


@pytest.fixture(scope="module")
def fork() -> Iterator[tuple[LocalWiring, State]]:
    local, state = run_text(FORK)
    assert state.status == "completed"
    yield local, state
    local.close()


def envelopes(run: tuple[LocalWiring, State]) -> list[dict[str, Any]]:
    return list(expand(history(run[0].store, run[1].execution_id), run[1].execution_id))


# --- timeline -------------------------------------------------------------------------------------------------------------


def test_a_timeline_has_runs_attempts_tasks_and_iterations_in_lanes(fork: tuple[LocalWiring, State]) -> None:
    line = Timeline()
    line.observe(envelopes(fork))
    shown = line.as_dict(now=0)
    spans = shown["spans"]
    runs = {s["step"]: s for s in spans if s["kind"] == "run"}
    assert list(runs) == ["start", "left", "right", "end"]
    assert shown["lanes"] == 2
    assert runs["left"]["lane"] != runs["right"]["lane"]
    ended = runs["right"]["offset_ms"] + runs["right"]["duration_ms"]
    assert runs["end"]["offset_ms"] >= ended - 0.01, "both are rounded"
    assert [s["attempt"] for s in spans if s["name"] == "flaky"] == [1, 2]
    assert [s["status"] for s in spans if s["name"] == "flaky"] == ["error", "ok"]
    iterations = [s for s in spans if s["kind"] == "iteration"]
    assert [s["name"] for s in iterations] == ["[0]", "[1]", "[2]"]
    inner = next(s for s in spans if s["kind"] == "task" and s.get("iteration") == [1])
    assert inner["parent"] == iterations[1]["id"]
    assert all(s["status"] in ("ok", "error") and s["duration_ms"] is not None for s in spans)
    assert all(spans[s["parent"]]["step"] == s["step"] for s in spans if s["parent"] is not None)


def test_details_over_the_limit_are_counted_not_kept(fork: tuple[LocalWiring, State]) -> None:
    line = Timeline(limit=2)
    line.observe(envelopes(fork))
    shown = line.as_dict(now=0)
    assert sum(s["kind"] in ("task", "iteration") for s in shown["spans"]) == 2
    assert shown["omitted"] > 0
    assert sum(s["kind"] == "run" for s in shown["spans"]) == 4


def test_a_waiting_span_has_no_duration_and_names_its_signal() -> None:
    local, _ = LocalWiring(), None
    from noetl_core.control.admit import StartRequest

    started = local.start(StartRequest(playbook=HEAD + "  - { step: start, tool: { kind: callback, signal: go } }\n"))
    run_until_it_waits(local, started.execution_id)
    line = Timeline()
    line.observe(expand(history(local.store, started.execution_id), started.execution_id))
    (wait,) = [s for s in line.as_dict(local.clock.now() / 1e6)["spans"] if s["kind"] == "wait"]
    assert wait["duration_ms"] is None
    assert wait["waits"][0]["signal"] == "go"
    local.close()


# --- graph ----------------------------------------------------------------------------------------------------------------


def graph_of_run(run: tuple[LocalWiring, State]) -> Any:
    local, state = run
    return graph_of(local.control.playbook(state.digest), state)


def test_a_graph_shows_statuses_of_steps_and_firings_of_arcs(fork: tuple[LocalWiring, State]) -> None:
    shown = graph_of_run(fork).as_dict()
    assert {n["step"]: n["status"] for n in shown["nodes"]} == {
        "start": "ok",
        "left": "ok",
        "right": "ok",
        "never": None,
        "end": "ok",
    }
    fired = {(e["source"], e["target"]): e["fired"] for e in shown["edges"]}
    assert fired == {
        ("start", "left"): 1,
        ("start", "right"): 1,
        ("start", "never"): 0,
        ("left", "end"): 1,
        ("right", "end"): 1,
        ("right", "start"): 0,
    }


def test_a_playbook_alone_has_no_states() -> None:
    shown = graph_of(parse_playbook(FORK)).as_dict()
    assert all(n["status"] is None for n in shown["nodes"])
    assert all(e["fired"] is None for e in shown["edges"])


def test_mermaid_and_dot(fork: tuple[LocalWiring, State]) -> None:
    assert mermaid(graph_of(parse_playbook(FORK))).splitlines() == [
        "flowchart TD",
        '  s0(["start<br/>noop"])',
        '  s1["left<br/>noop<br/>loop, parallel"]',
        '  s2["right<br/>noop, python"]',
        '  s3["never<br/>noop"]',
        '  s4["end<br/>noop<br/>join all"]',
        "  s0 --> s1",
        "  s0 --> s2",
        '  s0 -->|"false"| s3',
        "  s1 --> s4",
        "  s2 --> s4",
        '  s2 -->|"false"| s0',
    ]
    assert "class s0,s1,s2,s4 ok" in mermaid(graph_of_run(fork))
    assert '"start" -> "never" [label="false"];' in dot(graph_of(parse_playbook(FORK)))
    assert 'label="left\\nnoop\\nloop, parallel"' in dot(graph_of(parse_playbook(FORK)))


def test_texts_of_a_playbook_stay_texts_in_every_drawing() -> None:
    hostile = HEAD + (
        "  - step: start\n    tool: { kind: noop }\n"
        '    next: { arcs: [{ step: b, when: "{{ workload.x == \'<script>|\\"]\' }}" }] }\n'
        "  - { step: b, tool: { kind: noop } }\n"
    )
    drawn = graph_of(parse_playbook(hostile))
    assert "<script>" not in svg(drawn)
    assert "<script>" not in mermaid(drawn)
    ET.fromstring(svg(drawn))


def test_a_drawing_shows_statuses_as_text_and_has_a_dark_mode() -> None:
    text = HEAD + (
        "  - step: start\n    tool: { kind: noop, result: 1 }\n"
        '    next: { arcs: [{ step: a, when: "{{ event.result > 5 }}" }, { step: b }] }\n'
        "  - { step: a, tool: { kind: noop } }\n  - { step: b, tool: { kind: noop } }\n"
    )
    local, state = run_text(text)
    drawn = graph_of_run((local, state))
    local.close()
    drawing = svg(drawn)
    steps = {
        g.attrib["data-step"]: g for g in ET.fromstring(drawing).iter("{http://www.w3.org/2000/svg}g") if "data-step" in g.attrib
    }
    assert [g.attrib["id"] for g in steps.values()] == ["step-0", "step-1", "step-2"]
    assert steps["start"].attrib["class"] == "step ok" and steps["a"].attrib["class"] == "step"
    assert "✓ ok" in drawing and ">else ×1</text>" in drawing
    assert "@media (prefers-color-scheme:dark)" in drawing
    assert [e.label for e in drawn.edges] == ["event.result > 5", "else ×1"]


def boxes(drawing: str) -> list[tuple[float, float, float, float]]:
    root = ET.fromstring(drawing)
    return [
        tuple(float(r.attrib[k]) for k in ("x", "y", "width", "height"))  # type: ignore[misc]
        for r in root.iter("{http://www.w3.org/2000/svg}rect")
        if r.attrib.get("rx") == "8"
    ]


@pytest.mark.parametrize("width", [1, 3, 12])
def test_steps_of_a_drawing_do_not_overlap_and_lie_inside(width: int) -> None:
    steps = "".join(
        f"  - {{ step: s{n}, tool: {{ kind: noop }}, next: {{ arcs: [{{ step: s{min(n + width, 40)} }}, {{ step: s{n // 2}, when: '{{{{ ctx.x }}}}' }}] }} }}\n"
        for n in range(40)
    )
    drawing = svg(graph_of(parse_playbook(HEAD + steps + "  - { step: s40, tool: { kind: noop } }\n")))
    found = boxes(drawing)
    assert len(found) == 41
    right, bottom = (float(v) for v in ET.fromstring(drawing).attrib["viewBox"].split()[2:])
    for x, y, w, h in found:
        assert x >= 0 and y >= 0 and x + w <= right and y + h <= bottom
    for i, (x1, y1, w1, h1) in enumerate(found):
        for x2, y2, w2, h2 in found[i + 1 :]:
            assert x1 + w1 <= x2 or x2 + w2 <= x1 or y1 + h1 <= y2 or y2 + h2 <= y1


CHAIN = "".join(
    f"  - {{ step: step_{n}, tool: {{ kind: noop }}, next: {{ arcs: [{{ step: step_{n + 1} }}] }} }}\n" for n in range(119)
)


def points(path: str) -> list[tuple[float, float]]:
    """The ends of the pieces of a path's curve."""
    pieces = [[float(n) for n in piece.split()] for piece in re.split("[MLC]", path)[1:]]
    return [(piece[-2], piece[-1]) for piece in pieces]


def test_the_arcs_of_a_long_chain_go_through_no_step() -> None:
    drawing = svg(graph_of(parse_playbook(HEAD + CHAIN + "  - { step: step_119, tool: { kind: noop } }\n")))
    found = boxes(drawing)
    right, bottom = (float(v) for v in ET.fromstring(drawing).attrib["viewBox"].split()[2:])
    assert len(found) == 120
    for path in re.findall("<path class='arc' d='([^']*)'", drawing):
        for (x1, y1), (x2, y2) in pairwise(points(path)):
            assert min(x1, x2) >= 0 and max(x1, x2) <= right and min(y1, y2) >= 0 and max(y1, y2) <= bottom
            for x, y, w, h in found:  # no arc goes through a step
                across = max(x, min(x1, x2)) < min(x + w, max(x1, x2)) or (x1 == x2 and x < x1 < x + w)
                along = max(y, min(y1, y2)) < min(y + h, max(y1, y2)) or (y1 == y2 and y < y1 < y + h)
                assert not (across and along)


def test_steps_and_arcs_in_svg_have_ids_titles_and_links() -> None:
    text = HEAD + (
        "  - step: start\n    tool: { kind: noop }\n    next:\n      arcs:\n"
        f"        - {{ step: a, when: \"{{{{ event.result == '{'long ' * 20}' }}}}\" }}\n        - {{ step: b }}\n"
        "  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: a }] } }\n  - { step: b, tool: { kind: noop } }\n"
    )
    root = ET.fromstring(svg(graph_of(parse_playbook(text))))
    within = {e.attrib["id"]: e for e in root.iter() if "id" in e.attrib}
    assert {"step-0", "step-1", "step-2", "arc-0-0", "arc-0-1", "arc-1-0"} <= set(within)
    name = "{http://www.w3.org/2000/svg}"
    assert within["step-1"].findtext(f"{name}title") == "a\nnoop"
    assert _link(within["step-1"]) == "#step-1"
    arc = within["arc-0-0"]
    assert (arc.attrib["data-source"], arc.attrib["data-target"]) == ("start", "a")
    assert arc.findtext(f"{name}title") == f"start to a: event.result == '{'long ' * 20}'"
    assert _link(arc) == "#step-1"
    assert within["arc-0-1"].findtext(f"{name}title") == "start to b: else"
    assert "".join(within["arc-0-1"].itertext()).endswith("else")


def _link(drawn: ET.Element) -> str | None:
    found = drawn.find("{http://www.w3.org/2000/svg}a")
    return None if found is None else found.get("href")


# --- cost -----------------------------------------------------------------------------------------------------------------


def test_a_plain_step_is_three_write_units_three_requests_two_invocations() -> None:
    steps = "".join(f"  - {{ step: s{n}, tool: {{ kind: noop }}, next: {{ arcs: [{{ step: s{n + 1} }}] }} }}\n" for n in range(5))
    local, state = run_text(HEAD + steps + "  - { step: s5, tool: { kind: noop } }\n")
    meter = Meter(state.execution_id)
    meter.observe(history(local.store, state.execution_id))
    shown = meter.as_dict()
    units = shown["steps"]["s3"]["units"]
    assert (units["dynamodb_write_units"], units["sqs_requests"], units["lambda_invocations"]) == (3, 3, 2)
    assert units["dynamodb_read_units"] == 0.5
    assert 2e-6 < shown["steps"]["s3"]["cost"] < 10e-6
    assert shown["total"]["cost"] == pytest.approx(sum(s["cost"] for s in shown["steps"].values()), rel=1e-3)
    assert shown["steps"][EXECUTION]["runs"] == 0
    local.close()


def test_a_directly_requested_step_takes_two_write_units_and_one_invocation() -> None:
    world = World(asks=True)
    execution_id = world.start(chain()).execution_id
    done(world, execution_id)
    meter = Meter(execution_id)
    meter.observe(history(world.store, execution_id))
    units = meter.as_dict()["steps"]["s3"]["units"]
    assert (units["dynamodb_write_units"], units["sqs_requests"], units["lambda_invocations"]) == (2, 0, 1)


def test_results_by_reference_are_objects_stored_once() -> None:
    big = HEAD + '  - step: start\n    tool: { kind: noop, result: "{{ range(5000) | list }}" }\n'
    local, state = run_text(big)
    meter = Meter(state.execution_id)
    meter.observe(history(local.store, state.execution_id))
    assert meter.as_dict()["steps"]["start"]["units"]["s3_puts"] == 1
    local.close()


# --- logs -----------------------------------------------------------------------------------------------------------------


def test_every_attempt_has_its_log(fork: tuple[LocalWiring, State]) -> None:
    found = list(task_logs(envelopes(fork)))
    assert [(e["task"], e["attempt"], e["status"]) for e in found] == [
        ("say", 1, "ok"),
        ("flaky", 1, "error"),
        ("flaky", 2, "ok"),
    ]
    assert found[0]["stdout"] == "hello <world>"
    assert (found[1]["stdout"], found[1]["stderr"]) == ("out 1", "err 1")
    assert [e["task"] for e in task_logs(envelopes(fork), task="say")] == ["say"]
    assert list(task_logs(envelopes(fork), step="left")) == []
    json.dumps(found)


def test_the_summary_and_the_views_speak_of_the_same_runs(fork: tuple[LocalWiring, State]) -> None:
    summary = executions.summary(fork[0].control, fork[1].execution_id)
    line = Timeline()
    line.observe(envelopes(fork))
    counts: dict[str, int] = {}
    for span in line.as_dict(0)["spans"]:
        if span["kind"] == "run":
            counts[span["step"]] = counts.get(span["step"], 0) + 1
    assert counts == {name: step["runs"] for name, step in summary["steps"].items()}


def test_an_attempt_whose_worker_shut_down_is_released_and_not_lost() -> None:
    from noetl_core.observe.timeline import Timeline

    def event(name: str, second: int, **data: Any) -> dict[str, Any]:
        at = f"2026-01-01T00:00:0{second}.000000Z"
        facts = {"source": "worker", "status": "in_progress", "step": "s", "step_run_id": "r", "entity_id": "r"}
        return {"name": name, "timestamp": at, "event_id": f"1.r.{second}.0", **facts, "data": data}

    line = Timeline(10)
    line.observe(
        [
            event("StepScheduled", 0),
            event("StepStarted", 1, worker="a"),
            event("StepReleased", 2, reason="SIGINT"),
            event("StepStarted", 5, worker="b", takeover=1, asked=True),
            event("StepDone", 6),
        ]
    )
    attempts = [s for s in line.as_dict(1767225606.0)["spans"] if s["kind"] == "attempt"]
    assert [(s["status"], s["duration_ms"]) for s in attempts] == [("released", 1000), ("ok", 1000)]
