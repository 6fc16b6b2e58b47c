"""The page about tests: each file, command and output of it, and its tables.

`python -m tests.unit.docs.test_testing_page` writes the tables.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl_core.testing import fields
from tests import commands

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARKED = re.compile(r"(<!-- (outcome|act|case|expect) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
TIME = re.compile(r"in \d+\.\d\d s$", re.MULTILINE)


def tables(text: str) -> str:
    """Return the page with its tables as `fields` has them."""

    def table(found: re.Match[str]) -> str:
        keys = {"outcome": fields.OUTCOME, "act": fields.ACT, "case": fields.CASE, "expect": fields.EXPECT}[found[2]]
        rows = "".join(f"| `{name}` | {key.doc} |\n" for name, key in keys.items())
        return f"{found[1]}| key | meaning |\n|---|---|\n{rows}{found[4]}"

    return MARKED.sub(table, text)


def test_the_tables_are_those_of_the_reader() -> None:
    assert tables(PAGE.read_text()) == PAGE.read_text()


def outputs(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Write the files of the page in their order, and yield each command, what the page shows of it, and what it prints."""
    for language, text in BLOCK.findall(PAGE.read_text()):
        if language == "console":
            line, _, shown = text.partition("\n")
            done = commands.run(*shlex.split(line.removeprefix("$ noetl ")), cwd=folder)
            yield line, TIME.sub("in 0.00 s", shown), TIME.sub("in 0.00 s", done.stdout + done.stderr)
        else:
            name = text.partition("\n")[0].removeprefix("# ")
            assert re.fullmatch(r"[\w.]+\.(yaml|py)", name), f"the block begins with the name of its file: {name}"
            (folder / name).write_text(text)


@pytest.mark.nightly
def test_each_command_prints_the_output_on_the_page(tmp_path: Path) -> None:
    seen = list(outputs(tmp_path))
    assert len(seen) == 7
    for line, shown, printed in seen:
        assert printed == shown, line
    command = [sys.executable, "-m", "pytest", "-q", "-p", "noetl_cli.pytest_plugin", "--rootdir", str(tmp_path)]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # loading those of this repository takes seconds
    done = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert "8 passed" in done.stdout, done.stdout + done.stderr


if __name__ == "__main__":
    PAGE.write_text(tables(PAGE.read_text()))
