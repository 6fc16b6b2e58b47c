"""Translates a state machine to a playbook, and the states that need one of their own to further playbooks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from noetl_import import graph
from noetl_import.findings import Finding, Notes
from noetl_import.flow import Flow, assigned, follow, ordered
from noetl_import.graph import Steps
from noetl_import.maps import processor_of
from noetl_import.names import NOW, Computed, Machine, Names
from noetl_import.pipeline import pipeline
from noetl_import.states import Builder, State
from noetl_import.units import Exit, Labels, Scope, Unit
from noetl_import.values import Arr, Const, Doc, Expr, stored

LASTING: Final = re.compile(r"\.waitForTaskToken|'(SecondsPath|Timestamp|TimestampPath)'|'Seconds': ('|\d{6})")
"""Found in definitions whose executions may take longer than the 30 days that an execution has by default."""
STARTED: Final = "execution_start"
"""The step that records the time of the start, for definitions that read it."""
YEAR_S: Final = 31_536_000
COMPOUND: Final = frozenset({"Parallel", "Map"})


@dataclass
class Written:
    """A playbook: its document, and the findings of each step, by its name."""

    document: dict[str, Any]
    notes: dict[str, list[Finding]]


@dataclass
class Translation:
    """All playbooks of a state machine by path."""

    playbooks: dict[str, Written] = field(default_factory=dict)
    places: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By JSON pointer of a state: the path of the playbook, and the name STEP or STEP.TASK there."""


