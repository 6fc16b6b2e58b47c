"""Every code of lint has a page, and every page is right: its bad example gives the code at the marked lines, its good one nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.dsl.reading.diagnostics import CODES, page_of
from noetl_core.dsl.versions import Version
from tests.unit.docs.language import completed

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs/language/lint"
PAGES = sorted(FOLDER.glob("[EW]*.md"))
CHILD = "workload: { customer: 0 }\nworkflow: [{ step: work, tool: { kind: noop, result: '{{ workload.customer }}' } }]\n"
MARK = re.compile(r"# ([EW]\d{3})$", re.MULTILINE)


def example(page: Path, title: str) -> str:
    found = re.search(rf"^## {title}\n\n```yaml\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    return completed(found[1])


def called(path: str, _version: Version) -> Playbook | None:
    return parse_playbook(completed(CHILD)) if path == "docs/child" else None


def test_every_code_of_lint_has_a_page_and_every_page_a_code() -> None:
    pages = {page_of(code) for code in CODES} - {None}
    assert pages == {str(page.relative_to(ROOT)) for page in PAGES}
    assert {code for code in CODES if code[0] == "W"} - {"W450"} <= {page.stem for page in PAGES}
    listed = set(re.findall(r"\]\(([EW]\d{3})\.md\) \| ", (FOLDER / "README.md").read_text()))
    assert listed == {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_is_named_after_its_subject(page: Path) -> None:
    assert page.read_text().startswith(f"# {page.stem}: {CODES[page.stem]}\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_bad_example_gives_exactly_the_code_at_the_marked_lines(page: Path) -> None:
    source = example(page, "Bad")
    marked = [(source.count("\n", 0, m.start()) + 1, m[1]) for m in MARK.finditer(source)]
    assert marked
    assert {code for _, code in marked} == {page.stem}
    playbook, found = check(source, called=called)
    assert [(d.line, d.code) for d in found] == marked, "\n".join(map(str, found))
    assert (playbook is None) == (page.stem[0] == "E")
    assert all(d.hint or d.code in ("W403",) for d in found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_good_example_gives_nothing(page: Path) -> None:
    playbook, found = check(example(page, "Good"), called=called)
    assert [str(d) for d in found] == []
    assert playbook is not None
