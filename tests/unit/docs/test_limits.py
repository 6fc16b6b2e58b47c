"""The page on limits: every example runs as the page says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.docs.language import Example, diagnostics, examples, run
from tests.unit.docs.outcomes import holds

PAGE = Path(__file__).parents[3] / "docs/limits.md"
EXAMPLES = list(examples(PAGE))


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_the_examples_give_the_documented_results(example: Example) -> None:
    if example.kind == "text":
        assert diagnostics(example) == example.expected.splitlines()
        return
    others = [e.source for e in EXAMPLES if "name: callee" in e.source]
    expected = {key: value for key, value in json.loads(example.expected).items() if key != "given"}
    assert "status" in expected
    holds(run(example, others), expected)
