"""Every kind of task is found from the pages that one reads first."""

from __future__ import annotations

import re
from pathlib import Path

from noetl_core.dsl.kinds import KINDS

ROOT = Path(__file__).parents[3]


def test_the_page_of_tools_leads_to_a_page_of_every_kind() -> None:
    text = (ROOT / "docs" / "tools" / "README.md").read_text()
    pages = dict(re.findall(r"\[`([a-z0-9]+)`\]\(([^)#]*)", text))
    assert set(pages) == set(KINDS), "docs/tools/README.md has a row for each kind, with a link to its page"
    for kind, page in pages.items():
        assert not page or (ROOT / "docs" / "tools" / page).is_file(), kind
