"""Reads a definition, JSON or YAML, and checks that it is a state machine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from noetl_import.findings import UnusableDefinition

TYPES: Final = frozenset({"Pass", "Task", "Choice", "Wait", "Succeed", "Fail", "Parallel", "Map"})


def definition_of(text: str, values: Mapping[str, str]) -> dict[str, Any]:
    """Return the definition in a text, with `values` in place of its `${NAME}`. Raises `UnusableDefinition`."""
    text = re.sub(r"\$\{(\w+)\}", lambda match: json.dumps(values[match[1]])[1:-1] if match[1] in values else match[0], text)
    try:
        found = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except json.JSONDecodeError as error:
        raise UnusableDefinition(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except yaml.YAMLError as error:
        raise UnusableDefinition(str(error).replace("\n", " ")) from None
    if not isinstance(found, dict):
        raise UnusableDefinition("it is not an object with StartAt and States")
    if "Definition" in found and "States" not in found:
        found = found["Definition"]
    _check(found, "")
    definition: dict[str, Any] = found
    return definition


def _check(machine: Any, place: str) -> None:
    states = machine.get("States") if isinstance(machine, dict) else None
    if not isinstance(states, dict) or not states:
        raise UnusableDefinition(f"{place or '/'} has no States: it must be a state machine in the Amazon States Language")
    if machine.get("StartAt") not in states:
        raise UnusableDefinition(f"{place}/StartAt names {machine.get('StartAt')!r}, which is not one of the states")
    for name, state in states.items():
        _check_state(state, states, f"{place}/States/{name}")


def _check_state(state: Any, states: Mapping[str, Any], place: str) -> None:
    if not isinstance(state, dict) or state.get("Type") not in TYPES:
        raise UnusableDefinition(f"{place} has no Type among {', '.join(sorted(TYPES))}")
    blocks = [state, *state.get("Choices", ()), *state.get("Catch", ()), {"Next": state.get("Default")}]
    for block in blocks:
        following = block.get("Next")
        if following is not None and following not in states:
            raise UnusableDefinition(f"{place} leads to {following!r}, which is not one of the states")
    missing = {"Task": "Resource", "Choice": "Choices", "Parallel": "Branches"}.get(state["Type"])
    if missing and missing not in state:
        raise UnusableDefinition(f"{place} has no {missing}")
    if state["Type"] not in ("Choice", "Succeed", "Fail") and not (state.get("Next") or state.get("End")):
        raise UnusableDefinition(f"{place} has neither Next nor End")
    for number, branch in enumerate(state.get("Branches", ())):
        _check(branch, f"{place}/Branches/{number}")
    if state["Type"] == "Map":
        key = "ItemProcessor" if "ItemProcessor" in state else "Iterator"
        _check(state.get(key), f"{place}/{key}")