@dataclass
class Playbook:
    """Translates one machine to one playbook. `root` is its input; `passed` what the calling playbook must pass with it."""

    machine: Machine
    into: Translation
    path_of: Callable[[str], str]
    root: Doc = field(default_factory=lambda: Expr("workload"))
    is_child: bool = False
    labels: Labels = field(default_factory=Labels)
    named: dict[str, str] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)

    def translated(self, definition: State, pointer: str) -> None:
        """Translate a definition, and add the playbook to the translation."""
        states, start = definition["States"], definition["StartAt"]
        builder = self._builder(Scope(True), states, pointer, self.labels)
        flow, steps = self._graph(builder, states, start, self.root, pointer)
        if "execution_start" in self.passed and not self.is_child:
            steps.steps.insert(0, _started(steps.steps[0]["step"]))
        document: dict[str, Any] = {
            "apiVersion": "noetl.io/v2",
            "kind": "Playbook",
            "metadata": {"name": self.machine.name, "path": self.machine.path},
        }
        if definition.get("Comment"):
            document["metadata"]["description"] = definition["Comment"]
        spec: dict[str, Any] = {"strict": True, **self._result(flow, steps)}
        if any(step["step"] == "start" for step in steps.steps[1:]):
            spec["entry_step"] = steps.steps[0]["step"]
        lifecycle = {"timeout_s": definition["TimeoutSeconds"]} if "TimeoutSeconds" in definition else {}
        if LASTING.search(str(definition)):
            lifecycle["lifetime_s"] = YEAR_S
        if lifecycle:
            spec["policy"] = {"lifecycle": lifecycle}
        document |= {"executor": {"spec": spec}, "workflow": steps.steps}
        self.into.playbooks[self.machine.path] = Written(document, steps.notes)

    def _result(self, flow: Flow, steps: Steps) -> dict[str, Any]:
        """Return the result of the execution: the document with which the machine ends."""
        ends = flow.ends()
        if all(_own(unit, exit_) for unit in flow.units.values() for exit_ in unit.exits if exit_ in ends):
            return {}
        if len({exit_.doc.text() for exit_ in ends}) == 1:
            return {"result": ends[0].doc.yaml()}
        for unit in flow.units.values():
            last = next((each["name"] for each in reversed(unit.after)), f"{unit.name}_join" if unit.branches else unit.name)
            for exit_ in unit.exits:
                if exit_ in ends and not unit.fails:
                    step = next(each for each in steps.steps if each["step"] == last)
                    step["set_ctx"] = {"output": exit_.doc.yaml()}
        return {"result": "{{ ctx.output }}"}

    # --- graphs -----------------------------------------------------------------------------------------------------------

    def _builder(self, scope: Scope, states: Mapping[str, State], pointer: str, labels: Labels) -> Builder:
        def label(state: str) -> str:
            place = f"{pointer}/{state}"
            if place not in self.named:
                self.named[place] = labels.of(state)
            return self.named[place]

        variables = {name: scope.variable(name) for name in assigned(states)}
        return Builder(
            self.machine, scope, label, self.path_of, self._child, self._iteration, self._execution_input, self._execution_id,
            self._execution_start,
            variables=variables,
        )  # fmt: skip

    def _execution_input(self) -> Doc:
        self.passed.add("execution_input")
        return Expr("workload.execution_input") if self.is_child else self.root

    def _execution_start(self) -> Doc:
        self.passed.add("execution_start")
        return Expr("workload.execution_start" if self.is_child else f"steps.{STARTED}.result.now", type="text")

    def _execution_id(self) -> Doc:
        self.passed.add("execution_id")
        return Expr("workload.execution_id", type="text") if self.is_child else Expr("execution_id", type="text")

    def _graph(
        self, builder: Builder, states: Mapping[str, State], start: str, doc: Doc, pointer: str,
        end: str = "", finish: Callable[[Flow], None] = lambda flow: None,
    ) -> tuple[Flow, Steps]:  # fmt: skip
        """Return the flow of a machine and its steps. `finish` may change the flow before its steps are written."""
        branches: dict[str, list[Steps]] = {}

        def join(name: str, state: State, unit: Unit, doc: Doc, notes: Notes) -> None:
            branches[unit.name] = []
            results = [self._branch(builder, unit, n, name, pointer, branches[unit.name]) for n in range(len(unit.branches))]
            joined: Doc = Arr(tuple(results))
            unit.result = joined
            if not state.get("Next") and not end:
                joined = stored(joined, builder.scope.result(f"{unit.name}_join"))
            unit.exits = [builder.joined(unit, name, state, doc, notes, joined)]

        flow = follow(builder, states, start, doc, pointer, join)
        finish(flow)
        steps = graph.write(flow, states, builder, doc, end)
        for unit in flow.units.values():
            if unit.branches:
                _fan_out(steps, unit, branches[unit.name])
        for name, unit in flow.units.items():
            place = unit.name if len(unit.tasks) < 2 else f"{unit.name}.{unit.tasks[0]['name']}"
            self.into.places[flow.notes[name].pointer] = (self.machine.path, place)
        return flow, steps

    def _branch(self, outer: Builder, unit: Unit, number: int, name: str, pointer: str, into: list[Steps]) -> Doc:
        """Build one branch of a Parallel state, and return the document with which it ends."""
        branch, place = unit.branches[number], f"{pointer}/States/{name}/Branches/{number}"
        scope = Scope(True, f"{unit.name}_{number + 1}")
        builder = self._builder(scope, branch["States"], place, self.labels)
        builder = replace(builder, variables={**outer.variables, **builder.variables}, item=outer.item)
        kept, docs = f"{scope.prefix}_result", list[Doc]()

        def finish(flow: Flow) -> None:
            ends = flow.ends()
            docs.extend(exit_.doc for exit_ in ends[:1])
            if len({exit_.doc.text() for exit_ in ends}) > 1:
                docs[:] = [scope.stored(kept)]
                for exit_ in ends:
                    exit_.store(kept)

        assert unit.branch_input is not None
        _, steps = self._graph(
            builder, branch["States"], branch["StartAt"], unit.branch_input, place, f"{unit.name}_join", finish
        )
        into.append(steps)
        return docs[0] if docs else Const(None)

    # --- playbooks of their own -------------------------------------------------------------------------------------------

    def _child(self, name: str, state: State, doc: Doc, pointer: str) -> tuple[dict[str, Any], Doc]:
        definition = {"StartAt": name, "States": {name: state}}
        return self._called(name, definition, doc, pointer.rpartition("/States/")[0]), Expr("result")

    def _called(self, name: str, definition: State, doc: Doc, pointer: str) -> dict[str, Any]:
        """Return a task that calls a playbook for a definition."""
        path = f"{self.machine.path}/{Labels().of(name)}"
        child = Playbook(
            replace(self.machine, name=path.rpartition("/")[2], path=path), self.into, self.path_of, Expr("workload.input"), True
        )  # fmt: skip
        child.translated(definition, pointer)
        payload = {"input": doc.yaml()}
        values = {
            "execution_input": self._execution_input,
            "execution_id": self._execution_id,
            "execution_start": self._execution_start,
        }
        payload |= {key: values[key]().yaml() for key in sorted(child.passed)}
        return {"kind": "playbook", "path": path, "payload": payload}

    def _iteration(self, name: str, state: State, element: Doc, notes: Notes, names: Names) -> tuple[list[dict[str, Any]], Doc]:
        """Return the tasks of one iteration of a Map."""
        processor = processor_of(state)
        key = "ItemProcessor" if "ItemProcessor" in state else "Iterator"
        states, pointer = processor["States"], f"{notes.pointer}/{key}"
        if any(states[each]["Type"] in COMPOUND for each in ordered(states, processor["StartAt"])):
            return [self._called(name, processor, element, pointer)], Expr("result")
        inner = Builder(**{**self._builder(Scope(False), states, pointer, Labels()).__dict__, "item": names.item})
        inner.variables = {**names.variables, **inner.variables}
        flow = follow(inner, states, processor["StartAt"], element, pointer, _no_branches)
        tasks = pipeline(flow, inner, element)
        for each, unit in flow.units.items():
            notes.found += [finding for finding in flow.notes[each].found if finding not in notes.found]
            step = self.named[f"{notes.pointer.rpartition('/States/')[0]}/{name}"]
            self.into.places[flow.notes[each].pointer] = (self.machine.path, f"{step}.{unit.tasks[0].get('name', unit.name)}")
        return tasks, Expr("result")


