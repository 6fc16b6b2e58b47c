"""The command line in a folder of its own: exit codes, outputs, and what each command leaves and says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import noetl_core
from tests.commands import ENV, run
from tests.unit.cli.runs import HELLO, Run, result_of


def test_help_shows_the_most_used_commands_first(tmp_path: Path) -> None:
    text = run("--help", cwd=tmp_path).stdout
    named = re.findall(r"^│ ([a-z]+) {2,}", text, re.MULTILINE)
    assert named[0] == "run"
    assert [named.index(name) for name in ("validate", "show", "cancel", "up", "migrate")] == sorted(
        named.index(name) for name in ("validate", "show", "cancel", "up", "migrate")
    )


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    assert run("--version", cwd=tmp_path).stdout == f"noetl {noetl_core.__version__}\n"


def test_run_prints_one_object(noetl: Run) -> None:
    done = noetl("run", "hello.yaml", "--output", "json")
    summary = result_of(done)
    assert done.stderr == ""
    assert summary["status"] == "completed"
    assert summary["result"] == {"greeting": "Hello, world!", "n": 1}
    assert set(summary) == {
        "execution_id",
        "status",
        "playbook",
        "input",
        "result",
        "by",
        "ctx",
        "error",
        "steps",
        "started_at",
        "finished_at",
        "duration_ms",
        "events",
    }


def test_set_is_typed_and_lies_over_the_payload(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"name": "Eve", "deep": {"n": 5}}')
    summary = result_of(noetl("run", "hello.yaml", "--payload", "@p.json", "--set", "name=Ada", "--output", "json"))
    assert summary["result"] == {"greeting": "Hello, Ada!", "n": 5}
    summary = result_of(noetl("run", "hello.yaml", "--set", "deep.n=[1, x]", "--output", "json"))
    assert summary["result"]["n"] == [1, "x"]


def test_dates_are_text_wherever_they_stand(noetl: Run) -> None:
    summary = result_of(
        noetl("run", "hello.yaml", "--set", "deep.n=[2026-01-02, {at: 2026-01-02T03:04:05Z}]", "--output", "json")
    )
    assert summary["result"]["n"] == ["2026-01-02", {"at": "2026-01-02T03:04:05Z"}]


def test_set_of_an_unknown_input_of_a_registered_playbook_is_refused(noetl: Run) -> None:
    assert noetl("register", "hello.yaml", "--on", "local").returncode == 0
    done = noetl("run", "test/hello@1", "--set", "deep.n=2", "--set", "nam=Ada")
    assert (done.returncode, done.stdout) == (2, "")
    assert 'workload has no "nam" (did you mean "name"?)' in done.stderr
    assert result_of(noetl("run", "test/hello", "--set", "name=Ada", "--output", "json"))["result"]["greeting"] == "Hello, Ada!"


def test_a_playbook_without_inputs_takes_any(noetl: Run) -> None:
    assert noetl("run", "slow.yaml", "--set", "x=1", "--timeout", "0.01").returncode == 124


def test_slips_in_a_payload_are_warnings_on_standard_error(noetl: Run) -> None:
    done = noetl("run", "hello.yaml", "--payload", '{"nmae": "Ada", "deep": {"n": "1"}}', "--output", "json")
    assert result_of(done)["result"]["n"] == "1"
    assert done.stderr.splitlines() == [
        'warning: workload has no "nmae" (did you mean "name"?)',
        "warning: workload.deep.n is text, where the playbook has a number",
    ]


def test_inputs_that_the_schema_refuses_are_2_and_leave_nothing(noetl: Run, tmp_path: Path) -> None:
    schema = "x-schema: { properties: { name: { type: string, minLength: 2 } } }"
    (tmp_path / "strict.yaml").write_text(HELLO.replace("deep:", f"{schema}, deep:"))
    done = noetl("run", "strict.yaml", "--set", "name=7")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "workload.name is integer, not string\n")
    assert json.loads(noetl("ls", "--output", "json").stdout or "[]") == []
    assert result_of(noetl("run", "strict.yaml", "--set", "name='7x'", "--output", "json"))["result"]["n"] == 1


def test_events_are_added(noetl: Run) -> None:
    summary = result_of(noetl("run", "hello.yaml", "--events", "--output", "json"))
    assert len(summary["event_log"]) == summary["events"]
    assert summary["event_log"][0]["name"] == "PlaybookExecutionRequested"
    assert summary["event_log"][-1]["name"] == "PlaybookProcessed"


def test_people_get_the_result_and_where_to_look_next(noetl: Run) -> None:
    done = noetl("run", "hello.yaml")
    assert done.returncode == 0
    assert "greeting: Hello, world!" in done.stdout
    assert "completed in" in done.stdout
    assert "noetl events" in done.stdout
    assert "execution" in done.stderr


@pytest.mark.nightly
def test_a_run_with_duckdb_leaves_nothing_on_standard_error(tmp_path: Path) -> None:
    """In a process of its own: it is the interpreter's end that prints."""
    tool = 'tool: { kind: duckdb, command: "SELECT 42 AS n" }'
    (tmp_path / "sql.yaml").write_text(HELLO[: HELLO.index("tool:")] + tool)
    command = [sys.executable, "-m", "noetl_cli.main", "run", "sql.yaml", "--output", "json"]
    done = subprocess.run(command, cwd=tmp_path, env=ENV, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["status"] == "completed"
    assert "leaked" not in done.stderr


def test_a_stored_result_is_shown_with_the_command_to_get_it(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "large.yaml").write_text(
        HELLO[: HELLO.index("tool:")] + 'tool: { kind: noop, result: "{{ range(99999) | list }}" }'
    )
    shown = noetl("run", "large.yaml").stdout
    command = re.search(r"look at it: noetl (get [0-9]+ -o) FILE", shown)
    assert command is not None, shown
    assert noetl(*command[1].split(), "large.json").returncode == 0
    assert len(json.loads((tmp_path / "large.json").read_text())) == 99_999


def test_rows_become_a_table(noetl: Run, tmp_path: Path) -> None:
    rows = HELLO.replace(
        'result: { greeting: "Hello, {{ workload.name }}!", n: "{{ workload.deep.n }}" }',
        "result: [{ carrier: UA, flights: 58665 }, { carrier: B6, flights: 54635 }]",
    )
    (tmp_path / "rows.yaml").write_text(rows)
    out = noetl("run", "rows.yaml").stdout
    assert "58,665" in out
    assert "carrier" in out


def test_a_failed_execution_is_1_and_says_where(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(HELLO.replace("{{ workload.deep.n }}", "{{ 1 / 0 }}"))
    done = noetl("run", "bad.yaml")
    assert done.returncode == 1
    assert "template in step start in task start_task" in done.stdout
    summary = json.loads(noetl("run", "bad.yaml", "--output", "json").stdout)
    assert summary["status"] == "failed"
    assert summary["error"]["step"] == "start"


def test_an_invalid_playbook_is_2_with_its_place(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(HELLO.replace("kind: noop", "kind: nope"))
    done = noetl("run", "bad.yaml")
    assert done.returncode == 2
    assert done.stderr.startswith("bad.yaml:7:19 E118")
    assert done.stdout == ""
    assert not (tmp_path / ".noetl").exists(), "a refused playbook leaves nothing behind"


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run"], "Missing argument"),
        (["run", "hello.yaml", "--nope"], "No such option"),
        (["fly"], "No such command"),
        (["run", "none.yaml"], "there is no file none.yaml"),
        (["run", "no/such/path"], "no playbook no/such/path"),
        (["run", "no/such/path@x"], "no playbook no/such/path"),
        (["run", "no/such/path@-x"], "is not a version of a playbook: a number, or an alias"),
        (["run", "hello.yaml", "--on", "moon"], "is not one of"),
        (["run", "hello.yaml", "--payload", "{"], "not JSON"),
        (["run", "hello.yaml", "--payload", "[1]"], "an object is expected"),
        (["run", "hello.yaml", "--payload", '{"a": NaN}'], "numbers are finite"),
        (["run", "hello.yaml", "--payload", '{"a": 1e999}'], "numbers are finite"),
        (["run", "hello.yaml", "--set", "a=.inf"], "not JSON"),
        (["run", "hello.yaml", "--payload", '{"name": 1, "name": 2}'], '"name" is written twice: line 1 column 13'),
        (["run", "hello.yaml", "--payload", '{"name": "\\ud800"}'], "surrogates not allowed"),
        (["run", "hello.yaml", "--payload", '{"deep":' * 200 + "1" + "}" * 200], "nested deeper than 100 levels"),
        (["run", "hello.yaml", "--set", "deep={n: 1, n: 2}"], '"n" is written twice'),
        (["run", "hello.yaml", "--set", "deep={1: 2}"], "the key 1 is not text: quote it"),
        (["run", "hello.yaml", "--set", "deep=" + "[" * 200 + "]" * 200], "nested deeper than 100 levels"),
        (["run", "hello.yaml", "--set", "nmae=Ada"], 'workload has no "nmae" (did you mean "name"?)'),
        (["run", "hello.yaml", "--set", "deep.m=1"], 'workload.deep has no "m" (it has n); to add a new input'),
        (["run", "hello.yaml", "--set", "color=red"], "(it has name, deep); to add a new input, use --payload"),
        (["credentials", "put", "pg", "--data", '{"user": "a", "user": "b"}'], '"user" is written twice'),
        (["signal", "1", "go", "--data", '{"a": 1, "a": 1}'], '"a" is written twice'),
        (["run", "hello.yaml", "--payload", "@none"], "No such file"),
        (["run", "hello.yaml", "--set", "name"], "expected a.b=value"),
        (["run", "hello.yaml", "--set", "a=1", "--set", "a.b=1"], "not an object"),
        (["run", "hello.yaml", "--output", "xml"], "is not one of"),
        (["show", "1"], "there is no execution 1"),
        (["events", "1"], "there is no execution 1"),
        (["cancel", "1"], "there is no execution 1"),
        (["validate", "none.yaml"], "none.yaml"),
        (["validate", "hello.yaml", "--format", "xml"], "is not one of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_errors_are_2_without_a_traceback(noetl: Run, arguments: list[str], says: str) -> None:
    done = noetl(*arguments)
    assert done.returncode == 2, done
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [["run", "hello.yaml", "--on", "stack"], ["ls", "--on", "stack"], ["status"], ["playbooks", "--on", "stack"]]
)
def test_no_stack_is_3(noetl: Run, arguments: list[str]) -> None:
    done = noetl(*arguments)
    assert done.returncode == 3, done
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["ls", "status"])
def test_a_stack_that_does_not_answer_is_3(noetl: Run, command: str) -> None:
    done = noetl(command, "--on", "stack", NOETL_API_URL="http://127.0.0.1:9")
    assert done.returncode == 3
    assert "127.0.0.1:9" in done.stderr


def test_the_local_store_has_no_status(noetl: Run) -> None:
    done = noetl("status", "--on", "local")
    assert done.returncode == 2
    assert "noetl ls" in done.stderr


def test_the_same_key_is_the_same_execution(noetl: Run) -> None:
    once = result_of(noetl("run", "hello.yaml", "--idempotency-key", "k", "--output", "json"))
    again = result_of(noetl("run", "hello.yaml", "--idempotency-key", "k", "--output", "json"))
    assert once == again
    other = noetl("run", "hello.yaml", "--idempotency-key", "k", "--set", "name=Ada")
    assert other.returncode == 1
    assert "was used for another request" in other.stderr


@pytest.fixture
def ran(noetl: Run) -> Iterator[str]:
    yield str(result_of(noetl("run", "hello.yaml", "--output", "json"))["execution_id"])


def test_ls_show_and_events(noetl: Run, ran: str) -> None:
    assert ran in noetl("ls").stdout
    assert [json.loads(line)["execution_id"] for line in noetl("ls", "--output", "jsonl").stdout.splitlines()] == [ran]
    assert "greeting" in noetl("show", ran).stdout
    assert result_of(noetl("show", ran, "--output", "json"))["status"] == "completed"
    assert "StepDone" in noetl("events", ran).stdout
    lines = noetl("events", ran, "--output", "jsonl").stdout.splitlines()
    assert [json.loads(line)["name"] for line in lines][-1] == "PlaybookProcessed"
    assert "completed" in noetl("watch", ran).stdout


def test_looking_makes_no_store(noetl: Run, tmp_path: Path) -> None:
    done = noetl("ls")
    assert done.returncode == 0
    assert not (tmp_path / ".noetl").exists()


def test_a_registered_playbook_runs_by_path(noetl: Run) -> None:
    assert noetl("register", "hello.yaml", "--on", "local").returncode == 0
    assert "test/hello" in noetl("playbooks", "--on", "local").stdout
    assert result_of(noetl("run", "test/hello", "--output", "json"))["status"] == "completed"
    assert result_of(noetl("run", "test/hello@1", "--output", "json"))["playbook"]["version"] == 1


def test_memory_keeps_nothing(noetl: Run, tmp_path: Path) -> None:
    assert noetl("run", "hello.yaml", "--store", "memory").returncode == 0
    assert {p.name for p in tmp_path.iterdir()} == {"hello.yaml", "slow.yaml"}


def test_validate_says_ok_or_where(noetl: Run, tmp_path: Path) -> None:
    assert noetl("validate", "hello.yaml").returncode == 0
    (tmp_path / "bad.yaml").write_text(HELLO.replace("kind: noop", "kind: nope"))
    done = noetl("validate", "hello.yaml", "bad.yaml")
    assert done.returncode == 2
    assert done.stdout.startswith("bad.yaml:7:19 E118 ")
    (found,) = json.loads(noetl("validate", "bad.yaml", "--format", "json").stdout)
    assert (found["line"], found["col"], found["code"]) == (7, 19, "E118")
    assert json.loads(noetl("validate", "bad.yaml", "--format", "sarif").stdout)["version"] == "2.1.0"


def test_a_timeline_is_drawn_to_scale_and_short_work_shows_in_long_waits() -> None:
    from noetl_cli.display.chart import draw

    def span(id: int, kind: str, offset: float, duration: float | None, parent: int | None = None, **more: Any) -> dict[str, Any]:
        facts = {"name": kind, "step": "fetch", "status": "ok" if duration is not None else "running", "lane": 0}
        return {"id": id, "kind": kind, "offset_ms": offset, "duration_ms": duration, "parent": parent, **facts, **more}

    spans = [
        span(0, "run", 0, 1000),
        span(1, "queued", 0, 100, 0),
        span(2, "attempt", 100, 100, 0),
        span(3, "wait", 200, 600, 0),
        span(4, "attempt", 795, 5, 0),
        span(5, "undo", 900, None, name="fetch"),
    ]
    shown = {"status": "running", "duration_ms": 1000, "lanes": 1, "omitted": 12_000, "spans": spans}
    _, first, undo, footer, _ = draw(shown, width=46)
    *_, omitted, _ = draw(shown, width=46, tasks=True)
    assert omitted.startswith("12,000 tasks and iterations are not shown: ")
    bar = first.removeprefix("fetch").strip().removesuffix("✓ 1.0 s").strip()
    assert [bar.count(mark) for mark in "·█┄"] == [2, 3, 11]
    assert undo.startswith("undo fetch") and "▶" in undo
    assert footer == "running, 1 lane at most side by side"


def test_a_failed_run_shows_the_details_of_its_error(noetl: Run, tmp_path: Path) -> None:
    error = "{ message: no rows, details: { seen: '{{ range(3) }}', wanted: ten } }"
    text = HELLO[: HELLO.index("workflow:")] + (
        "workflow:\n  - step: start\n    tool:\n      kind: noop\n      spec:\n        policy:\n"
        f"          rules: [{{ else: {{ then: {{ do: fail, error: {error} }} }} }}]\n"
    )
    (tmp_path / "fails.yaml").write_text(text)
    done = noetl("run", "fails.yaml")
    assert done.returncode == 1
    assert "no rows\n  seen: [0, 1, 2]\n  wanted: ten\n" in done.stdout


def test_a_large_detail_of_an_error_does_not_flood_the_terminal(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "fails.yaml").write_text(
        HELLO[: HELLO.index("workflow:")]
        + (
            "workflow:\n  - step: start\n    tool:\n      kind: noop\n      spec: { policy: { rules: [{ else: { then: { do: fail, error: "
            "{ message: \"{{ 'm' * 100000 }}\", details: \"{{ 'd' * 100000 }}\" } } } }] } }\n"
        )
    )
    done = noetl("run", "fails.yaml")
    assert len(done.stdout) < 6_000
    assert "beginning: " in done.stdout
    assert "results/" in done.stdout
