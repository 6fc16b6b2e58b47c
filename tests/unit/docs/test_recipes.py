"""docs/recipes: each playbook gives what its page says, and each command prints what the page shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.page_sessions import check_session, write_files
from tests.unit.docs.demo_aws import services
from tests.unit.docs.language import Example, examples, run
from tests.unit.docs.outcomes import holds

FOLDER = Path(__file__).parents[3] / "docs/recipes"
ON_STACK = {"embedded-s3.md"}
"""Run by `tests/e2e/test_recipes.py`."""
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "README.md")
EXAMPLES = [example for page in PAGES for example in examples(page) if example.kind == "json"]
SESSIONS = [page for page in PAGES if "```console" in page.read_text() and page.name not in ON_STACK]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_a_playbook_gives_the_result_in_its_recipe(example: Example) -> None:
    expected = {key: value for key, value in json.loads(example.expected).items() if key != "given"}
    assert "status" in expected
    with services(example.source.replace("s3://", "kind: s3")):
        holds(run(example, []), expected)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: page.name)
def test_commands_print_the_output_in_their_recipe(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    write_files(text, tmp_path)
    check_session(text, tmp_path)


def test_the_index_lists_each_recipe_once() -> None:
    listed = re.findall(r"\]\((\S+\.md)\)", (FOLDER / "README.md").read_text())
    assert sorted(listed) == [page.name for page in PAGES]


def test_every_recipe_is_run() -> None:
    run_here = {example.page for example in EXAMPLES} | {page.name for page in SESSIONS} | ON_STACK
    assert [page.name for page in PAGES if page.name not in run_here] == []
