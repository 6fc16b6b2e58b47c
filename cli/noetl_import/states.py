"""Translates one state to a unit: its tasks, what they are called with, and the document behind each of its ways out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from noetl_import import intrinsics, jsonata
from noetl_import.choices import condition
from noetl_import.errors import error_output, matches, retry_rules
from noetl_import.findings import Notes, Unmapped
from noetl_import.jsonpath import keys_of
from noetl_import.maps import items_of, reader_task
from noetl_import.names import Computed, Machine, Names
from noetl_import.services import call_of
from noetl_import.units import Exit, Scope, Unit
from noetl_import.values import Const, Doc, Expr, Obj, stored, with_member

State = Mapping[str, Any]
Nested = Callable[[str, State, Doc, Notes, Names], tuple[list[dict[str, Any]], Doc]]
"""Returns the tasks of one iteration of a Map, and the document that each results in."""
TIMES: Final = (("Seconds", "duration"), ("SecondsPath", "duration"), ("Timestamp", "until"), ("TimestampPath", "until"))
LONGEST_S: Final = 31_622_400
"""The longest timeout of a callback, in seconds."""


@dataclass
class Builder:
    """Builds the units of the states of one machine, in one scope."""

    machine: Machine
    scope: Scope
    label: Callable[[str], str]
    path_of: Callable[[str], str]
    child: Callable[[str, State, Doc, str], tuple[dict[str, Any], Doc]]
    """Returns a task that runs a state in a playbook of its own, with an input, and its result."""
    iteration: Nested
    execution_input: Callable[[], Doc]
    execution_id: Callable[[], Doc]
    execution_start: Callable[[], Doc]
    item: Mapping[str, Doc] = field(default_factory=dict)
    variables: Mapping[str, Doc] = field(default_factory=dict)

    def unit(self, state_name: str, state: State, doc: Doc, notes: Notes) -> Unit:
        """Return the unit of a state; one that fails, with the reason, if a piece of it does not map."""
        name = self.label(state_name)
        before, after = (Computed(self.scope.result(f"{name}_{kind}").text()) for kind in ("values", "results"))
        names = self._names(state_name, doc, notes, before)
        try:
            unit = getattr(self, f"_{state['Type'].lower()}")(name, state, names, after)
        except Unmapped as error:
            notes.unsupported(error)
            return self._unsupported(name, state, error)
        assert isinstance(unit, Unit)
        unit.before[:0] = before.tasks(f"{name}_values")
        unit.after += after.tasks(f"{name}_results")
        return unit

    def _names(self, state: str, doc: Doc, notes: Notes, computed: Computed) -> Names:
        values = self.execution_input, self.execution_id, self.execution_start
        return Names(doc, self.machine, state, notes, computed, self.variables, *values, self.item)

    def _unsupported(self, name: str, state: State, error: Unmapped) -> Unit:
        task = _failing({"kind": "unsupported", "message": f"{error.message}: {error.remedy}"})
        targets = [state.get("Default"), *(rule.get("Next") for rule in state.get("Choices", ())), state.get("Next")]
        targets += [catcher["Next"] for catcher in state.get("Catch", ())]
        exits = [Exit(target, self.scope.result(name)) for target in dict.fromkeys(targets) if target] or [
            Exit(None, Const(None))
        ]
        return Unit(name, exits, [task], fails=True)

    # --- input and output -----------------------------------------------------------------------------------------------

    def _language(self, state: State) -> str:
        return str(state.get("QueryLanguage", self.machine.language))

    def _input(self, state: State, names: Names, key: str = "Parameters") -> Doc:
        """Return the effective input of a state."""
        if self._language(state) == "JSONata":
            return jsonata.template(state["Arguments"], names) if "Arguments" in state else names.doc
        path = state.get("InputPath", "$")
        doc = Const({}) if path is None else names.path(path)
        return intrinsics.template(state[key], names.of(doc)) if key in state else doc

    def _output(self, state: State, names: Names, result: Doc, after: Computed | None = None) -> Doc:
        """Return the output of a state whose task had `result`."""
        names = names.of(names.doc, computed=after or names.computed, result=result)
        if self._language(state) == "JSONata":
            return jsonata.template(state["Output"], names) if "Output" in state else result
        if "ResultSelector" in state:
            result = intrinsics.template(state["ResultSelector"], names.of(result))
        return self._placed(state, names, result)

    def _placed(self, state: State, names: Names, result: Doc) -> Doc:
        place = state.get("ResultPath", "$")
        doc = names.doc if place is None else with_member(names.doc, keys_of(place), result)
        path = state.get("OutputPath", "$")
        return Const({}) if path is None else names.of(doc).path(path)

    def _writes(self, block: Mapping[str, Any], state: State, names: Names, doc: Doc) -> dict[str, Doc]:
        """Return the values of the variables that a state, a rule or a catcher assigns."""
        if "Assign" not in block:
            return {}
        language = jsonata if self._language(state) == "JSONata" else intrinsics
        assigned = language.template(block["Assign"], names if language is jsonata else names.of(doc))
        assert isinstance(assigned, Obj)
        return {self.variables[key].text().partition(".")[2]: each for key, each in assigned.members.items()}

    def _ok(self, state: State, names: Names, result: Doc, after: Computed | None = None) -> Exit:
        output = self._output(state, names, result, after)
        writes = self._writes(state, state, names.of(names.doc, result=result, computed=after or names.computed), result)
        return Exit(state.get("Next"), output, writes=writes)

    def _catches(self, name: str, state: State, names: Names, origin: str) -> list[Exit]:
        found = list[Exit]()
        for catcher in state.get("Catch", ()):
            error, place = error_output(self.scope.error, origin), f"{name}_error"
            condition_ = matches(catcher["ErrorEquals"], self.scope.error, origin)
            kept = self.scope.stored(place)
            kept_parts = Obj({key: kept.get(key) for key in ("Error", "Cause")}, whole=kept)
            doc, direct = (self._caught(catcher, state, names, each) for each in (kept_parts, error))
            writes = self._writes(catcher, state, names.of(names.doc, error=error), error)
            if kept.text() in doc.text():
                writes[place] = error
            found.append(Exit(catcher["Next"], doc, error=condition_, writes=writes, caught=(place, direct)))
        return found

    def _caught(self, catcher: State, state: State, names: Names, error: Doc) -> Doc:
        """Return the output of a catcher for an error."""
        if self._language(state) == "JSONata":
            return jsonata.template(catcher["Output"], names.of(names.doc, error=error)) if "Output" in catcher else error
        return self._placed({"ResultPath": catcher.get("ResultPath", "$")}, names, error)

    # --- states -----------------------------------------------------------------------------------------------------------

    def _pass(self, name: str, state: State, names: Names, after: Computed) -> Unit:
        plain = not any(key in state for key in ("Result", "Parameters", "Output", "Assign"))
        if plain and "InputPath" not in state:
            return self._through(name, state, self._placed(state, names, names.doc))
        value = Const(state["Result"]) if "Result" in state else self._input(state, names)
        if self._language(state) == "JSONata":
            value = self._output(state, names, names.doc)
        task = {"kind": "noop", "result": value.yaml()}
        result = stored(value, self.scope.result(name))
        doc = result if self._language(state) == "JSONata" else self._placed(state, names, result)
        exit_ = Exit(state.get("Next"), doc, writes=self._writes(state, state, names, result))
        return Unit(name, [exit_], [task], result=result)

    def _through(self, name: str, state: State, doc: Doc) -> Unit:
        """Return the unit of a state that changes at most the document. At the end it results in the document."""
        if state.get("Next") and self.scope.graph:
            return Unit(name, [Exit(state["Next"], doc)])
        if state.get("Next"):
            return Unit(name, [Exit(state["Next"], doc)], [{"kind": "noop"}])
        result = stored(doc, self.scope.result(name))
        return Unit(name, [Exit(None, result)], [{"kind": "noop", "result": doc.yaml()}], result=result)

    def _succeed(self, name: str, state: State, names: Names, after: Computed) -> Unit:
        doc = (
            self._output(state, names, names.doc) if "Output" in state else self._placed(state, names, self._input(state, names))
        )
        return self._through(name, {}, doc)

    def _fail(self, name: str, state: State, names: Names, after: Computed) -> Unit:
        error: dict[str, Any] = {}
        for key, field_ in (("Error", "code"), ("Cause", "message")):
            if f"{key}Path" in state:
                error[field_] = intrinsics.value_of(state[f"{key}Path"], names).yaml()
            elif key in state:
                error[field_] = jsonata.template(state[key], names).yaml()
        error.setdefault("message", error.get("code", "the state machine failed"))
        return Unit(name, [Exit(None, Const(None))], [_failing(error)], fails=True)

    def _wait(self, name: str, state: State, names: Names, after: Computed) -> Unit:
        for key, field_ in TIMES:
            if key in state:
                value = intrinsics.value_of(state[key], names) if key.endswith("Path") else jsonata.template(state[key], names)
                task = {"kind": "wait", field_: value.yaml()}
                doc = self._output(state, names, names.doc) if "Output" in state else self._placed(
                    {**state, "ResultPath": None}, names.of(self._input(state, names)), names.doc
                )  # fmt: skip
                return Unit(name, [Exit(state.get("Next"), doc, writes=self._writes(state, state, names, names.doc))], [task])
        raise Unmapped("the Wait state has no time", "add Seconds or Timestamp")

    def _choice(self, name: str, state: State, names: Names, after: Computed) -> Unit:
        names = names.of(self._input(state, names))
        exits = list[Exit]()
        for rule in state["Choices"]:
            output = jsonata.template(rule["Output"], names) if "Output" in rule else self._placed(state, names, names.doc)
            writes = self._writes(rule, state, names, names.doc)
            exits.append(Exit(rule["Next"], output, condition(rule, names), writes=writes))
        if "Default" in state:
            default = jsonata.template(state["Output"], names) if "Output" in state else self._placed(state, names, names.doc)
            exits.append(Exit(state["Default"], default, writes=self._writes(state, state, names, names.doc)))
        return Unit(name, exits, [] if self.scope.graph else [{"kind": "noop"}], no_match="Default" not in state)

    def _task(self, name: str, state: State, names: Names, after: Computed) -> Unit:
        resource = state["Resource"]
        waits = ".waitForTaskToken" in resource
        inside = names.of(names.doc, token=Expr("callback.token", type="text")) if waits else names
        args = self._input(state, inside)
        field_ = "/Arguments" if self._language(state) == "JSONata" else "/Parameters"
        call = call_of(resource, args, names.notes, field_, self.path_of, names.computed)
        task: dict[str, Any] = {"kind": call.kind, **call.inputs}
        unit = Unit(name, [], [task], result=self.scope.result(name))
        unit.rules = retry_rules(state.get("Retry", []), names.notes, call.origin)
        timeout = self._seconds(state, "TimeoutSeconds", names)
        heartbeat = self._seconds(state, "HeartbeatSeconds", names)
        if call.waits:
            self._callback(unit, timeout, heartbeat, names.notes)
        elif heartbeat is not None:
            names.notes.attention(
                "HeartbeatSeconds has no effect on this task", "limit it with TimeoutSeconds", "/HeartbeatSeconds"
            )
        if timeout is not None and not call.waits:
            if call.kind == "playbook":
                unit.spec = {"policy": {"lifecycle": {"timeout_s": timeout}}}
            else:
                task["spec"] = {"timeout": timeout}
        if "Credentials" in state:
            names.notes.attention(
                "the role of another account is not used", "let a function of that account do it", "/Credentials"
            )
        assert unit.result is not None
        result = unit.result if call.waits else call.result(unit.result)
        unit.exits = [
            *self._catches(name, state, names, "" if call.waits else call.origin),
            self._ok(state, names, result, after),
        ]
        return unit

    def _seconds(self, state: State, key: str, names: Names) -> Any:
        if f"{key}Path" in state:
            return intrinsics.value_of(state[f"{key}Path"], names).yaml()
        return jsonata.template(state[key], names).yaml() if key in state else None

    def _callback(self, unit: Unit, timeout: Any, heartbeat: Any, notes: Notes) -> None:
        """Add the task that waits for the answer to the token which the first task sends."""
        first: dict[str, Any] = unit.tasks[0]
        last: dict[str, Any] = {"kind": "callback"}
        for key, value in (("timeout", timeout), ("heartbeat", heartbeat)):
            if value is not None:
                last[key] = min(value, LONGEST_S) if isinstance(value, int) else value
        if unit.rules:
            first["spec"] = {"policy": {"rules": unit.rules}}
            notes.attention(
                "only sending the token is retried, not the wait for the answer", "retry in the step's arcs", "/Retry"
            )
        unit.tasks, unit.rules = [{"name": f"{unit.name}_send", **first}, last], []

    def _parallel(self, name: str, state: State, names: Names, after: Computed) -> Unit:
        effective = self._input(state, names)
        if not self.scope.graph or state.get("Catch") or state.get("Retry"):
            return self._called(name, state, names, effective, after)
        branches = [{"Type": "Branch", **branch} for branch in state["Branches"]]
        join = Unit(name, [], branches=branches, branch_input=effective)
        join.exits = [Exit(state.get("Next"), Const(None))]
        return join

    def joined(self, unit: Unit, state_name: str, state: State, doc: Doc, notes: Notes, results: Doc) -> Exit:
        """Return the exit of a Parallel state whose branches resulted in `results`."""
        after = Computed(self.scope.result(f"{unit.name}_results").text())
        names = self._names(state_name, doc, notes, after)
        exit_ = self._ok(state, names, results, after)
        unit.after = after.tasks(f"{unit.name}_results")
        return exit_

    def _called(self, name: str, state: State, names: Names, effective: Doc, after: Computed) -> Unit:
        """Return the unit of a Parallel or Map state that is a playbook of its own."""
        inner = {key: value for key, value in state.items() if key in INNER} | {"End": True}
        task, result = self.child(names.state, inner, effective, names.notes.pointer)
        ref = self.scope.result(name)
        unit = Unit(name, [], [task], result=ref, rules=retry_rules(state.get("Retry", []), names.notes))
        unit.exits = [*self._catches(name, state, names, "child"), self._ok(state, names, stored(result, ref), after)]
        return unit

    def _map(self, name: str, state: State, names: Names, after: Computed) -> Unit:
        effective = self._input({key: value for key, value in state.items() if key not in ("Parameters", "Arguments")}, names)
        if not self.scope.graph or state.get("Retry"):
            legacy = {"ItemSelector": state["Parameters"]} if "Parameters" in state else {}
            return self._called(name, {**state, **legacy}, names, effective, after)
        inside = names.of(effective)
        unit = Unit(name, [], result=self.scope.result(name))
        reader = f"{name}_read"
        if "ItemReader" in state:
            unit.before.append({"name": reader, **reader_task(state, inside, self._language(state))})
        loop, element = items_of(state, inside, self._language(state), self.scope.result(reader))
        unit.loop = loop
        item = Names(**{**inside.__dict__, "item": {"Value": element, "Index": Expr("iter.index", type="number")}})
        selector = state.get("ItemSelector", state.get("Parameters") if self._language(state) != "JSONata" else None)
        if selector is not None:
            language = jsonata if self._language(state) == "JSONata" else intrinsics
            element = language.template(selector, item)
        unit.tasks, _ = self.iteration(names.state, state, element, names.notes, item)
        unit.exits = [*self._catches(name, state, names, "map"), self._ok(state, names, self.scope.result(name), after)]
        return unit


INNER: Final = frozenset({
    "Type", "Branches", "Iterator", "ItemProcessor", "ItemsPath", "Items", "ItemSelector", "MaxConcurrency", "MaxConcurrencyPath",
    "ItemReader", "ItemBatcher", "ToleratedFailureCount", "ToleratedFailurePercentage", "ResultWriter", "QueryLanguage",
})  # fmt: skip
"""The keys of a Parallel or Map state that go with it into a playbook of its own."""


def _failing(error: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": "noop", "spec": {"policy": {"rules": [{"else": {"then": {"do": "fail", "error": dict(error)}}}]}}}
