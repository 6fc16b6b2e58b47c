"""Parallel branches of a large graph are one node each: failed and open ones stay, and no arc is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from noetl_core.control.admit import StartRequest
from noetl_core.observe.drawing.folding import BRANCHES, KEPT, LARGE, folded
from noetl_core.observe.drawing.graph import Edge, Graph, Node
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from tests.api_requests import ask
from tests.unit.control.workflows import source


def fan(branches: int, status: dict[str, str] | None = None) -> Graph:
    """start -> b0..bn -> c0..cn -> end, and b0..bn -> alert; `end` and `alert` go on."""
    known = status or {}
    names = ["start", *(f"{kind}{n}" for n in range(branches) for kind in "bc"), "end", "alert", "last"]
    nodes = tuple(Node(name, name == "start", status=known.get(name, "ok"), runs=1) for name in names)
    edges = [Edge("start", f"b{n}", n, fired=1) for n in range(branches)]
    edges += [Edge(f"b{n}", f"c{n}", 0, fired=1) for n in range(branches)]
    edges += [Edge(f"b{n}", "alert", 1, fired=0) for n in range(branches)]
    edges += [Edge(f"c{n}", "end", 0, fired=1) for n in range(branches)]
    edges += [Edge("end", "last", 0, fired=1), Edge("alert", "last", 0, fired=0)]
    return Graph("t", nodes, tuple(edges))


def names(graph: Graph) -> list[str]:
    return [node.step for node in graph.nodes]


def test_branches_that_lead_to_the_same_steps_are_one_node() -> None:
    drawn = folded(fan(100))
    assert names(drawn) == ["start", "+start", "end", "alert", "last"]
    node = drawn.nodes[1]
    assert (node.facts["branches"], len(node.facts["steps"]), node.runs) == (100, 200, 200)
    assert node.label == "100 branches"
    arcs = {(e.source, e.target): e for e in drawn.edges}
    assert arcs["start", "+start"].fired == 100 and len(arcs["start", "+start"].of) == 100
    assert arcs["+start", "end"].fired == 100 and arcs["+start", "alert"].fired == 0
    assert ("end", "last") in arcs and len(drawn.edges) == 5


def test_small_graphs_and_few_branches_stay() -> None:
    small = fan((LARGE - 5) // 2)
    assert folded(small) is small
    few = fan(BRANCHES - 1)
    chain = [Node(f"n{n}") for n in range(LARGE)]
    wide = Graph("t", (*few.nodes, *chain), few.edges)
    assert folded(wide) is wide


def test_failed_and_open_branches_are_kept_but_not_all() -> None:
    drawn = folded(fan(50, {"c7": "error", "b9": "running"}))
    assert {"b7", "c7", "b9", "c9"} <= set(names(drawn)) and len(drawn.nodes) == 9
    assert drawn.nodes[names(drawn).index("+start")].status == "ok"
    failed = folded(fan(50, {f"b{n}": "error" for n in range(50)}))
    assert len(failed.nodes) == 5 + 2 * KEPT
    assert failed.nodes[names(failed).index("+start")].lines == ("94 steps", "error", "47 failed")


def test_naming_a_branch_step_or_its_fork_unfolds_branches() -> None:
    assert {"b3", "c3", "+start"} <= set(names(folded(fan(50), ["c3"])))
    whole = fan(50)
    assert folded(whole, ["start"]) is whole


def test_a_step_of_that_name_is_no_fold() -> None:
    graph = fan(50)
    odd = replace(graph, nodes=(*graph.nodes, Node("+start")))
    assert len(set(names(folded(odd)))) == len(folded(odd).nodes)


def test_the_api_folds_branches_and_lays_out_the_remaining_steps() -> None:
    steps: list[dict[str, Any]] = [
        {"step": "start", "tool": {"kind": "noop"}, "next": {"spec": {"mode": "inclusive"}, "arcs": [{"step": f"b{n}"} for n in range(45)]}},
        *({"step": f"b{n}", "tool": {"kind": "noop"}, "next": {"arcs": [{"step": "end"}]}} for n in range(45)),
        {"step": "end", "tool": {"kind": "noop"}, "spec": {"join": "all"}},
    ]  # fmt: skip
    local = LocalWiring()
    service = Service(lambda: local.control, lambda: b"key")
    execution_id = local.start(StartRequest(playbook=source(steps))).execution_id

    def get(**query: str) -> Any:
        return ask(service, "GET", f"/api/executions/{execution_id}/graph", query).body

    assert len(get(layout="1")["nodes"]) == 47
    drawn = get(layout="1", fold="1")
    assert [node["step"] for node in drawn["nodes"]] == ["start", "+start", "end"]
    assert drawn["nodes"][1]["branches"] == 45 and drawn["nodes"][1]["steps"][0]["step"] == "b0"
    assert drawn["layout"]["width"] < 600 and all("x" in node for node in drawn["nodes"])
    assert len(get(layout="1", fold="1", unfold="b3,b4")["nodes"]) == 5
    assert len(get(layout="1", fold="1", unfold="start")["nodes"]) == 47
    text = ask(service, "GET", f"/api/executions/{execution_id}/graph", {"format": "svg", "fold": "1"}).text()
    assert "45 branches" in text and "b17" not in text
    local.close()
