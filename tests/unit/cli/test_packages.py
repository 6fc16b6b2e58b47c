"""Packages that a playbook requires: `noetl run` installs the missing ones before the playbook runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl_cli.errors import Exit
from noetl_cli.inputs.packages import install
from noetl_core.adapters.local.home import home
from noetl_core.adapters.local.packages import LocalPackages


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))


def test_installed_packages_are_not_installed_again(capsys: pytest.CaptureFixture[str]) -> None:
    LocalPackages(home()).folder(("tabulate==0.9.0",)).mkdir(parents=True)
    install(("tabulate==0.9.0",))
    assert capsys.readouterr() == ("", "")


def test_a_package_that_no_index_has_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exit) as refused:
        install(("noetl-has-no-such-package==0.0.1",))
    assert "noetl-has-no-such-package" in str(refused.value)
    assert "installing noetl-has-no-such-package==0.0.1 into " in capsys.readouterr().err
