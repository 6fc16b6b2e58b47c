"""docs/looking.md: its console examples, one session from top to bottom, print what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.page_sessions import check_session

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "looking.md").read_text()


@pytest.mark.nightly
def test_every_command_of_the_page_prints_the_shown_output(tmp_path: Path) -> None:
    (source,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "shop.yaml").write_text(source)
    check_session(PAGE, tmp_path)
    assert (tmp_path / "shop.svg").read_text().startswith("<svg")
