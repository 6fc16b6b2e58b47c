"""Output at a terminal: a task's output cannot control it, long texts are shortened with a notice, narrow ones remain
readable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from noetl_cli.commands import load
from noetl_cli.display import explain, output
from noetl_cli.errors import say
from noetl_cli.terminal import visible
from tests.unit.cli.runs import Run

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"
ESCAPES = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \u202eabc\u202c \x9b2J"
SEEN = "red \\x1b]0;title\\x07 \\u202eabc\\u202c \\x9b2J"
HOSTILE = HEAD + (
    "metadata: { name: hostile, path: test/hostile }\nworkflow:\n  - step: start\n    tool:\n      kind: python\n      code: |\n"
    f"        text = {ESCAPES!a}\n        print(text)\n        raise ValueError(text + ' ' + 'long ' * 400)\n"
)


def test_output_of_tasks_cannot_control_the_terminal(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "hostile.yaml").write_text(HOSTILE)
    done = noetl("run", "hostile.yaml")
    assert done.returncode == 1
    for command in (("show", "@last"), ("why", "@last"), ("logs", "@last"), ("events", "@last")):
        shown = noetl(*command).stdout
        assert SEEN.split()[-1] in shown, command
        assert not set(shown) & set("\x1b\x07\x9b\u202e"), command
    assert SEEN in done.stdout and not set(done.stdout + done.stderr) & set("\x1b\x07\x9b\u202e")
    kept = json.loads(noetl("logs", "@last", "--output", "json").stdout)
    assert kept[0]["stdout"].rstrip("\n") == ESCAPES


def test_a_long_message_is_shortened_with_a_word_how_to_see_it(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "hostile.yaml").write_text(HOSTILE)
    told = noetl("run", "hostile.yaml").stdout
    line = next(line for line in told.splitlines() if "ValueError" in line)
    assert len(line) < 1_200 and "characters: --output json has all)" in line
    assert "hostile.yaml:11" in told  # the traceback stays in sight


@pytest.mark.parametrize("text", ["שלום עולם", "naïve 漢字 🎉", "tab\tand\nline", "mark \u200f of direction"])
def test_ordinary_text_of_any_language_is_shown_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_messages_on_standard_error_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"there is no step {ESCAPES}")
    assert capsys.readouterr().err == f"there is no step {SEEN}\n"


ROW = {"execution": "3765163191144367143", "status": "completed", "playbook": "shop@1", "started": "2026-11-22T17:46:41.795159Z"}


def test_a_narrow_terminal_shows_records_with_whole_ids(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    output.table([ROW, {**ROW, "execution": "1", "status": None}])
    assert capsys.readouterr().out == (
        "execution  3765163191144367143\nstatus     completed\nplaybook   shop@1\nstarted    2026-11-22T17:46:41.795159Z\n\n"
        "execution  1\nstatus     \nplaybook   shop@1\nstarted    2026-11-22T17:46:41.795159Z\n"
    )
    monkeypatch.setenv("COLUMNS", "120")
    output.table([ROW])
    assert "│ completed │" in capsys.readouterr().out


FORMLESS = {
    "up", "down", "serve", "console", "completion", "schema", "migrate", "new", "fmt", "record", "dev", "lsp", "mcp",  # they print no data, or a file
    "get", "report", "graph",  # they write files in formats of their own
}  # fmt: skip


def commands(group: click.Group, above: str = "") -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found |= commands(command, f"{name} ")
        else:
            found[above + name] = command
    return found


def test_every_command_that_prints_data_has_output() -> None:
    root: Any = typer.main.get_command(load())
    without = {name for name, c in commands(root).items() if not any("--output" in p.opts for p in c.params)}
    assert without <= FORMLESS


def test_commands_that_act_answer_programs(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "wait.yaml").write_text(
        HEAD + "metadata: { name: wait, path: test/wait }\nworkflow: [{ step: ask, tool: { kind: callback, signal: go } }]\n"
    )

    def answered(*command: str) -> Any:
        return json.loads(noetl(*command, "--output", "json").stdout)

    assert [each["path"] for each in answered("register", "wait.yaml")] == ["test/wait"]
    lines = noetl("register", "wait.yaml", "hello.yaml", "--output", "jsonl").stdout.splitlines()
    assert [json.loads(line)["version"] for line in lines] == [1, 1]
    noetl("run", "wait.yaml", "--timeout", "1")
    assert answered("pause", "@last")["status"] == "paused"
    assert answered("cancel", "@last")["status"] == "cancelled"
    assert answered("watch", "@last")["status"] == "cancelled"


def test_every_view_reports_the_tolerated_failures_of_a_loop(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").write_text(
        HEAD + "metadata: { name: loop, path: test/loop }\nworkflow:\n  - step: items\n"
        "    loop: { in: [0, 1, 2], iterator: n, spec: { policy: { failure: { mode: best_effort } } } }\n"
        "    tool: { kind: noop, result: '{{ 1 / iter.n }}' }\n"
    )
    told = noetl("run", "loop.yaml").stdout
    assert "1 of 3 iterations of items failed" in told
    assert "noetl show" in told and "items --failed" in told and "noetl redrive" in told.splitlines()[-1]
    why = noetl("why", "@last", "items").stdout
    assert "items ran and ended well; 1 of 3 iterations failed" in why


def test_the_keys_beside_an_undefined_part_are_named(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "order.yaml").write_text(
        HEAD + 'metadata: { name: order, path: test/order }\nworkload: { order: { "\\eid": 7 } }\nworkflow:\n  - step: fetch\n'
        '    tool: { kind: noop, result: "{{ workload.order.number }}" }\n'
    )
    line = "  workload.order.number is undefined; workload.order has: \\x1bid"
    assert line in noetl("run", "order.yaml").stdout.splitlines() and line in noetl("why", "@last").stdout.splitlines()


def test_a_task_stopped_at_its_timeout_shows_the_line_that_ran(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text(
        HEAD + "metadata: { name: slow, path: test/slow }\nworkflow:\n  - step: compute\n    tool:\n      kind: python\n"
        "      spec: { timeout: 0.5 }\n      code: |\n        import time\n        time.sleep(9)\n"
    )
    told = noetl("run", "slow.yaml").stdout
    assert "slow.yaml:11:9 timeout in step compute" in told and "timeout of 0.5 s in: time.sleep(9)" in told
    assert "  slow.yaml:11 in <module>: time.sleep(9)" in told.splitlines()


def test_causes_are_shortened_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.headline({"kind": "python", "message": "x" * 3_000, "step": "a"}).endswith(
        "x… (3,000 characters: --output json has all)"
    )
