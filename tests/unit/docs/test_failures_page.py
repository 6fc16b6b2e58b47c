"""docs/failures.md: its console examples, one session from top to bottom, print what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl_cli.inputs.environments import on_failure
from noetl_core.dsl.model import OnFailure
from tests.page_sessions import check_session, write_files

PAGE = (Path(__file__).parents[3] / "docs" / "failures.md").read_text()


def test_every_command_of_the_page_prints_the_shown_output(tmp_path: Path) -> None:
    write_files(PAGE, tmp_path)
    check_session(PAGE, tmp_path)


def test_the_default_of_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "noetl.toml").write_text(toml)
    monkeypatch.chdir(tmp_path)
    assert on_failure() == OnFailure(playbook="ops/alert")
