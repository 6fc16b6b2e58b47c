"""Conventions of all commands: forms of output, colours, completion."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import click
import pytest
import typer
import yaml

from noetl_cli.app import COMPLETING
from noetl_cli.commands import load
from noetl_cli.display import output
from tests.commands import ENV, in_process
from tests.unit.cli.runs import Run

PRINTS = (
    ("ls",),
    ("show", "@last"),
    ("show", "@last", "start"),
    ("why", "@last"),
    ("events", "@last"),
    ("timeline", "@last"),
    ("cost", "@last"),
    ("logs", "@last"),
    ("replay", "@last"),
    ("playbooks",),
    ("credentials", "list"),
)


def test_commands_print_the_same_data_as_json_yaml_and_jsonl(noetl: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert noetl("run", "hello.yaml").returncode == 0
    monkeypatch.chdir(tmp_path)
    for name in {*os.environ} - {*ENV}:
        monkeypatch.delenv(name)
    for command in PRINTS:
        as_json = json.loads(in_process(*command, "--output", "json").stdout)
        assert yaml.safe_load(in_process(*command, "--output", "yaml").stdout) == as_json, command
        lines = [json.loads(line) for line in in_process(*command, "--output", "jsonl").stdout.splitlines()]
        wanted = as_json["spans"] if command[0] == "timeline" else as_json
        assert lines in (wanted, [wanted]), command
    assert noetl("ls", "--output", "text").stdout == noetl("ls", "--output", "human").stdout


def test_every_command_that_has_output_has_all_forms() -> None:
    root = typer.main.get_command(load())
    assert isinstance(root, click.Group)
    for name, command in root.commands.items():
        for parameter in command.params:
            if "--output" in parameter.opts and "--format" not in parameter.opts:
                assert parameter.type.name == "text|json|jsonl|yaml", name


def test_an_unknown_form_is_refused_with_the_known(noetl: Run) -> None:
    done = noetl("ls", "--output", "xml")
    assert done.returncode == 2 and "'xml' is not one of text, json, jsonl, yaml" in done.stderr


def test_no_color_is_heeded_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert output.styled("x", "bold") == "\x1b[1mx\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert output.styled("x", "bold") == "x"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(noetl: Run, shell: str) -> None:
    assert f"{COMPLETING}={shell}_complete" in noetl("completion", shell).stdout


def test_commands_forms_and_ids_are_completed(noetl: Run) -> None:
    assert noetl("run", "hello.yaml").returncode == 0

    def offered(line: str) -> list[str]:
        env: dict[str, Any] = {COMPLETING: "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        return [word.partition(",")[2] for word in noetl(**env).stdout.splitlines()]

    assert offered("noetl sho") == ["show"]
    assert offered("noetl ls --output js") == ["json", "jsonl"]
    assert offered("noetl ls --on st") == ["stack"]
    assert re.fullmatch(r"\d{18,19}", offered("noetl show 3")[0])


def test_an_unknown_payload_key_of_a_registered_child_is_reported_once(noetl: Run, tmp_path: Path) -> None:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\n"
    child = head + "metadata: { name: c, path: t/c }\nworkload: { n: 0 }\nworkflow: [{ step: a, tool: { kind: noop } }]\n"
    call = "workflow: [{ step: a, tool: { kind: playbook, path: t/c, payload: { m: 1 } } }]\n"
    for folder in ("children", "parents"):
        (tmp_path / folder).mkdir()
    (tmp_path / "children/c.yaml").write_text(child)
    (tmp_path / "parents/p.yaml").write_text(head + "metadata: { name: p, path: t/p }\n" + call)
    assert "W532" not in noetl("register", "parents/p.yaml").stderr
    noetl("register", "children/c.yaml")
    assert noetl("register", "parents/p.yaml").stderr.count("W532 t/c has no input m") == 1
    assert "W532" not in noetl("register", "--quiet", "parents/p.yaml").stderr
    (tmp_path / "parents/c.yaml").write_text(child)
    assert noetl("register", "parents/p.yaml").stderr.count("W532 t/c has no input m") == 1, "of the file beside it"
    (tmp_path / "parents/c.yaml").write_text(child.replace("n: 0", "m: 0"))
    assert "W532" not in noetl("register", "parents/p.yaml").stderr, "its new version is beside it"


def test_a_playbook_is_registered_in_the_local_store_by_default(noetl: Run, tmp_path: Path) -> None:
    assert noetl("register", "hello.yaml").stdout.endswith(" on local\n")
    assert json.loads(noetl("playbooks", "--output", "json").stdout)[0]["path"] == "test/hello"
