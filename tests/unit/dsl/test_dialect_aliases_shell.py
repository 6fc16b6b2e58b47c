"""The dialect of the field: lines of shell code with templates of other programs in them, and with options of their own."""

from __future__ import annotations

import json

import pytest

from noetl_core.dsl.parse import parse_playbook
from noetl_migrate import migrate
from tests.unit.dsl.broken_playbooks import flow
from tests.unit.dsl.dialect import PLAIN, found, one, same


def shell(key: str, lines: object, more: str = "") -> str:
    return one(f"{{kind: shell, {more}{key}: {json.dumps(lines)}}}")


@pytest.mark.parametrize(
    ("line", "script"),
    [
        ("docker images --format '{{.Repository}}:{{ .Tag }}'", "docker images --format '{{.Repository}}:{{ .Tag }}'\n"),
        ("docker inspect --format '{{json .State.Health}}' x", "docker inspect --format '{{json .State.Health}}' x\n"),
        ("docker ps -q --format {{.}}", "docker ps -q --format {{.}}\n"),
    ],
)
@pytest.mark.parametrize("key", ["cmds", "command"])
def test_a_template_of_the_program_that_a_line_runs_stays_as_it_is(key: str, line: str, script: str) -> None:
    same(shell(key, [line] if key == "cmds" else line), shell("script", script), editors=False)


def test_an_older_dialect_with_such_a_line_is_rewritten() -> None:
    older = flow(
        "step: a\ntool: {kind: shell, cmds: [\"docker ps --format '{{.ID}}' {{ workload.n }}\"]}\nnext: [{step: b}]",
        f"step: b\n{PLAIN}",
    )
    migrated = migrate(older)
    assert not migrated.failed, migrated.diagnostics
    assert parse_playbook(migrated.text).steps[0].tasks[0].inputs["script"] == "docker ps --format '{{.ID}}' ${VALUE_1}\n"


def test_an_expression_beside_it_becomes_a_variable() -> None:
    line = "docker images --format '{{.ID}}' \"{{ workload.image }}\""
    accepted = shell("cmds", [line])
    script = "docker images --format '{{.ID}}' \"${VALUE_1}\"\n"
    same(accepted, shell("script", script, "env: {VALUE_1: '{{ workload.image }}'}, "), editors=False)
    (error,) = found(accepted.replace("workload.image", "workload.image |"))
    assert error.startswith("E301 template: ")
    assert "'.'" not in error


@pytest.mark.parametrize(
    "task",
    [
        "{kind: shell, cmds: [\"docker ps --format '{{range .Ports}}{{.}}{{end}}'\"]}",
        "{kind: shell, command: [docker, ps, --format, '{{.ID}}']}",
        "{kind: http, url: 'http://x/{{.ID}}'}",
        "{kind: noop, args: {cmds: ['{{.ID}}']}}",
    ],
)
def test_elsewhere_such_a_text_is_a_template_that_cannot_be_read(task: str) -> None:
    assert [error[:14] for error in found(one(task))] == ["E301 template:"]


@pytest.mark.parametrize(
    ("lines", "keeps_on"),
    [
        (["set -u\nfalse\ndate\n"], True),
        (["# why\n\nset -uo pipefail\nfalse\ndate\n"], True),
        (["set -eu\nfalse\ndate\n"], False),
        (["set -o errexit\nfalse\n"], False),
        (["set -o nounset\nfalse\n"], True),
        (["set -x\nfalse\n"], False),
        (["set -o pipefail\nfalse -u\n"], False),
        (["false\nset -u\n"], False),
        (["set -u\nfalse\n", "date"], False),
        (["date", "ls"], False),
    ],
)
def test_lines_that_begin_with_options_end_at_a_failing_line_if_the_options_say_so(lines: list[str], *, keeps_on: bool) -> None:
    script = parse_playbook(shell("cmds", lines)).steps[0].tasks[0].inputs["script"]
    assert script.startswith("set +e\n") == keeps_on
    bash = "shell: bash, " if "pipefail" in script else ""
    same(shell("cmds", lines), shell("script", script, bash), editors=False)
