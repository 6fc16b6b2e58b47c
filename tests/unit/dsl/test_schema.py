"""The published JSON Schema: equal to the generated one, and agreeing with validation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from noetl_core.dsl.dump import document
from noetl_core.dsl.model import Playbook
from noetl_core.dsl.reading.load import load
from noetl_core.dsl.schema import playbook_schema, render
from tests.properties import examples
from tests.unit.dsl.broken_playbooks import BROKEN
from tests.unit.dsl.models import playbooks

ROOT = Path(__file__).parents[3]
VALIDATOR = Draft202012Validator(playbook_schema())
STRUCTURAL = ("E110", "E113", "E116", "E117", "E118", "E119", "E121", "E124", "E126")
"""Codes of mistakes that a schema can see."""


def plain(text: str) -> Any:
    root = load(text).root
    assert root is not None
    return root.plain()


@pytest.mark.nightly  # it is the validator of the other tests
def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(json.loads(render()))


def test_it_refers_only_to_definitions_that_it_has() -> None:
    schema = playbook_schema()
    below: list[Any] = [schema]
    found = set()
    while below:
        part = below.pop()
        below.extend(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())
        if isinstance(part, dict) and isinstance(part.get("$ref"), str):
            found.add(part["$ref"])
    assert found == {f"#/$defs/{name}" for name in schema["$defs"]}


def test_the_handler_of_a_failure_is_checked() -> None:
    text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: a, path: t/a}\nexecutor: {spec: {on_failure: HANDLER}}\n"
    text += "workflow: [{step: start, tool: {kind: noop}}]\n"
    VALIDATOR.validate(plain(text.replace("HANDLER", "{playbook: ops/alert}")))
    assert not VALIDATOR.is_valid(plain(text.replace("HANDLER", "{playbok: ops/alert}")))


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*/playbook.yaml")), ids=lambda p: p.parent.name)
def test_it_accepts_the_examples(path: Path) -> None:
    VALIDATOR.validate(plain(path.read_text()))


@examples(25)
@given(playbooks())
def test_it_accepts_every_canonical_playbook(playbook: Playbook) -> None:
    VALIDATOR.validate(document(playbook))


@pytest.mark.parametrize("text", [pytest.param(t, id=n) for n, t, code, _ in BROKEN if code in STRUCTURAL])
def test_the_schema_refuses_playbooks_with_structural_errors(text: str) -> None:
    assert not VALIDATOR.is_valid(plain(text.replace("§", "")))


@pytest.mark.parametrize(
    "tool",
    [
        [{"name": "a", "kind": "noop"}],
        [{"a": {"kind": "noop"}}],
        [{"kind": "noop"}],
        {"kind": "noop"},
        [{"choose": [{"when": "{{ ctx.a }}", "then": [{"kind": "noop"}]}, {"else": {"kind": "noop"}}]}],
        [{"while": "{{ iter.n < 3 }}", "do": [{"kind": "noop", "set": {"iter.n": 1}}]}],
    ],
)
def test_it_accepts_every_task_shape(tool: Any) -> None:
    VALIDATOR.validate(
        {
            "apiVersion": "noetl.io/v2",
            "kind": "Playbook",
            "metadata": {"name": "a", "path": "a/b"},
            "workflow": [{"step": "s", "tool": tool}],
        }
    )
