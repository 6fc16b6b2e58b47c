"""Files as commands take them: folders, standard input, and what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from noetl_cli.errors import USAGE, Exit
from noetl_cli.inputs.files import playbooks, read


def test_a_folder_stands_for_the_playbooks_below_it(tmp_path: Path) -> None:
    for name, text in {
        "b.yaml": "kind: Playbook\n",
        "a/c.yml": 'x: 1\nkind: "Playbook"\n',
        "compose.yaml": "services: {}\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    single = tmp_path / "compose.yaml"
    assert playbooks([tmp_path, single]) == [tmp_path / "a" / "c.yml", tmp_path / "b.yaml", single]


def test_a_folder_without_playbooks_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(Exit, match="no playbook in this folder") as refused:
        playbooks([tmp_path])
    assert refused.value.code == USAGE


def test_a_dash_reads_standard_input() -> None:
    with CliRunner().isolation("kind: Playbook # ä"):
        assert read(Path("-")) == "kind: Playbook # ä"


def test_a_name_with_a_slip(tmp_path: Path) -> None:
    (tmp_path / "playbook.yaml").write_text("")
    with pytest.raises(Exit, match=r"playbok.yaml: there is no such file \(did you mean playbook.yaml\?\)"):
        read(tmp_path / "playbok.yaml")


def test_bytes_that_are_no_text_say_where(tmp_path: Path) -> None:
    (tmp_path / "image.yaml").write_bytes(b"ok\xc5\x00")
    with pytest.raises(Exit, match=r"not text in UTF-8 \(byte 3 is 0xc5\)"):
        read(tmp_path / "image.yaml")
