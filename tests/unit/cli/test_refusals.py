"""A refused command says once why, with what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import commands

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: report, path: team/report }
executor:
  spec:
    triggers:
      - { schedule: "0 2 * * *" }
workload: { n: 1, x-schema: { properties: { n: { type: integer } } } }
workflow: [{ step: only, tool: { kind: noop } }]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("refusals")
    (folder / "report.yaml").write_text(PLAYBOOK)
    assert commands.run("register", "report.yaml", "--on", "local", cwd=folder).returncode == 0
    return folder


def test_a_failed_backfill_prints_the_command_that_continues_it(folder: Path) -> None:
    failing = PLAYBOOK.replace("team/report", "team/broken").replace("kind: noop", 'kind: noop, result: "{{ 1 / 0 }}"')
    (folder / "broken.yaml").write_text(failing)
    assert commands.run("register", "broken.yaml", "--on", "local", cwd=folder).returncode == 0
    asked = ("backfill", "team/broken", "--from", "2026-03-28", "--to", "2026-03-30")
    assert commands.run(*asked, cwd=folder).returncode == 1
    again = commands.run(*asked, cwd=folder)
    assert again.returncode == 1
    assert "which was started before and is failed: `noetl redrive " in again.stderr


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            "triggers fire team/report schedule --at 2026-03-31T07:00Z",
            "2026-03-31T07:00Z is not an occurrence of the schedule (nearest: 2026-03-31T02:00:00Z and 2026-04-01T02:00:00Z)",
        ),
        ("triggers fire team/report schedule --event {}", "trigger schedule is a schedule and takes no event (leave it out)"),
        ("triggers show team/report daily", "playbook team/report has no trigger 'daily' (it has: schedule)"),
        ("triggers enable team/report daily", "playbook team/report has no trigger 'daily' (it has: schedule)"),
        ("triggers retry 7", "no refused start has the id 7"),
        (
            "backfill team/report@1.5 --from 2026-03-28 --to 2026-03-29",
            "'1.5' is not a version of a playbook: a number, or an alias such as prod",
        ),
        ("backfill team/report --from 2026-03-29 --to 2026-03-28", "from (2026-03-29) is not before to (2026-03-28)"),
        ("backfill team/report --from 2026-03-28 --to 2026-03-29 --parallel 0", "parallel must be a number from 1 to 100, not 0"),
        ("playbooks alias team/report prod 9", "no playbook team/report version 9"),
        ("playbooks tag team/report !", "'!' cannot be a tag: up to 64 letters, digits and _ . : = / -, a letter or digit first"),
        ("playbooks delete team/nobody", "no playbook team/nobody"),
        ("run team/report@prod", "playbook team/report has no alias 'prod' (it has no alias)"),
        ("ls --limit 0", ""),
        ("run team/report --set n=x", ""),
    ],
)
def test_a_refusal_is_printed_once(folder: Path, asked: str, message: str) -> None:
    done = commands.run(*asked.split(), cwd=folder)
    assert done.returncode == 2
    told = [line for line in done.stderr.splitlines() if line.strip()]
    if message:
        assert told == [message]
    assert len({line.partition(" ")[2] for line in told}) == len(told), told


def test_a_refused_delivery_is_printed_once_with_its_remedy(folder: Path) -> None:
    failing = PLAYBOOK.replace("team/report", "team/late").replace('"0 2 * * *"', '"0 2 * * *", payload: { n: "{{ 1 / 0 }}" }')
    (folder / "late.yaml").write_text(failing)
    assert commands.run("register", "late.yaml", cwd=folder).returncode == 0
    done = commands.run("triggers", "fire", "team/late", "schedule", "--at", "2026-03-31T02:00Z", cwd=folder)
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first == "2026-03-31T02:00:00Z is refused: {{ 1 / 0 }}: division by zero"
    assert second.startswith("once the cause is mended: noetl triggers retry ")


@pytest.mark.parametrize(
    "asked", ["limits \udcff", "ls --path a\udcff", "triggers fire team/report schedule --idempotency-key \udcff"]
)
def test_an_argument_that_is_not_text_is_refused(folder: Path, asked: str) -> None:
    done = commands.run(*asked.split(), cwd=folder)
    assert (done.returncode, done.stderr) == (2, f"argument {asked.split()[-1]!a} is not UTF-8 text\n")
