"""Runs the examples of the documents."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.dsl.kinds import ENGINE_KINDS, KINDS
from noetl_core.log.stored_values import Values
from noetl_core.runtime.local import LocalWiring

ROOT = Path(__file__).parents[3]
PACKAGES = sorted(
    p.parent for r in ("layers/noetl_core", "cli", "infra") for p in (ROOT / r).rglob("__init__.py") if "build" not in p.parts
)
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/tools").glob("*.md"), ROOT / "tests" / "README.md"]
)


def playbooks_in(document: Path) -> list[str]:
    """The YAML blocks of a document that are whole playbooks."""
    blocks = re.findall(r"```yaml\n(.*?)```", document.read_text(), re.DOTALL)
    return [block for block in blocks if "apiVersion:" in block]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("README.md", "Hello, world!"),
        (
            "docs/first-playbook.md",
            {"greetings": ["Hello, Ada!", "Hello, Grace!", "Hello, Barbara!"], "how_many": 3},
        ),
    ],
)
def test_the_playbook_a_newcomer_copies_runs(document: str, expected: object, tmp_path: Path) -> None:
    (source,) = playbooks_in(ROOT / document)
    local = LocalWiring(tmp_path / "log.sqlite")
    try:
        started = local.start(StartRequest(playbook=source))
        local.run(started.execution_id, timeout_s=30)
        state = local.control.load(started.execution_id)
        assert state.status == "completed"
        assert Values(local.store, local.results, started.execution_id).at(state.result) == expected
    finally:
        local.close()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_named_files_exist(document: Path) -> None:
    text = document.read_text()
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    named = re.findall(r"`((?:docs|examples|functions|layers|tests|bench)/[\w./-]+)`", text)
    missing = [link for link in links if not (document.parent / link).exists()]
    missing += [name for name in named if not (ROOT / name).exists()]
    assert missing == []


def test_each_page_of_the_language_stands_once_in_its_index() -> None:
    folder = ROOT / "docs" / "language"
    listed = re.findall(r"^\| \[[^]]+\]\(([^)]+)\)", (folder / "README.md").read_text(), re.MULTILINE)
    pages = {p.name for p in folder.glob("*.md")} - {"README.md", "matrix.md"} | {"lint/README.md", "../tools/README.md"}
    assert sorted(listed) == sorted(pages)


def test_each_tool_has_a_page_or_a_section_and_stands_in_the_table_of_tools() -> None:
    folder = ROOT / "docs" / "tools"
    listed = set(re.findall(r"\[`\w+`\]\(([\w.]*)#?\w*\)", (folder / "README.md").read_text())) - {""}
    pages = {p.name for p in folder.glob("*.md")} - {"README.md", "matrix.md"}
    assert listed == pages
    assert pages == {f"{kind}.md" for kind in set(KINDS) - ENGINE_KINDS - {"noop"}}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_package_docstring_states_its_contents_and_its_limits(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    assert len(re.findall(r"[.:](?:\s|$)", docstring)) >= 2, docstring
    assert re.search(r"\b(not|no|nothing|never|only|none|nobody)\b", docstring, re.IGNORECASE), docstring


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_package_names_modules_that_it_has(package: Path) -> None:
    """Checks plain words in a package's docstring that are described as modules (`name` is, are, finds ...)."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    named = re.findall(r"(?:^|[;,.:] |and )`([a-z_]+)`(?= (?:is|are|finds|shows|holds|has|says|makes|knows))", docstring)
    known = {p.stem for p in package.glob("*.py")} | {p.name for p in package.iterdir() if p.is_dir()}
    assert [name for name in named if name not in known] == []
