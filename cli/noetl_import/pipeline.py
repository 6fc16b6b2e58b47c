"""Writes the states of one iteration of a Map as the tasks of a pipeline: a way that is not to the next task is a jump."""

from __future__ import annotations

from typing import Any, Final

from noetl_import.errors import grouped
from noetl_import.flow import Flow
from noetl_import.states import Builder
from noetl_import.units import Exit, Unit, task_named
from noetl_import.values import Doc

FAILED: Final = "outcome.status == 'error'"
Task = dict[str, Any]


def pipeline(flow: Flow, builder: Builder, doc: Doc) -> list[Task]:
    """Return the tasks of a flow."""
    units = list(flow.units.values())
    tasks = list[Task]()
    if flow.stores_input:
        tasks.append({"name": f"{units[0].name}_begin", "kind": "noop", "set_iter": {builder.scope.data: doc.yaml()}})
    firsts = {state: _first(unit) for state, unit in flow.units.items()}
    for position, unit in enumerate(units):
        follower = _first(units[position + 1]) if position + 1 < len(units) else None
        tasks += _Writer(unit, firsts, follower, builder).tasks()
    return tasks


def _first(unit: Unit) -> str:
    named = [*unit.before, *unit.tasks[:-1]]
    return str(named[0]["name"]) if named else unit.name


class _Writer:
    """Writes the tasks of one unit. `follower` is the first task of the unit behind it."""

    def __init__(self, unit: Unit, firsts: dict[str, str], follower: str | None, builder: Builder) -> None:
        self.unit, self.firsts, self.follower, self.builder = unit, firsts, follower, builder

    def tasks(self) -> list[Task]:
        unit = self.unit
        main = task_named(unit.name, unit.tasks[-1])
        found = [*unit.before, *unit.tasks[:-1], main, *unit.after]
        rules = [*unit.rules, *(self._catch(exit_, main["name"]) for exit_ in unit.exits if exit_.error is not None)]
        ok = [exit_ for exit_ in unit.exits if exit_.error is None]
        if unit.fails:
            return found
        output = [exit_ for exit_ in ok if exit_.target is None and not self._is_result(exit_, found[-1])]
        if output:  # the machine ends with another document than the result of its last task
            found.append({"name": f"{unit.name}_output", "kind": "noop", "result": output[0].doc.yaml()})
        last = found[-1]
        passed = [rule for exit_ in ok if (rule := self._pass(exit_, last["name"]))]
        if unit.no_match:
            error = {"code": "States.NoChoiceMatched", "message": "no rule of the Choice state fits"}
            passed.append({"else": {"then": {"do": "fail", "error": error}}})
        self._add(main, [*rules, *passed] if last is main else rules)
        if last is not main:
            self._add(last, passed)
        return found

    def _is_result(self, exit_: Exit, last: Task) -> bool:
        return last["name"] == self.unit.name and exit_.doc == self.unit.result

    def _add(self, task: Task, rules: list[Task]) -> None:
        if rules:
            spec = task.get("spec", {})
            task["spec"] = {**spec, "policy": {"rules": [*spec.get("policy", {}).get("rules", []), *rules]}}

    def _set_iter(self, exit_: Exit, task: str) -> Task:
        written = {key: each.renamed(task, "outcome.result").yaml() for key, each in exit_.writes.items()}
        return {"set_iter": written} if written else {}

    def _catch(self, exit_: Exit, task: str) -> Task:
        when = f"{FAILED} and {grouped(exit_.error)}" if exit_.error else FAILED
        assert exit_.target is not None
        then = {"do": "jump", "to": self.firsts[exit_.target], **self._set_iter(exit_, task)}
        return {"when": "{{ " + when + " }}", "then": then}

    def _pass(self, exit_: Exit, task: str) -> Task | None:
        """Return the rule of a way out; None if the pipeline goes that way anyway."""
        writes = {} if exit_.target is None else self._set_iter(exit_, task)
        if exit_.target is None:
            then: Task = {"do": "break"}
            needed = self.follower is not None
        else:
            to = self.firsts[exit_.target]
            needed = to != self.follower
            then = {"do": "jump", "to": to, **writes} if needed else {"do": "continue", **writes}
        if exit_.when:
            return {"when": "{{ " + exit_.when + " }}", "then": then}
        if any(other.when for other in self.unit.exits):
            return {"else": {"then": then}}
        return {"when": "{{ outcome.status == 'ok' }}", "then": then} if needed or writes else None
