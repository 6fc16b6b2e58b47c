"""`llms.txt`, the manual's table of contents for language models: every page, each with a sentence."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mkdocs_llms
import pytest
from mkdocs.exceptions import PluginError
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

DOCS = Path(__file__).parents[3] / "docs"


def page(name: str, title: str, markdown: str) -> Page:
    made = Page.__new__(Page)
    made.title, made.markdown = title, markdown
    made.file = SimpleNamespace(src_uri=name, name="", abs_src_path=str(DOCS / name))  # type: ignore[assignment]  # the attributes that the hook reads
    return made


def config(site: Path, **more: Any) -> Any:
    about = {"site_name": "NoETL", "site_description": "Workflows", "site_url": None, "site_dir": str(site)}
    return SimpleNamespace(**about | more)


NAV = Navigation(
    [
        page("index.md", "Home", "# Home\n\nIt runs [workflows](a.md) on AWS. It is small.\n"),
        Section("Reference", [page("api.md", "API", "# API\n\n| a |\n|---|\n\n`noetl` asks it for:\n\n* this\n"), Section("Deep", [
            page("language/loops.md", "Loops", "# Loops\n\n```yaml\na: 1\n```\n\n`loop: x` repeats a\nstep\n"),
        ])]),
    ],
    [],
)  # fmt: skip


def test_pages_are_listed_by_section_with_their_first_sentences() -> None:
    assert mkdocs_llms.llms_txt(NAV, config(Path())) == (
        "# NoETL\n\n> Workflows\n\n"
        "## Start\n\n- [Home](index.md): It runs workflows on AWS.\n\n"
        "## Reference\n\n- [API](api.md): `noetl` asks it for\n\n"
        "## Reference: Deep\n\n- [Loops](language/loops.md): `loop: x` repeats a step\n"
    )
    assert "](https://x.org/docs/index.md)" in mkdocs_llms.llms_txt(NAV, config(Path(), site_url="https://x.org/docs/"))


def test_a_page_without_a_sentence_stops_the_build() -> None:
    with pytest.raises(PluginError, match=r"empty\.md"):
        mkdocs_llms.about(page("empty.md", "Empty", "# Empty\n"))


def test_every_page_of_the_manual_has_a_sentence() -> None:
    for file in DOCS.rglob("*.md"):
        about = mkdocs_llms.about(page(file.name, file.stem, file.read_text()))
        assert len(about.split()) > 2, (file, about)


def test_the_pages_stand_beside_the_site_as_markdown(tmp_path: Path) -> None:
    one = page("language/loops.md", "Loops", "# Loops\n\nA loop repeats.")
    nav = Navigation([one], [one])
    mkdocs_llms.on_page_context({}, one, config(tmp_path), nav)
    mkdocs_llms.on_post_build(config(tmp_path))
    assert (tmp_path / "language/loops.md").read_bytes() == (DOCS / "language/loops.md").read_bytes()
    assert "language/loops.md" in (tmp_path / "llms.txt").read_text()
