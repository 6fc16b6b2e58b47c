"""Every test that the README's tables name is there."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_every_interleaving_names_tests_that_exist() -> None:
    rows = [line for line in (HERE / "README.md").read_text().splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) > 35
    for row in rows:
        named = re.findall(r"`([\w./]+\.py)(?:::(\w+))?`", row)
        assert named, row
        for file, test in named:
            source = (HERE / file).read_text()
            assert not test or re.search(rf"def {test}\b", source), f"{file}::{test}"
