"""Commands in a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import commands
from tests.commands import ENV, Completed
from tests.unit.cli.runs import HELLO, SLOW, Run


@pytest.fixture
def noetl(tmp_path: Path) -> Run:
    (tmp_path / "hello.yaml").write_text(HELLO)
    (tmp_path / "slow.yaml").write_text(SLOW)

    def run(*arguments: str, **env: str) -> Completed:
        return commands.run(*arguments, cwd=tmp_path, env={**ENV, **env})

    return run
