"""The algorithms on graphs, against what follows from their definitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from noetl_core.dsl.lint.graph import Dominators, components, is_cycle, reachable, reversed_graph
from tests.call_counts import calls_of


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    size = draw(st.integers(1, 8))
    return [draw(st.lists(st.integers(0, size - 1), max_size=4)) for _ in range(size)]


@given(graphs())
def test_nodes_of_a_component_reach_each_other_and_no_others_both_ways(graph: list[list[int]]) -> None:
    found = components(graph)
    assert sorted(node for c in found for node in c) == list(range(len(graph)))
    place = {node: i for i, c in enumerate(found) for node in c}
    for a in range(len(graph)):
        for b in range(len(graph)):
            both = b in reachable(graph, [a]) and a in reachable(graph, [b])
            assert (place[a] == place[b]) == both
            if b in graph[a]:
                assert place[b] <= place[a]
    for c in found:
        assert is_cycle(graph, c) == any(node in reachable(graph, graph[node]) for node in c)


@given(graphs())
def test_a_node_dominates_another_when_nothing_gets_there_without_it(graph: list[list[int]]) -> None:
    tree = Dominators(graph, 0)
    inside = reachable(graph, [0])
    assert set(tree.above) == inside
    for top in inside:
        without = [[] if i == top else [t for t in targets if t != top] for i, targets in enumerate(graph)]
        left = set() if top == 0 else reachable(without, [0])
        for node in range(len(graph)):
            assert tree.dominates(top, node) == (node in inside and (node == top or node not in left))
    for a in inside:
        for b in inside:
            shared = [n for n in inside if tree.dominates(n, a) and tree.dominates(n, b)]
            assert all(tree.dominates(n, tree.common(a, b)) for n in shared)


@given(graphs())
def test_reversing_twice_changes_no_edge(graph: list[list[int]]) -> None:
    twice = reversed_graph(reversed_graph(graph))
    assert [sorted(targets) for targets in twice] == [sorted(targets) for targets in graph]


def test_ten_thousand_nodes_are_no_matter() -> None:
    def analysed(nodes: int) -> None:
        chain = [[i + 1, i // 2] for i in range(nodes - 1)] + [[0]]
        assert len(components(chain)) == 1
        assert Dominators([[i + 1] for i in range(nodes - 1)] + [[]], 0).dominates(nodes // 2, nodes - 10)

    assert calls_of(lambda: analysed(10_000)) < 11 * calls_of(lambda: analysed(1_000))
