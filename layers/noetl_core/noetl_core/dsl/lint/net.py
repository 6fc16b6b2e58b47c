"""The playbook as a Petri net: steps as nodes, and arcs with the known conditions of their firing."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any

from noetl_core.dsl.lint.graph import Dominators, components, is_cycle, reachable, reversed_graph
from noetl_core.dsl.lint.guards import UNDEFINED, Facts, Guards
from noetl_core.dsl.model import Arc, Playbook, Step
from noetl_core.values.frozen import frozen


@frozen
class Boundary:
    """One way in which a run of a step may end, with the content of its `event` (resolutions 3 and 4)."""

    name: str
    failed: bool
    facts: Facts = field(repr=False)


def boundaries(step: Step) -> tuple[Boundary, ...]:
    """Return how runs of `step` may end. A step without tasks can fail only by its admission or a time limit."""
    done = "loop.done" if step.loop is not None else "step.done"
    out = [Boundary(done, False, _facts(step, done, "success") | {("event", "error"): UNDEFINED})]
    refused = step.admission is not None and step.admission.on_deny == "fail"
    if step.tasks or refused or step.timeout_s is not None or step.deadline_s is not None:
        out.append(Boundary("step.failed", True, _facts(step, "step.failed", "error")))
    return tuple(out)


def _facts(step: Step, name: str, status: str) -> dict[tuple[str, ...], Any]:
    return {("event", "name"): name, ("event", "status"): status, ("event", "step"): step.name}


class Net:
    """The graph of steps. The rule that finds dead arcs fills `dead`; later rules see the rest."""

    def __init__(self, playbook: Playbook, guards: Guards) -> None:
        self.playbook = playbook
        self.guards = guards
        self.steps = playbook.steps
        self.number = {step.name: i for i, step in enumerate(playbook.steps)}
        self.entry = self.number[playbook.entry_step]
        self.dead: set[tuple[int, int]] = set()
        """Arcs, as (step, index), that never fire."""

    def arcs(self, step: int) -> tuple[Arc, ...]:
        router = self.steps[step].router
        return router.arcs if router is not None else ()

    def live_arcs(self, step: int) -> tuple[Arc, ...]:
        return tuple(a for a in self.arcs(step) if (step, a.index) not in self.dead)

    def inclusive(self, step: int) -> bool:
        router = self.steps[step].router
        return router is not None and router.mode == "inclusive"

    @cached_property
    def graph(self) -> list[list[int]]:
        """The graph with all arcs."""
        return [[self.number[a.step] for a in self.arcs(i)] for i in range(len(self.steps))]

    @cached_property
    def live(self) -> list[list[int]]:
        """The graph with arcs that may fire. Use it only after dead arcs are known."""
        return [[self.number[a.step] for a in self.live_arcs(i)] for i in range(len(self.steps))]

    @cached_property
    def before(self) -> list[list[int]]:
        """The sources of arcs that may fire."""
        return reversed_graph(self.live)

    @cached_property
    def reached(self) -> set[int]:
        """The steps that the entry step leads to, over all arcs."""
        return reachable(self.graph, [self.entry])

    @cached_property
    def dominators(self) -> Dominators:
        return Dominators(self.live, self.entry)

    @cached_property
    def cycles(self) -> list[list[int]]:
        """The components of the net that contain a cycle."""
        return [c for c in components(self.live) if is_cycle(self.live, c)]

    def fires(self, step: int, arc: Arc, boundary: Boundary) -> bool | None:
        """Return whether an arc's own guard lets it fire (resolution 11); None when it depends."""
        if arc.when is None:
            return not boundary.failed or self.playbook.executor.unconditional_on_failure
        return self.guards.holds(arc.when, boundary.facts)

    def together(self, step: int, a: Arc, b: Arc) -> bool:
        """Return whether two arcs of one inclusive router may fire on the same boundary, as far as is known."""
        return not self.guards.exclude(a.when, b.when) and any(
            self.fires(step, a, bound) is not False and self.fires(step, b, bound) is not False
            for bound in boundaries(self.steps[step])
        )