def _started(first: str) -> dict[str, Any]:
    now = Computed("")
    now.add(NOW)
    (task,) = now.tasks(STARTED)
    return {"step": task.pop("name"), "tool": task, "next": {"arcs": [{"step": first}]}}


def _no_branches(name: str, state: State, unit: Unit, doc: Doc, notes: Notes) -> None:
    raise AssertionError(f"{name} has branches within a pipeline")


def _own(unit: Unit, exit_: Exit) -> bool:
    """Return True if a way out ends with the result of its step as it is."""
    return not unit.branches and not unit.after and unit.result is not None and exit_.doc == unit.result


def _leads_to(step: Mapping[str, Any], target: str) -> bool:
    return any(arc["step"] == target for arc in step.get("next", {}).get("arcs", ()))


def _fan_out(steps: Steps, unit: Unit, branches: list[Steps]) -> None:
    """Replace the step of a Parallel state by its fan-out, its branches and its join."""
    place = next(n for n, step in enumerate(steps.steps) if step["step"] == unit.name)
    main = steps.steps[place]
    arcs = [{"step": branch.steps[0]["step"]} for branch in branches]
    fan = {key: main[key] for key in ("step", "desc") if key in main} | {"next": {"spec": {"mode": "inclusive"}, "arcs": arcs}}
    inner = [step for branch in branches for step in branch.steps]
    join: dict[str, Any] = {"step": f"{unit.name}_join", "spec": {"join": "all"}}
    if "next" in main:
        join["next"] = main["next"]
    else:
        assert unit.result is not None
        elements = unit.result.elements if isinstance(unit.result, Arr) else ()
        join["tool"] = {"kind": "noop", "result": [each.yaml() for each in elements]}
    reached = any(_leads_to(step, f"{unit.name}_join") for step in inner)
    steps.steps[place : place + 1] = [fan, *inner, *([join] if reached else [])]
    for branch in branches:
        steps.notes |= branch.notes
