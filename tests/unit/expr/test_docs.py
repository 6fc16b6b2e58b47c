"""Every example of docs/language/expressions.md gives what the page says, and the page's lists are complete."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from noetl_core.expr import FILTERS, FUNCTIONS, Scope, TemplateError, render
from noetl_core.expr.methods import STR

PAGE = (Path(__file__).parents[3] / "docs/language/expressions.md").read_text()
DATA = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0])
EXAMPLES = [
    re.fullmatch(r"(.*?) +(->|!!) (.*)", line).groups()  # type: ignore[union-attr]
    for block in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
]


@pytest.mark.parametrize(("template", "arrow", "expected"), EXAMPLES, ids=[e[0] for e in EXAMPLES])
def test_each_example_renders_to_the_documented_value(template: str, arrow: str, expected: str) -> None:
    if template.endswith("endfor %}"):
        template = template.strip()
    if arrow == "->":
        assert render(template, Scope(DATA)) == json.loads(expected)
    else:
        with pytest.raises(TemplateError, match=re.escape(expected)):
            render(template, Scope(DATA))


@pytest.mark.parametrize(
    "vocabulary", [FILTERS, FUNCTIONS, [m for m in STR if not m.startswith("is")]], ids=["filters", "functions", "methods"]
)
def test_the_page_names_the_whole_vocabulary(vocabulary: list[str]) -> None:
    words = set(re.findall(r"\w+", PAGE))
    assert set(vocabulary) <= words
