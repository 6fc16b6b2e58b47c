"""Files of cases: a definition, and inputs with the answers of its tasks.

```yaml
definition: machine.asl.json      # or the machine itself
values: {Bucket: metrics}         # of its placeholders
objects: {bucket: {key: text}}    # of S3, for a distributed Map
cases:
  - name: the order is large
    input: {total: 500}
    answers:                      # by state, in the order in which callbacks are answered; the last one repeats
      Charge: [{error: Lambda.ServiceException}, {return: {Payload: {id: 7}}}]
      Item: [{input: {n: 3}, error: Bad}, {return: {}}]      # by a part of its input, in any order
```
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Case:
    """One run of a definition. `answers` are what the tasks of a state return or raise, call by call."""

    name: str
    definition: Mapping[str, Any]
    input: Any
    answers: Mapping[str, list[Mapping[str, Any]]]
    objects: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    expect: Any = None
    """The end that the States Language gives it: the output, or `{Error: NAME}`."""


def read(file: Path) -> list[Case]:
    """Return the cases of a file."""
    return [case for found in yaml.safe_load_all(file.read_text()) for case in _cases(found, file)]


def _cases(found: Mapping[str, Any], file: Path) -> list[Case]:
    definition = found["definition"]
    if isinstance(definition, str):
        text = (file.parent / definition).read_text()
        for name, value in found.get("values", {}).items():
            text = text.replace(f"${{{name}}}", value)
        definition = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    return [
        Case(
            f"{found.get('name', file.name.partition('.')[0])}: {each.get('name', number)}",
            definition,
            each.get("input", {}),
            {state: answer if isinstance(answer, list) else [answer] for state, answer in each.get("answers", {}).items()},
            found.get("objects", {}),
            each.get("expect"),
        )
        for number, each in enumerate(found["cases"], 1)
    ]


def task_states(machine: Mapping[str, Any], pointer: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the Task states of a machine and of those within: the pointer, the name, the state."""
    for name, state in machine["States"].items():
        place = f"{pointer}/States/{name.replace('~', '~0').replace('/', '~1')}"
        if state["Type"] == "Task":
            yield place, name, state
        for key in ("ItemProcessor", "Iterator"):
            if key in state:
                yield from task_states(state[key], f"{place}/{key}")
        for number, branch in enumerate(state.get("Branches", ())):
            yield from task_states(branch, f"{place}/Branches/{number}")


@dataclass(frozen=True)
class Outcome:
    """The end of a run: its output or its error, and by state what its task was called with."""

    status: str
    output: Any = None
    error: str = ""
    calls: Mapping[str, list[Any]] = field(default_factory=dict)
    note: str = ""


def contains(value: object, wanted: dict) -> bool:  # type: ignore[type-arg]  # its source runs on the emulator, without imports
    """Return True if `wanted` is part of a mapping anywhere in `value`."""
    if isinstance(value, dict):
        return wanted.items() <= value.items() or any(contains(each, wanted) for each in value.values())
    return isinstance(value, list) and any(contains(each, wanted) for each in value)
