"""Imports and processes of the command line, and their time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
import typer

from noetl_cli.commands import MODULES, load
from tests.commands import ENV, NOETL
from tests.unit.cli.runs import HELLO


def imported_by_a_run(folder: Path) -> set[str]:
    """The modules that a process which runs a playbook has loaded at its end."""
    (folder / "hello.yaml").write_text(HELLO)
    code = (
        "import json, sys; sys.argv = ['noetl', 'run', 'hello.yaml', '--output', 'json']\n"
        "from noetl_cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert end.code == 0\n"
        "print(json.dumps(list(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=ENV, capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr))


def test_a_local_run_imports_nothing_heavy(tmp_path: Path) -> None:
    heavy = {"boto3", "botocore", "pydantic", "rich", "httpx", "duckdb", "aws_lambda_powertools", "asyncio", "aiohttp", "ruamel"}
    assert heavy & imported_by_a_run(tmp_path) == set()


def test_only_the_command_that_runs_is_imported(tmp_path: Path) -> None:
    found = {module for module in imported_by_a_run(tmp_path) if module.startswith("noetl_cli.commands.")}
    assert found == {"noetl_cli.commands.run"}


@pytest.mark.nightly
def test_a_local_run_loads_the_operations_that_it_calls(tmp_path: Path) -> None:
    operations = "noetl_core.service.operations."
    found = {module.removeprefix(operations) for module in imported_by_a_run(tmp_path) if module.startswith(operations)}
    assert found == {"base", "executions"}


PARSED = """
import sys
from noetl_core.dsl import parse
read, texts = parse.read, []
parse.read = lambda text, *more, **options: (texts.append(text), read(text, *more, **options))[1]
sys.argv = ["noetl", *sys.argv[1:]]
from noetl_cli.main import main
try: main()
except SystemExit as end: assert end.code == 0, end.code
print(len(texts), len(set(texts)), file=sys.stderr)
"""


@pytest.mark.nightly
@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "arguments", [("run", "--output", "json"), ("run", "--quiet", "--output", "json"), ("register", "--output", "json")]
)
def test_a_file_is_parsed_once(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "hello.yaml").write_text(HELLO)
    command, *options = arguments
    program = [sys.executable, "-c", PARSED, command, "hello.yaml", *options]
    done = subprocess.run(program, cwd=tmp_path, env=ENV, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "1 1", "times that a text was parsed, and texts"


def test_a_file_that_uses_tasks_of_others_is_parsed_with_those_of_the_catalog(tmp_path: Path) -> None:
    (tmp_path / "uses.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: u, path: t/u }\n"
        "workbook: { shared: { uses: 'team/none#task' } }\nworkflow: [{ step: start, tool: { kind: noop } }]\n"
    )
    program = [sys.executable, "-m", "noetl_cli.main", "run", "uses.yaml", "--output", "json"]
    done = subprocess.run(program, cwd=tmp_path, env=ENV, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "E211" in done.stderr


@pytest.mark.nightly
def test_a_short_write_ahead_log_is_left_to_the_next_command(tmp_path: Path) -> None:
    (tmp_path / "hello.yaml").write_text(HELLO)
    log = tmp_path / ".noetl" / "runs.db-wal"
    sizes = []
    for _ in range(2):
        ran = subprocess.run(
            [NOETL, "run", "hello.yaml", "--output", "json"], cwd=tmp_path, env=ENV, capture_output=True, check=True
        )
        sizes.append(log.stat().st_size)
        assert json.loads(ran.stdout)["status"] == "completed"
    assert 0 < sizes[0] < sizes[1]
    listed = subprocess.run([NOETL, "ls", "--output", "json"], cwd=tmp_path, env=ENV, capture_output=True, text=True, check=True)
    assert listed.stdout.count('"completed"') == 2


GROUPS = {"playbooks": "playbooks", "credentials": "credentials", "triggers": "triggers", "authoring.imports": "import"}
"""Modules of commands with commands of their own; the help lists them last."""


def test_each_command_is_found_in_its_module() -> None:
    command = typer.main.get_command(load())
    assert isinstance(command, click.Group)
    listed = [*(n for m, names in MODULES.items() if m not in GROUPS for n in names), *GROUPS.values()]
    remedy = "MODULES (noetl_cli/commands/__init__.py) has the commands of each module, in the order of their definition"
    assert set(command.commands) ^ set(listed) == set(), remedy
    assert list(command.commands) == listed, remedy
    for module, names in MODULES.items():
        for name in names:
            found = command.commands[name]
            first = next(iter(found.commands.values())) if isinstance(found, click.Group) else found
            assert first.callback is not None
            assert first.callback.__module__ == f"noetl_cli.commands.{module}"


PYTHON = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: python, path: t/python }
workflow:
  - step: start
    tool: { "kind": "python", code: "result = 1" }
"""


def test_the_process_of_python_tasks_starts_before_the_playbook_is_parsed(tmp_path: Path) -> None:
    (tmp_path / "python.yaml").write_text(PYTHON)
    code = (
        "import subprocess, sys; sys.argv = ['noetl', 'run', 'python.yaml', '--output', 'json']\n"
        "from noetl_cli.main import main\n"
        "begin = subprocess.Popen.__init__\n"
        "def init(self, *arguments, **options):\n"
        "    print('noetl_core.dsl.parse' in sys.modules, file=sys.stderr)\n"
        "    begin(self, *arguments, **options)\n"
        "subprocess.Popen.__init__ = init\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=ENV, capture_output=True, text=True, check=True)
    assert done.stderr.split() == ["False"], "one process, begun before"
