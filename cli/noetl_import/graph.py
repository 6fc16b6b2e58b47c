"""Writes the states of a machine as the steps of a playbook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl_import.errors import grouped
from noetl_import.findings import Finding
from noetl_import.flow import Flow
from noetl_import.states import Builder, State
from noetl_import.units import Exit, Unit, task_named
from noetl_import.values import Doc

Step = dict[str, Any]


@dataclass
class Steps:
    """Steps in their order; `notes` has the findings of a step, by its name."""

    steps: list[Step] = field(default_factory=list)
    notes: dict[str, list[Finding]] = field(default_factory=dict)


def entry(unit: Unit) -> str:
    return str(unit.before[0]["name"]) if unit.before else unit.name


def write(flow: Flow, states: Mapping[str, State], builder: Builder, doc: Doc, end: str = "") -> Steps:
    """Return the steps of a flow. Ways that end the machine lead to the step `end`, if there is one."""
    found = Steps()
    units = flow.units
    entries = {state: entry(unit) for state, unit in units.items()}
    if flow.stores_input:
        first = next(iter(units.values()))
        arc = {"step": entry(first), "set_ctx": {builder.scope.data: doc.yaml()}}
        found.steps.append({"step": f"{first.name}_begin", "next": {"arcs": [arc]}})
    for name, unit in units.items():
        steps = list(_steps(unit, entries, end))
        described = _description(name, unit.name, states[name].get("Comment"))
        found.notes[steps[0]["step"]] = flow.notes[name].found
        for step in steps:
            if step["step"] == unit.name and described:
                step["desc"] = described
        found.steps += steps
    return found


def _description(state: str, step: str, comment: str | None) -> str:
    same = "".join(filter(str.isalnum, state)).lower() == step.replace("_", "")
    return ": ".join(part for part in ("" if same else state, comment or "") if part)


def _steps(unit: Unit, entries: Mapping[str, str], end: str) -> Iterable[Step]:
    chain = [each["name"] for each in unit.before] + [unit.name]
    for task, following in zip(unit.before, chain[1:], strict=True):
        yield {"step": task["name"], "tool": _unnamed(task), "next": {"arcs": [{"step": following}]}}
    catches = [_arc(exit_, entries, end) for exit_ in unit.exits if exit_.error is not None]
    passed = [_arc(exit_, entries, end) for exit_ in unit.exits if exit_.error is None and (exit_.target or end)]
    behind = [each["name"] for each in unit.after]
    first = [{"step": behind[0]}] if behind else passed
    yield _main(unit, [*catches, *first])
    for task, following in zip(unit.after, [*behind[1:], ""], strict=False):
        arcs = [{"step": following}] if following else passed
        yield {"step": task["name"], "tool": _unnamed(task), **({"next": {"arcs": arcs}} if arcs else {})}


def _main(unit: Unit, arcs: list[Step]) -> Step:
    step: Step = {"step": unit.name}
    if unit.loop:
        step["loop"] = unit.loop
    if unit.tasks:
        *others, last = [dict(task) for task in unit.tasks]
        if unit.rules:
            spec = last.get("spec", {})
            last["spec"] = {**spec, "policy": {"rules": unit.rules}}
        step["tool"] = [*others, task_named(last.get("name", unit.name), last)] if others or unit.loop else last
    if unit.spec:
        step["spec"] = unit.spec
    if arcs:
        step["next"] = {"spec": {"on_no_match": "fail"}, "arcs": arcs} if unit.no_match else {"arcs": arcs}
    return step


def _unnamed(task: Mapping[str, Any]) -> Step:
    return {key: value for key, value in task.items() if key != "name"}


def _arc(exit_: Exit, entries: Mapping[str, str], end: str) -> Step:
    arc: Step = {"step": entries[exit_.target] if exit_.target else end}
    if exit_.error is not None:
        arc["when"] = "{{ event.name == 'step.failed'" + (f" and {grouped(exit_.error)}" if exit_.error else "") + " }}"
    elif exit_.when:
        arc["when"] = "{{ " + exit_.when + " }}"
    if exit_.writes:
        arc["set_ctx"] = {key: each.yaml() for key, each in exit_.writes.items()}
    return arc
