"""The table of commands (docs/commands.md) names every command of `noetl`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl_cli.commands import MODULES

PAGE = (Path(__file__).parents[3] / "docs" / "commands.md").read_text()
COMMANDS = "\n".join(re.findall(r"^\| (`noetl .+?) \| ", PAGE, re.MULTILINE))
"""The first cells of the table of commands."""


NAMES = sorted(name for names in MODULES.values() for name in names)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_names_each_command(name: str) -> None:
    assert re.search(rf"(`noetl |`){name}\b", COMMANDS), f"docs/commands.md has no row for `noetl {name}`"
