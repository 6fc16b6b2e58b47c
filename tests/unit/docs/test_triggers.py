"""docs/triggers.md: every playbook is read, every table of occurrences is true, and the commands print what the page shows."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest

from noetl_core.dsl.model import Schedule
from noetl_core.dsl.parse import check
from noetl_core.engine.schedules.occurrences import name_of, occurrences
from tests.page_sessions import MARK, fits, shell
from tests.unit.docs.language import BLOCK

PAGE = (Path(__file__).parents[3] / "docs/triggers.md").read_text()
BLOCKS = [(m[1], m[2]) for m in BLOCK.finditer(PAGE)]
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: example, path: docs/example }\n"
FOOT = "workflow: [{ step: start, tool: { kind: noop } }]\n"
PLAYBOOKS = [
    (body if body.startswith("apiVersion") else f"{HEAD}{body}{FOOT}", following[1] if following[0] == "text" else "")
    for (kind, body), following in zip(BLOCKS, [*BLOCKS[1:], ("", "")], strict=True)
    if kind == "yaml"
]
ROWS = re.findall(r"^\| `([^`]+)` \| ([\w/]+) \| (\S+Z) \| ([^|]+) \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("source", "expected"), PLAYBOOKS)
def test_a_playbook_of_the_page_is_read_or_refused_as_it_says(source: str, expected: str) -> None:
    found = check(source)[1]
    assert [f"{d.code} {d.message} ({d.hint})" for d in found] == expected.splitlines()


@pytest.mark.parametrize(("cron", "zone", "after", "expected"), ROWS)
def test_occurrences_are_as_the_page_says(cron: str, zone: str, after: str, expected: str) -> None:
    wanted = [at.replace("Z", ":00Z") for at in expected.strip().split(", ")]
    begin = int(datetime.fromisoformat(after).astimezone(UTC).timestamp()) * 1_000_000
    assert [name_of(at) for at in islice(occurrences(Schedule(cron, timezone=zone), begin), len(wanted))] == wanted


def test_the_page_has_rows_and_playbooks_to_test() -> None:
    assert len(ROWS) >= 6
    assert len(PLAYBOOKS) >= 4


def test_every_command_of_the_page_prints_the_shown_output(tmp_path: Path) -> None:
    (console,) = [body for kind, body in BLOCKS if kind == "console"]
    commands: list[tuple[str, list[str]]] = []
    for line in console.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        else:
            commands[-1][1].append(line)
    (tmp_path / "nightly.yaml").write_text(PLAYBOOKS[0][0])
    script = "exec 2>&1\n" + "".join(f"{command}\necho '{MARK}'\n" for command, _ in commands)
    printed = shell(script, tmp_path).split(f"{MARK}\n")[:-1]
    assert len(printed) == len(commands)
    for (command, shown), text in zip(commands, printed, strict=True):
        assert fits(shown, text.splitlines()), f"$ {command}\n{text}"
