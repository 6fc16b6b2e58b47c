"""The layout of steps and arcs: nothing overlaps, arcs begin and end at their steps, and work stays in proportion."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.observe.drawing.graph import Edge, Graph, Node
from noetl_core.observe.drawing.layout import MAX_PASSED, Layout, Places, placed, places_of
from noetl_core.observe.drawing.layouts import MAX_ARCS, Layouts
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from tests.api_requests import ask
from tests.unit.control.workflows import FAN, source

WHEN = "{{ event.result > 5 }}"


def graph(steps: int, arcs: list[tuple[int, int]]) -> Graph:
    nodes = tuple(Node(f"s{n}", n == 0, ("noop",)) for n in range(steps))
    count: dict[int, int] = {}
    edges = []
    for one, other in arcs:
        count[one] = count.get(one, -1) + 1
        edges.append(Edge(f"s{one}", f"s{other}", count[one], WHEN))
    return Graph("t", nodes, tuple(edges))


def laid_out(graph: Graph) -> Any:
    return placed(graph, places_of(graph, 28))


def overlapping(nodes: list[Any]) -> list[tuple[str, str]]:
    by_row: dict[float, list[Any]] = {}
    for node in nodes:
        by_row.setdefault(node["y"], []).append(node)
    rows = (sorted(row, key=lambda n: n["x"]) for row in by_row.values())
    return [(a["step"], b["step"]) for row in rows for a, b in pairwise(row) if a["x"] + a["width"] > b["x"]]


def test_steps_lie_beside_each_other_and_arcs_lead_from_border_to_border() -> None:
    chosen = random.Random(7)
    arcs = [(chosen.randrange(n), n) for n in range(1, 200)] + [(chosen.randrange(200), chosen.randrange(200)) for _ in range(60)]
    drawn = laid_out(graph(200, arcs))
    assert overlapping(drawn["nodes"]) == []
    at = {n["step"]: n for n in drawn["nodes"]}
    for edge in drawn["edges"]:
        one, other = at[edge["source"]], at[edge["target"]]
        assert touches(one, edge["points"][0]) and touches(other, edge["points"][-1])
        assert len(edge["label"]) == 2
    for node in drawn["nodes"]:
        assert node["x"] >= 0 and node["x"] + node["width"] <= drawn["layout"]["width"]
        assert node["y"] >= 0 and node["y"] + node["height"] <= drawn["layout"]["height"]


def touches(node: Any, point: list[float]) -> bool:
    x, y = point
    across = node["x"] - 1 <= x <= node["x"] + node["width"] + 1
    return bool(across and node["y"] - 1 <= y <= node["y"] + node["height"] + 1)


@pytest.mark.nightly
def test_arcs_that_span_a_long_chain_do_not_multiply_the_work() -> None:
    """Each of 10,000 steps has an arc to the last one: places for all of them would be fifty million."""
    steps = 10_000
    arcs = [(n, n + 1) for n in range(steps - 1)] + [(n, steps - 1) for n in range(steps - 2)]
    layout = Layout(graph(steps, arcs), 28)
    assert layout.count <= steps + len(arcs) + MAX_PASSED
    assert layout.layers == steps


def test_a_long_name_makes_no_wide_box() -> None:
    drawn = laid_out(Graph("t", (Node("x" * 10_000, True),), ()))
    assert drawn["nodes"][0]["width"] < 300
    assert drawn["layout"]["layers"] == 1
    assert laid_out(Graph("t", (), ()))["layout"]["layers"] == 1


def test_a_graph_just_after_an_event_is_that_of_then() -> None:
    local = LocalWiring()
    service = Service(lambda: local.control, lambda: b"key")
    execution_id = local.start(StartRequest(playbook=source(FAN))).execution_id
    assert local.run(execution_id)

    def get(what: str, **query: str) -> Any:
        return ask(service, "GET", f"/api/executions/{execution_id}/{what}", query).body

    events = get("events", limit="1000")["events"]
    first = get("graph", at=events[0]["event_id"], layout="1")["nodes"]
    first_places = [tuple(node[key] for key in ("x", "y", "width", "height")) for node in first]
    for event in events[:: max(1, len(events) // 25)]:
        drawn, state = get("graph", at=event["event_id"], layout="1"), get("state", at=event["event_id"])
        assert drawn["status"] == state["status"]
        for node in drawn["nodes"]:
            known = state["steps"].get(node["step"], {"visits": 0, "status": None})
            assert node["runs"] == known["visits"]
            open_runs = [r for r in state["runs"] if r["step"] == node["step"]]
            assert node["status"] == known["status"] or open_runs or node.get("tokens")
        places = [tuple(node[key] for key in ("x", "y", "width", "height")) for node in drawn["nodes"]]
        assert places == first_places, "no step moves while it runs"
    fired = get("graph", at=events[0]["event_id"])["edges"], get("graph")["edges"]
    assert [e["fired"] for e in fired[0]] == [0, 0, 0] and [e["fired"] for e in fired[1]] == [1, 1, 1]
    assert ask(service, "GET", f"/api/executions/{execution_id}/graph", {"format": "svg", "layout": "1"}).status == 400
    assert ask(service, "GET", f"/api/executions/{execution_id}/graph", {"at": f"{execution_id}.control.99.0"}).status == 400
    local.close()


def test_a_layout_is_computed_once_for_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def noted(drawn: Graph, most: int) -> Places:
        made.append(drawn.title)
        return places_of(drawn, most)

    monkeypatch.setattr("noetl_core.observe.drawing.layout.places_of", noted)
    text = source(FAN) + "# a text that no other test draws\n"
    local = LocalWiring()
    service = Service(lambda: local.control, lambda: b"key")
    ids = [local.start(StartRequest(playbook=text)).execution_id for _ in range(2)]
    asked = [ask(service, "GET", f"/api/executions/{each}/graph", {"layout": "1"}).body["nodes"] for each in (*ids, *ids)]
    texts = ask(service, "POST", "/api/playbooks/graph", {"layout": "1"}, body=text).body["nodes"]
    assert made == ["t"] and {(n["step"], n["x"], n["y"]) for each in (*asked, texts) for n in each} == {
        (n["step"], n["x"], n["y"]) for n in texts
    }
    local.close()


@pytest.mark.nightly
def test_a_process_keeps_the_layouts_that_were_asked_for_last() -> None:
    kept = Layouts()
    made: list[str] = []
    half = places_of(graph(2, [(0, 1)] * (MAX_ARCS // 2)), 28)

    for digest in "abacab":

        def make(digest: str = digest) -> Places:
            made.append(digest)
            return half

        kept(digest, make)
    assert made == ["a", "b", "c", "b"]


@pytest.mark.parametrize("layout", ["0", "1"])
def test_a_text_that_is_not_registered_has_a_graph(layout: str) -> None:
    local = LocalWiring()
    service = Service(lambda: local.control, lambda: b"key")
    drawn = ask(service, "POST", "/api/playbooks/graph", {"layout": layout}, body=source(FAN)).body
    assert [n["step"] for n in drawn["nodes"]] == ["start", "a", "b", "map"]
    assert ("layout" in drawn) is (layout == "1") is all("x" in n for n in drawn["nodes"])
    wrong = ask(service, "POST", "/api/playbooks/graph", body=source(FAN).replace('"noop"', '"nope"'))
    assert (wrong.status, wrong.body["error"]["code"]) == (422, "invalid_playbook")
    assert ask(service, "GET", "/api/playbooks").body["playbooks"] == []
    local.close()
