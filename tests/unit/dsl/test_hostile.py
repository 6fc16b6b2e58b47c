"""Whatever a document holds where, checking it ends in a model or in diagnostics, never in an exception."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl_core.dsl.parse import check
from noetl_core.dsl.reading.load import load

EXAMPLES = sorted(Path(__file__).parents[3].glob("examples/*/playbook.yaml"))
VALUES: list[Any] = [
    None, True, 1, -1, 1.5, "x", "", "{{ a }}", "{{ a |", [], {}, [1], [[]], [None], [{}], {"a": 1}, {"kind": [1]}, {"name": {}},
    {"else": 1}, {"when": 1, "then": 2}, {"tasks": 3}, {"choose": 1}, {"while": 1, "do": 2}, {"do": "jump"},
]  # fmt: skip
KEYS = [
    "spec",
    "policy",
    "rules",
    "when",
    "then",
    "else",
    "do",
    "to",
    "tool",
    "kind",
    "name",
    "next",
    "arcs",
    "step",
    "loop",
    "in",
    "iterator",
    "workflow",
    "workbook",
    "tasks",
    "executor",
    "keychain",
    "choose",
    "while",
    "until",
    "args",
    "input",
    "set",
    "set_ctx",
    "join",
    "count",
    "admit",
    "allow",
    "failure",
    "mode",
    "limits",
    "task",
    "timeout",
    "output",
]
BREAKERS = ["", "{", "}", "'", '"', "\n", "\t", "&a ", "*a", "!x ", "|", "- ", "\0"]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from places(child, (*path, key))


def damage(document: Any, rnd: random.Random) -> None:
    """Replace, remove or add something somewhere."""
    path = rnd.choice(list(places(document)))
    if not path:
        return
    target = document
    for key in path[:-1]:
        target = target[key]
    way = rnd.random()
    if way < 0.5:
        target[path[-1]] = copy.deepcopy(rnd.choice(VALUES))
    elif way < 0.7 and isinstance(target, dict):
        del target[path[-1]]
    elif isinstance(target, dict):
        target[rnd.choice(KEYS)] = copy.deepcopy(rnd.choice(VALUES))
    else:
        target.append(copy.deepcopy(rnd.choice(VALUES)))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(5))
def test_damaged_playbooks_are_always_answered(seed: int) -> None:
    rnd = random.Random(seed)
    documents = [root.plain() for path in EXAMPLES if (root := load(path.read_text()).root)]
    for _ in range(200):
        document = copy.deepcopy(rnd.choice(documents))
        for _ in range(rnd.randint(1, 4)):
            damage(document, rnd)
        text = json.dumps(document, ensure_ascii=False)
        if rnd.random() < 0.3:
            at = rnd.randrange(len(text))
            text = text[:at] + rnd.choice(BREAKERS) + text[at + 1 :]
        playbook, found = check(text)
        assert (playbook is None) == any(d.severity == "error" for d in found), text
