"""`noetl lsp` as a command, and the extension of VS Code that starts it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from noetl_cli.commands.authoring import lsp
from noetl_cli.errors import USAGE, Exit
from noetl_core import __version__
from noetl_core.dsl.parse import check
from tests.unit.lsp.client import Client
from tests.unit.lsp.texts import ORDERS

EXTENSION = Path(__file__).parents[3] / "editors/vscode"
PACKAGE: dict[str, Any] = json.loads((EXTENSION / "package.json").read_text())


def test_without_the_extra_the_command_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygls", None)  # as if it were not installed
    with pytest.raises(Exit, match=re.escape("pip install 'noetl-serverless[lsp]'")) as ended:
        lsp.lsp()
    assert ended.value.code == USAGE


@pytest.mark.nightly
def test_the_process_serves_an_editor_and_ends_with_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "noetl_cli.main", "lsp", "--stdio"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            client = Client(process.stdin, process.stdout)
            assert client.initialize()["serverInfo"] == {"name": "noetl", "version": __version__}
            client.open(ORDERS.replace("do: retry", "do: rety"))
            assert [one["code"] for one in client.found()] == ["E113"]
            found = client.at("hover", ORDERS.index("do: retry") + 1, ORDERS)
            assert "(file://" in found["contents"]["value"]
            client.ask("shutdown", None)
            client.notify("exit", None)
            assert process.wait(30) == 0
            assert process.stderr.read() == b""
        finally:
            process.kill()


def test_the_extension_has_the_files_that_it_names_and_pinned_packages() -> None:
    contributed = PACKAGE["contributes"]
    named = [part["path"] for part in (*contributed["grammars"], *contributed["snippets"])]
    named += [language["configuration"] for language in contributed["languages"]]
    shipped = [line.removeprefix("!") for line in (EXTENSION / ".vscodeignore").read_text().splitlines() if line.startswith("!")]
    for name in named:
        json.loads((EXTENSION / name).read_text())
        assert any(Path(name).match(pattern) for pattern in shipped), name
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in PACKAGE["devDependencies"].values())
    lock = json.loads((EXTENSION / "package-lock.json").read_text())["packages"]
    assert {name: lock[f"node_modules/{name}"]["version"] for name in PACKAGE["devDependencies"]} == PACKAGE["devDependencies"]
    assert PACKAGE["version"] == __version__


def test_the_extension_uses_the_settings_and_commands_that_it_declares() -> None:
    code = (EXTENSION / "src/extension.js").read_text()
    settings = set(PACKAGE["contributes"]["configuration"]["properties"])
    assert settings == {"noetl.path", "noetl.trace.server"}
    assert 'get("path")' in code
    assert 'new LanguageClient("noetl"' in code  # the client reads noetl.trace.server
    assert set(re.findall(r'registerCommand\("([\w.]+)"', code)) == {one["command"] for one in PACKAGE["contributes"]["commands"]}
    assert set(re.findall(r'args: \["(\w+)"\]', code)) == {"lsp"}
    begins = code.partition("async function start()")[2].partition("\n}\n")[0]
    assert re.findall(r"await ([\w.]+)", begins) == ["client.start"], "a message that nobody answers delays no command"


def test_its_snippet_is_a_valid_playbook() -> None:
    (snippet,) = json.loads((EXTENSION / "snippets/playbook.json").read_text()).values()
    text = re.sub(r"\$\{\d:(\w+)\}", r"\1", "\n".join(snippet["body"])).replace("$0", "result: 1")
    playbook, found = check(text)
    assert playbook is not None
    assert found == []
