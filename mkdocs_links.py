"""A hook of MkDocs: links from `docs` to other files of the repository, and the weights of pages in the search.

On GitHub such a link leads to the file. The site has no such file, so the link leads to the repository's page of it, or, where
the site is built without an address of the repository, to a copy of the file in the site. A link to nothing stops the build.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from posixpath import relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")
BOOSTS = {
    "questions.md": 500,
    "recipes/": 4,
    "events.md": 0.01,
    "conformance.md": 0.001,
    "decisions.md": 0.01,
    "language/lint/": 0.1,
}
"""The weight in the search of pages whose path begins with this: answers come before lists of details."""


def on_page_markdown(text: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return `text` with its links out of `docs` rewritten, and set the page's weight. Raises `PluginError`."""
    folder = Path(page.file.abs_src_path or "").parent
    page.meta["search"] = {"boost": next((boost for path, boost in BOOSTS.items() if page.file.src_uri.startswith(path)), 1)}

    def rewritten(link: re.Match[str]) -> str:
        path = Path(os.path.normpath(folder / link[1]))
        if path.is_relative_to(config.docs_dir):
            return link[1]
        if not path.exists():
            raise PluginError(f"{page.file.src_uri}: {link[1]} leads nowhere")
        name = path.relative_to(ROOT).as_posix()
        if config.repo_url:
            return f"{config.repo_url.rstrip('/')}/blob/main/{name}"
        copy = f"source/{name}" + (".txt" if path.suffix == ".md" else "")  # a page of the site stands in `docs`
        if path.is_file() and files.get_file_from_path(copy) is None:
            files.append(File.generated(config, copy, abs_src_path=str(path)))
        return relpath(copy, Path(page.file.src_uri).parent.as_posix())

    return LINK.sub(rewritten, text)
