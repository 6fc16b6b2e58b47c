"""docs/catalog.md: its console examples, one session from top to bottom, print what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.page_sessions import check_session, write_files

PAGE = (Path(__file__).parents[3] / "docs" / "catalog.md").read_text()


@pytest.mark.nightly
def test_every_example_prints_the_output_on_the_page(tmp_path: Path) -> None:
    write_files(PAGE, tmp_path)
    check_session(PAGE, tmp_path)
