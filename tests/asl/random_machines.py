"""Random state machines of Pass and Choice states, and an interpreter of them that follows the specification."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any, Final

PATHS: Final = ("$", "$.a", "$.b", "$.a.c", "$.b.c", "$.n")
PLACES: Final = (None, "$", "$.a", "$.b", "$.b.c", "$.n")
MOST_STATES: Final = 25


class Stuck(Exception):
    """A path has no value."""


class Unread(Exception):
    """A document cannot be made, which a playbook notices only if it reads the document."""


def machine(random: Random, count: int = 6) -> dict[str, Any]:
    """Return a machine, whose ways may lead back to any state."""
    names = [f"S{n}" for n in range(count)]
    return {"StartAt": "S0", "States": {name: _state(random, names) for name in names}}


def _state(random: Random, names: list[str]) -> dict[str, Any]:
    if random.random() < 0.35:
        rules = [{**_test(random), "Next": random.choice(names)} for _ in range(random.randint(1, 2))]
        return {"Type": "Choice", "Choices": rules, "Default": random.choice(names)}
    state: dict[str, Any] = {"Type": "Pass", "ResultPath": random.choice(PLACES)}
    if random.random() < 0.3:
        state["Result"] = random.choice([1, "x", {"c": 2}, {"a": {"c": 3}, "n": 0}])
    elif random.random() < 0.7:
        state["Parameters"] = {key: random.choice(PATHS) for key in random.sample(["a.$", "b.$", "c.$", "n.$"], 2)}
    if random.random() < 0.2:
        state["OutputPath"] = random.choice(PATHS)
    return {**state, **({"End": True} if random.random() < 0.25 else {"Next": random.choice(names)})}


def _test(random: Random) -> dict[str, Any]:
    path = random.choice(PATHS[1:])
    return {
        "Variable": path,
        **random.choice([{"IsPresent": True}, {"IsPresent": False}, {"NumericEquals": 1}, {"IsNumeric": False}]),
    }


def interpreted(definition: dict[str, Any], document: Any) -> Any:
    """Return the output. Raises `Stuck`, `Unread`, and `TimeoutError` for a machine that does not end soon."""
    name = definition["StartAt"]
    for _ in range(MOST_STATES):
        state = definition["States"][name]
        if state["Type"] == "Choice":
            name = next((rule["Next"] for rule in state["Choices"] if _holds(rule, document)), state["Default"])
            continue
        result = deepcopy(state["Result"]) if "Result" in state else document
        if "Parameters" in state:
            result = {key[:-2]: _read(document, path) for key, path in state["Parameters"].items()}
        try:
            document = _read(_placed(document, state["ResultPath"], result), state.get("OutputPath", "$"))
        except Stuck as error:
            raise Unread from error
        if "End" in state:
            return document
        name = state["Next"]
    raise TimeoutError


def _read(document: Any, path: str) -> Any:
    for key in path.split(".")[1:]:
        if not isinstance(document, dict) or key not in document:
            raise Stuck(path)
        document = document[key]
    return document


def _placed(document: Any, place: str | None, result: Any) -> Any:
    if place is None or place == "$":
        return document if place is None else result
    if not isinstance(document, dict):
        raise Stuck(place)
    key, _, rest = place[2:].partition(".")
    return {**document, key: _placed(document.get(key, {}), f"$.{rest}", result) if rest else result}


def _holds(rule: dict[str, Any], document: Any) -> bool:
    try:
        value = _read(document, rule["Variable"])
    except Stuck:
        if "IsPresent" not in rule:
            raise
        return not rule["IsPresent"]
    if "IsPresent" in rule:
        return bool(rule["IsPresent"])
    numeric = isinstance(value, int) and not isinstance(value, bool)
    return not numeric if "IsNumeric" in rule else numeric and value == 1
