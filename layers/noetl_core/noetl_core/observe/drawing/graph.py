"""Converts a playbook to a graph of its steps and arcs: as data, as Mermaid, as DOT (`observe.drawing.svg` draws it).

For an execution, it also shows the status of each step and arc.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from noetl_core.dsl.model import Playbook, Step
from noetl_core.engine.state import State
from noetl_core.engine.step_status import Standing, standings
from noetl_core.observe.counts import iterations
from noetl_core.values.frozen import frozen

FILL = {
    "ok": "#d5efe6",
    "error": "#fbdccb",
    "running": "#d3e6f5",
    "waiting": "#fdf0c8",
    "skipped": "#e9e9ec",
}
"""Colours of steps by status, after Okabe and Ito: readers with colour blindness can distinguish them too."""
LINE = {"ok": "#00795a", "error": "#c04a00", "running": "#0063a0", "waiting": "#8a6a00", "skipped": "#77777f"}
MARKS = {"ok": "✓", "error": "✗", "running": "▶", "waiting": "◷", "skipped": "–"}
"""Symbols before the word of a status."""
PLAIN_FILL, PLAIN_LINE = "#ffffff", "#55555f"
LABEL = 40
"""Maximum number of characters of an arc's condition that are shown."""


@frozen
class Node:
    """A step. `lines` are the texts below its name; `status` is None without an execution, or when the step was not reached."""

    step: str
    entry: bool = False
    lines: tuple[str, ...] = ()
    status: str | None = None
    runs: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Return the name that is drawn: of a step, or the number of the branches that the node stands for."""
        branches = self.facts.get("branches")
        return self.step if branches is None else f"{branches} branches"


@frozen
class Edge:
    """An arc. `fired` is None without an execution."""

    source: str
    target: str
    arc: int
    when: str | None = None
    fired: int | None = None
    otherwise: bool = False
    """True if it has no condition and is the last alternative of an exclusive router."""
    of: tuple[tuple[str, int], ...] = ()
    """The arcs that it stands for, by step and number, if branches are folded."""

    @property
    def condition(self) -> str:
        """Return the condition without its braces, or `else`; empty if there is none."""
        return _bare(self.when) if self.when is not None else "else" if self.otherwise else ""

    @property
    def label(self) -> str:
        words = [_short(self.condition)] if self.condition else []
        return " ".join([*words, f"×{self.fired}"] if self.fired else words)


@frozen
class Graph:
    """Steps in the order of the text, and their arcs."""

    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return `{title, nodes: [{step, entry, status, runs, ...}], edges: [{source, target, arc, when, fired}]}`."""
        return {
            "title": self.title,
            "nodes": [{"step": n.step, "entry": n.entry, "status": n.status, "runs": n.runs, **n.facts} for n in self.nodes],
            "edges": [
                {"source": e.source, "target": e.target, "arc": e.arc, "when": e.when, "fired": e.fired}
                | ({"of": [*map(list, e.of)]} if e.of else {})
                for e in self.edges
            ],
        }


def graph_of(playbook: Playbook, state: State | None = None) -> Graph:
    """Return the graph of `playbook`; with an execution's `state`, also its progress."""
    found = None if state is None else standings(state)
    stands = None if found is None else {step.name: found.get(step.name, Standing()) for step in playbook.steps}
    nodes, edges = [], list[Edge]()
    for step in playbook.steps:
        stand = None if stands is None else stands[step.name]
        nodes.append(_node(playbook, step, stand))
        guarded = False  # by a condition of an arc before, in an exclusive router
        for arc in step.router.arcs if step.router is not None else ():
            fired = None if stand is None else stand.fired(arc.index)
            edges.append(Edge(step.name, arc.step, arc.index, arc.when, fired, guarded and arc.when is None))
            guarded = guarded or (arc.when is not None and step.router is not None and step.router.mode == "exclusive")
    return Graph(playbook.name, tuple(nodes), tuple(edges))


