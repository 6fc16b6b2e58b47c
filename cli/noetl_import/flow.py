"""Follows the document through the states of a machine, and stores it where ways meet with different documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from noetl_import.findings import Notes
from noetl_import.states import Builder, State
from noetl_import.units import Exit, Unit
from noetl_import.values import Doc

Join = Callable[[str, State, Unit, Doc, Notes], None]
"""Completes the unit of a Parallel state: builds its branches, and sets its exit."""


@dataclass
class Flow:
    """The units of the states of a machine in their order, and the notes of each."""

    units: dict[str, Unit]
    notes: dict[str, Notes]
    stores_input: bool
    """True if the document is stored before the first state, which ways lead back to."""

    def ends(self) -> list[Exit]:
        return [exit_ for unit in self.units.values() if not unit.fails for exit_ in unit.exits if exit_.target is None]


def targets(state: State) -> Iterator[str]:
    """Yield the states that may follow a state, the next one first."""
    found = [state.get("Next"), *(rule.get("Next") for rule in state.get("Choices", ())), state.get("Default")]
    found += [catcher.get("Next") for catcher in state.get("Catch", ())]
    yield from dict.fromkeys(each for each in found if each)


def ordered(states: Mapping[str, State], start: str) -> list[str]:
    """Return the states that can be reached, each after one that leads to it."""
    found, waiting = list[str](), [start]
    while waiting:
        state = waiting.pop()
        if state not in found:
            found.append(state)
            waiting += reversed(list(targets(states[state])))
    return found


def _cycles(states: Mapping[str, State], order: list[str]) -> dict[str, set[str]]:
    """Return by state the states of its cycles: those that it reaches and that reach it."""
    reach = {state: set(ordered(states, state)[1:]) for state in order}
    for state in order:
        for target in targets(states[state]):
            reach[state] |= {target} | reach[target]
    back = {state: {other for other in reach[state] if state in reach[other]} for state in order}
    return {state: others | {state} if others else set() for state, others in back.items()}


def follow(builder: Builder, states: Mapping[str, State], start: str, doc: Doc, pointer: str, join: Join) -> Flow:
    """Return the flow of a document through a machine.

    A state with one way to it reads what the state before made of the document. Where ways meet, the documents must be equal, and
    must not come from a state of the same cycle, whose result a further round replaces. Otherwise the document is stored on each
    way to the state, under the name `data` of the scope.
    """
    order, met = ordered(states, start), set[str]()
    cycles = _cycles(states, order)
    ways = [start, *(target for state in order for target in targets(states[state]))]
    kept = builder.scope.stored(builder.scope.data)
    while True:
        flow = Flow({}, {}, start in met)
        docs, clashes = {start: kept if start in met else doc}, set[str]()
        for name in order:
            notes = flow.notes[name] = Notes(name, f"{pointer}/States/{name.replace('~', '~0').replace('/', '~1')}")
            unit = flow.units[name] = builder.unit(name, states[name], docs[name], notes)
            if unit.branches:
                join(name, states[name], unit, docs[name], notes)
            for exit_ in unit.exits:
                _store_variables(builder, exit_)
                if exit_.target is None:
                    continue
                arriving = kept if exit_.target in met else exit_.doc
                if docs.setdefault(exit_.target, arriving) != arriving and not unit.fails:
                    clashes.add(exit_.target)
        for name in order:
            own = [builder.label(state) for state in cycles[name]]
            own += [f"{label}_{kind}" for label in own for kind in ("values", "results", "read")]
            if name not in met and ways.count(name) > 1 and builder.scope.reads(docs[name], own):
                clashes.add(name)
        if not clashes:
            break
        met |= clashes
    for unit in flow.units.values():
        for exit_ in unit.exits:
            if exit_.target in met and exit_.doc != kept and not unit.fails:
                exit_.store(builder.scope.data)
    return flow


def _store_variables(builder: Builder, exit_: Exit) -> None:
    """Store a document that reads variables, because a later state may assign them again."""
    text = exit_.doc.text()
    if any(variable.text() in text for variable in builder.variables.values()):
        exit_.store(builder.scope.data)
        exit_.doc = builder.scope.stored(builder.scope.data)


def assigned(states: Mapping[str, State]) -> set[str]:
    """Return the names of the variables that the states assign."""
    blocks: list[Mapping[str, Any]] = []
    for state in states.values():
        blocks += [state, *state.get("Choices", ()), *state.get("Catch", ())]
    return {key.removesuffix(".$") for block in blocks for key in block.get("Assign", ())}
