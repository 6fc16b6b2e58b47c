"""A hook of MkDocs: the manual for language models.

`llms.txt` (llmstxt.org) lists every page with a sentence about it. It links to the pages as Markdown, which stand beside those of
the site.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SENTENCE = re.compile(r".+?(?:[.!?](?=\s|$)|(?=:?$(?!\n)))", re.DOTALL)
_built: dict[str, Navigation] = {}


def on_page_context(context: Any, page: Page, config: MkDocsConfig, nav: Navigation) -> None:
    """Keep the navigation, which is complete when the first page is written."""
    _built[config.site_dir] = nav


def on_post_build(config: MkDocsConfig) -> None:
    """Write `llms.txt`, and the pages as Markdown."""
    nav, site = _built.pop(config.site_dir), Path(config.site_dir)
    for page in nav.pages:
        file = site / page.file.src_uri
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page.file.abs_src_path or "", file)
    (site / "llms.txt").write_text(llms_txt(nav, config), "utf-8")


def llms_txt(nav: Navigation, config: MkDocsConfig) -> str:
    """Return the text of `llms.txt`. Raises `PluginError` for a page without a sentence."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    base = (config.site_url or "").rstrip("/") + "/" if config.site_url else ""
    for title, pages in _sections(nav.items, ""):
        lines += [f"## {title}", "", *(f"- [{page.title}]({base}{page.file.src_uri}): {about(page)}" for page in pages), ""]
    return "\n".join(lines)


def about(page: Page) -> str:
    """Return the first sentence of a page."""
    blocks = re.split(r"\n\s*\n", _CODE.sub("", page.markdown or ""))
    text = next((block for block in blocks if re.match(r"[\w*`\[“\"]", block)), "")
    sentence = _SENTENCE.match(_LINK.sub(r"\1", text))
    if sentence is None:
        raise PluginError(f"{page.file.src_uri}: no sentence says what the page is about")
    return " ".join(sentence[0].split())


def _sections(items: list[Any], above: str) -> Iterator[tuple[str, list[Page]]]:
    """Yield the sections that have pages of their own, with their titles."""
    own = [item for item in items if isinstance(item, Page)]
    if own:
        yield above or "Start", own
    for item in items:
        if isinstance(item, Section):
            yield from _sections(item.children, f"{above}: {item.title}" if above else item.title)