def _node(playbook: Playbook, step: Step, stands: Standing | None) -> Node:
    kinds = list(dict.fromkeys(t.kind for t in step.tasks))
    lines = [", ".join(kinds)] if kinds else []
    facts: dict[str, Any] = {"kinds": kinds, "tasks": len(step.tasks)}
    if step.loop is not None:
        facts["loop"] = step.loop.mode
        cursor = step.loop.cursor
        if cursor is not None:
            facts["cursor"] = cursor.kind
        lines.append(f"loop, {step.loop.mode}" + ("" if cursor is None else f", rows of {cursor.kind}"))
    if step.join is not None:
        facts["join"] = step.join.mode if step.join.mode != "count" else {"count": step.join.count}
        lines.append(f"join {step.join.mode}")
    status, runs = None, 0
    if stands is not None:
        status, known = stands.status, stands.known
        runs = known.visits if known is not None else 0
        if status is not None:
            lines.append(f"{status}, {runs} runs" if runs > 1 else status)
        if known is not None and known.loop:
            facts["counts"] = known.loop
            ended, _, failed = iterations(known.loop).partition(", ")
            lines.append(f"{ended} iterations" + (f", {failed}" if failed else ""))
        if stands.tokens:
            facts["tokens"] = len(stands.tokens)
    return Node(step.name, step.name == playbook.entry_step, tuple(lines), status, runs, facts)


def mermaid(graph: Graph) -> str:
    """Return the graph as Mermaid (`flowchart TD`)."""
    ids = {n.step: f"s{i}" for i, n in enumerate(graph.nodes)}
    out = ["flowchart TD"]
    for node in graph.nodes:
        text = "<br/>".join(_escape(t) for t in (node.label, *node.lines))
        shape = ('(["', '"])') if node.entry else ('["', '"]')
        out.append(f"  {ids[node.step]}{shape[0]}{text}{shape[1]}")
    for edge in graph.edges:
        arrow = "-->" if edge.fired is None or edge.fired else "-.->"
        label = f'|"{_escape(edge.label)}"|' if edge.label else ""
        out.append(f"  {ids[edge.source]} {arrow}{label} {ids[edge.target]}")
    for status in sorted({n.status for n in graph.nodes if n.status}):
        members = ",".join(ids[n.step] for n in graph.nodes if n.status == status)
        out.append(f"  classDef {status} fill:{FILL[status]},stroke:{LINE[status]}")
        out.append(f"  class {members} {status}")
    return "\n".join(out) + "\n"


def dot(graph: Graph) -> str:
    """Return the graph as DOT (Graphviz)."""
    out = [
        f"digraph {_quoted(graph.title)} {{",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname=Helvetica];',
    ]
    for node in graph.nodes:
        facts = [f"label={_quoted(chr(10).join((node.label, *node.lines)))}"]
        if node.status:
            facts += [f'fillcolor="{FILL[node.status]}"', f'color="{LINE[node.status]}"']
        if node.entry:
            facts.append("penwidth=2")
        out.append(f"  {_quoted(node.step)} [{', '.join(facts)}];")
    for edge in graph.edges:
        facts = [f"label={_quoted(edge.label)}"] if edge.label else []
        if edge.fired == 0:
            facts.append("style=dashed")
        out.append(f"  {_quoted(edge.source)} -> {_quoted(edge.target)}{' [' + ', '.join(facts) + ']' if facts else ''};")
    return "\n".join([*out, "}"]) + "\n"


def _bare(when: str) -> str:
    """Return a condition without its braces, on one line."""
    return " ".join(re.sub(r"^\{\{\s*(.*?)\s*\}\}$", r"\1", when.strip(), flags=re.DOTALL).split())


def _short(text: str) -> str:
    """Return a condition cut to the length of a label."""
    return text if len(text) <= LABEL else text[: LABEL - 1] + "…"


def _escape(text: str) -> str:
    """Escape a quoted Mermaid text: characters of its markup become character entities."""
    return "".join(f"#{ord(c)};" if c in '"<>&#`|[]{}' else c for c in text)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
