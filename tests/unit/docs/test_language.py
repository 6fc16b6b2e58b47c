"""Every example of the language reference gives what the page says beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.docs.demo_aws import services
from tests.unit.docs.language import Example, diagnostics, examples, run
from tests.unit.docs.outcomes import holds

FOLDER = Path(__file__).parents[3] / "docs/language"
OTHERS = {"expressions.md", "diagnostics.md", "migrate.md"}
"""Pages with tests of their own."""
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name not in OTHERS)
EXAMPLES = [example for page in PAGES for example in examples(page)]
TOOLS = sorted((FOLDER.parent / "tools").glob("*.md"))
DATA = ("duckdb.md", "postgres.md", "snowflake.md", "transfer.md")
EXAMPLES += [example for page in TOOLS if page.name not in DATA for example in examples(page) if example.kind]
"""What a page of tools says without an outcome, `test_tools` tries; the pages of kinds for data, `test_data_tools`."""


@pytest.mark.one_in(8)
@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.kind == "json"], ids=str)
def test_the_example_gives_the_result_on_the_page(example: Example) -> None:
    others = [e.source for e in EXAMPLES if e.page == example.page and "name: callee" in e.source]
    expected = {key: value for key, value in json.loads(example.expected).items() if key != "given"}
    assert "status" in expected
    with services(example.source):
        holds(run(example, others), expected)


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.kind == "text"], ids=str)
def test_the_example_gets_the_diagnostics_on_the_page(example: Example) -> None:
    assert diagnostics(example) == example.expected.splitlines()


def test_every_example_has_an_expected_outcome() -> None:
    assert [str(e) for page in PAGES for e in examples(page) if not e.kind] == []


@pytest.mark.parametrize("page", [*PAGES, *TOOLS], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    import re

    text = page.read_text()
    for target, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", text):
        file = page.parent / target if target else page
        assert file.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads], anchor
