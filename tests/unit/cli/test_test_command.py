"""`noetl test` from the command line."""

from __future__ import annotations

import json
from contextlib import closing
from http.server import HTTPServer
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from noetl_cli.commands.authoring import testing
from noetl_cli.errors import Exit
from noetl_core.control.admit import StartRequest
from noetl_core.engine.outcome import Outcome
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.tools.base import ToolCall
from noetl_core.tools.registry import ToolRegistry
from tests import commands
from tests.api_requests import api_of
from tests.api_server import served
from tests.servers import Handler, serving, url_of
from tests.unit.cli.runs import Run

FLOW = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: flow, path: mine/flow }
workflow:
  - step: fetch
    tool: { name: page, kind: http, url: http://shop.example }
    next:
      spec: { mode: exclusive }
      arcs:
        - { step: many, when: "{{ event.result.data | length > 2 }}" }
        - { step: few, when: "{{ event.result.data | length > 0 }}" }
  - step: many
    tool: { kind: noop, result: many }
  - step: few
    tool: { kind: noop, result: few }
"""
TESTS = """test: many pages
tools: { fetch.page: { ok: { data: [1, 2, 3] } } }
expect: { result: many }
---
test: few pages
tools: { fetch.page: { ok: { data: [1] } } }
expect: { result: few }
"""


class Orders(Handler):
    """Answers with three orders."""

    def do_GET(self) -> None:
        self.say(self.server.status, b"[1, 2, 3]", Content_Type="application/json")  # type: ignore[attr-defined]  # set by the test


class ManyOrders:
    """Answers with so much that it is stored behind a reference."""

    kind = "http"
    inline = True

    def run(self, call: ToolCall) -> Outcome:
        return Outcome.ok({"status": 200, "headers": {}, "data": [1] * 5_000, "url": "", "elapsed_ms": 1})


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "flow.test.yaml").write_text(TESTS)
    return tmp_path


def test_tests_below_the_folder_pass(noetl: Run, files: Path) -> None:
    done = noetl("test")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("flow.test.yaml ..\n\n2 passed in ")
    assert done.stdout.endswith("coverage: steps 3/3, tasks 3/3, arcs 2/2\n")
    assert sorted(file.name for file in files.iterdir() if file.name.startswith(".")) == []


def test_a_failed_test_shows_the_difference_the_line_and_the_path(noetl: Run, files: Path) -> None:
    (files / "flow.test.yaml").write_text(TESTS.replace("result: few", "result: none"))
    done = noetl("test", "flow.test.yaml", "--coverage", "-k", "few")
    assert done.returncode == 1
    assert done.stdout.splitlines()[:5] == [
        "flow.test.yaml F",
        "",
        "FAILED flow.test.yaml:5 few pages",
        '  flow.test.yaml:7: result is "few", expected "none"',
        "  path: fetch, few (0 s of virtual time)",
    ]
    assert "  flow.yaml:10: not covered: arc fetch -> many: {{ event.result.data | length > 2 }}\n" in done.stdout


def test_results_are_data_and_junit(noetl: Run, files: Path) -> None:
    (files / "flow.test.yaml").write_text(TESTS.replace("result: few", "result: none"))
    found = json.loads(noetl("test", "--output", "json").stdout)
    assert (found["passed"], found["failed"]) == (1, 1)
    assert found["tests"][1]["findings"] == [{"line": 7, "message": 'result is "few", expected "none"'}]
    root = ElementTree.fromstring(noetl("test", "--output", "junit").stdout)
    assert [dict(suite.attrib, time="") for suite in root] == [
        {"name": "flow.test.yaml", "tests": "2", "failures": "1", "errors": "0", "skipped": "0", "time": ""}
    ]
    assert [(case.get("name"), case.get("line"), len(case)) for case in root[0]] == [
        ("many pages", "1", 0),
        ("few pages", "5", 1),
    ]


def test_bad_files_are_usage_errors(noetl: Run, files: Path) -> None:
    (files / "flow.test.yaml").write_text("test: a\nexpekt: {}\n")
    (files / "none.test.yaml").write_text("test: b\n")
    done = noetl("test")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        'flow.test.yaml:2:1 unknown key "expekt" in a test (did you mean "expect"?)',
        "none.test.yaml:1:1 there is no playbook none.yaml or none.yml or playbook.yaml in . (playbook: its file)",
    ]
    for arguments, message in (
        (("nowhere.test.yaml",), "nowhere.test.yaml: No such file or directory"),
        (("hello.yaml", "-k", "x"), "unknown key"),
    ):
        refused = noetl("test", *arguments)
        assert refused.returncode == 2 and message in refused.stderr


@pytest.mark.parametrize("command", ["validate", "run", "rehearse"])
def test_a_test_file_in_place_of_a_playbook_is_a_usage_error(noetl: Run, files: Path, command: str) -> None:
    done = noetl(command, "flow.test.yaml")
    assert (done.returncode, done.stderr) == (2, "flow.test.yaml is a test file, not a playbook: run noetl test flow.test.yaml\n")


def test_a_playbook_is_tested_by_the_file_beside_it(noetl: Run, files: Path) -> None:
    done = noetl("test", "flow.yaml")
    assert done.returncode == 0 and "2 passed" in done.stdout


@pytest.mark.parametrize("command", [("record", "@last"), ("rehearse", "flow.yaml"), ("ls",)])
def test_a_file_that_is_no_store_is_a_usage_error(noetl: Run, files: Path, command: tuple[str, ...]) -> None:
    (files / "notes.txt").write_text("no database at all\n" * 100)
    done = noetl(*command, "--store", "notes.txt")
    assert done.returncode == 2 and "file is not a database" in done.stderr and "name another store" in done.stderr
    assert "noetl cancel" not in done.stderr


def test_no_file_and_no_such_name_are_usage_errors(tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    done = commands.in_process("test", "-k", "nothing")
    assert isinstance(done.exception, Exit) and done.exception.message == "-k nothing: none of 2 cases has such a name"
    (files / "flow.test.yaml").unlink()
    done = commands.in_process("test")
    assert isinstance(done.exception, Exit) and done.exception.message.startswith("there is no test file here")


def test_conditions_that_no_test_notices_are_named(noetl: Run, files: Path) -> None:
    done = noetl("test", "--mutate")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "mutants: 2 of 2 noticed")
    (files / "flow.test.yaml").write_text(TESTS.partition("---")[0])
    done = noetl("test", "--mutate")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-2:] == [
        "mutants: 1 of 2 noticed",
        "  flow.yaml:11: no test notices the negation of step fetch, arc 1, when: {{ event.result.data | length > 0 }}",
    ]


def test_unnoticed_mutations_and_uncovered_steps_are_in_the_json_output(noetl: Run, files: Path) -> None:
    (files / "flow.test.yaml").write_text(TESTS.partition("---")[0].replace("expect: { result: many }", ""))
    done = noetl("test", "--coverage", "--mutate", "--output", "json")
    found = json.loads(done.stdout)
    assert done.returncode == 1 and found["failed"] == 0, done.stderr
    assert found["unnoticed"][0] == {
        "file": "flow.yaml",
        "line": 10,
        "negated": "step fetch, arc 0, when: {{ event.result.data | length > 2 }}",
    }
    assert found["not_covered"][1] == {"file": "flow.yaml", "line": 14, "name": "step few"}
    assert noetl("test", "--mutate", "--output", "junit").returncode == 1


def test_tests_run_in_several_processes(noetl: Run, files: Path) -> None:
    done = noetl("test", "-j", "2")
    assert done.stdout.startswith("flow.test.yaml ..\n\n2 passed") and "steps 3/3" in done.stdout


def test_watch_tests_again_after_a_change(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(files)
    looks = iter(range(3))

    def change(_seconds: float) -> None:
        look = next(looks, None)
        if look is None:
            raise KeyboardInterrupt
        if look == 1:
            (files / "flow.test.yaml").write_text("test: a\nexpekt: {}\n")

    monkeypatch.setattr("noetl_cli.commands.authoring.testing.time.sleep", change)
    with pytest.raises(KeyboardInterrupt):
        testing.test(watch=True)
    told = capsys.readouterr()
    assert told.out.count("2 passed") == 1
    assert told.err.count("waiting for changes") == 2 and 'unknown key "expekt"' in told.err


def test_the_schema_of_test_files_is_printed(noetl: Run) -> None:
    assert json.loads(noetl("schema", "--test").stdout)["title"] == "A test file of NoETL playbooks"


class TestRecord:
    """`noetl record`: an execution of the local store becomes a test."""

    WORLD = FLOW.replace("http://shop.example", '"{{ workload.url }}"').replace(
        "workflow:\n", "workload: { url: http://none.example }\nworkflow:\n"
    )

    def recorded(self, noetl: Run, files: Path, *arguments: str, status: int = 200) -> list[str]:
        """Run the playbook on a service of this machine, record it, and return what the command prints."""
        (files / "flow.yaml").write_text(self.WORLD)
        (files / "flow.test.yaml").unlink(missing_ok=True)
        with serving(HTTPServer(("127.0.0.1", 0), Orders)) as server:
            server.status = status  # type: ignore[attr-defined]  # defined by `Orders`
            noetl("run", "flow.yaml", "--set", f"url={url_of(server)}")
        done = noetl("record", "@last", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def test_an_execution_is_recorded_and_replays_without_its_service(self, noetl: Run, files: Path) -> None:
        (line,) = self.recorded(noetl, files, "--name", "three orders")
        assert line == "flow.test.yaml: the test 'three orders' replays the execution"
        document = yaml.safe_load((files / "flow.test.yaml").read_text())
        assert document["tools"] == {"fetch.page": {"ok": {"data": [1, 2, 3]}}}
        assert document["expect"] == {"status": "completed", "result": "many", "path": ["fetch", "many"]}
        assert noetl("test").returncode == 0

    @pytest.mark.nightly
    def test_a_folder_in_place_of_the_test_file_is_a_usage_error(self, noetl: Run, files: Path) -> None:
        self.recorded(noetl, files)
        (files / "folder.test.yaml").mkdir()
        done = noetl("record", "@last", "--as", "folder.test.yaml")
        assert (done.returncode, done.stderr) == (2, "folder.test.yaml: Is a directory\n")

    def test_a_failure_is_recorded(self, noetl: Run, files: Path) -> None:
        self.recorded(noetl, files, status=503)
        document = yaml.safe_load((files / "flow.test.yaml").read_text())
        assert document["expect"]["error"] == {"kind": "server_error", "step": "fetch", "task": "page"}

    @pytest.mark.nightly
    def test_a_second_recording_is_added_to_the_file(self, noetl: Run, files: Path) -> None:
        self.recorded(noetl, files, "--name", "one")
        refused = noetl("record", "@last", "--name", "one")
        assert refused.returncode == 2 and "has a test 'one' already" in refused.stderr
        assert noetl("record", "@last", "--name", "two").returncode == 0
        assert noetl("test").stdout.startswith("flow.test.yaml ..\n")

    @pytest.mark.nightly
    def test_a_playbook_without_a_file_is_written_beside_the_test(self, noetl: Run, files: Path) -> None:
        self.recorded(noetl, files)
        (files / "flow.yaml").unlink()
        (files / "flow.test.yaml").unlink()
        (files / "tests").mkdir()
        done = noetl("record", "@last", "--as", "tests/order.test.yaml")
        assert (done.returncode, done.stderr) == (0, "flow.yaml: the playbook, as the catalog has it\n")
        assert yaml.safe_load((files / "tests/order.test.yaml").read_text())["playbook"] == "../flow.yaml"
        assert noetl("test", "tests").returncode == 0

    def test_a_test_that_does_not_replay_says_why(self, noetl: Run, files: Path) -> None:
        (files / "flow.test.yaml").unlink()
        own_id = "executor: { spec: { result: '{{ execution_id }}' } }\nworkflow:"
        (files / "flow.yaml").write_text(
            FLOW.partition("workflow:")[0] + own_id + "\n  - { step: start, tool: { kind: noop } }\n"
        )
        noetl("run", "flow.yaml")
        done = noetl("record", "@last")
        assert done.returncode == 1
        assert "flow.test.yaml:" in done.stderr and "does not replay the execution: edit it" in done.stderr
        assert (files / "flow.test.yaml").exists()

    def test_only_an_ended_execution_is_recorded(self, noetl: Run, files: Path) -> None:
        (files / "flow.yaml").write_text(
            FLOW.partition("workflow:")[0] + "workflow:\n  - step: start\n    tool: { kind: callback, signal: go }\n"
        )
        assert noetl("run", "flow.yaml", "--timeout", "1").returncode == 124
        done = noetl("record", "@last")
        assert done.returncode == 2 and "only an execution that has ended can be recorded" in done.stderr

    def test_an_execution_of_a_stack_is_recorded_over_its_api(self, noetl: Run, files: Path) -> None:
        (files / "flow.yaml").write_text(FLOW)
        (files / "flow.test.yaml").unlink()
        with closing(LocalWiring(tools=ToolRegistry({"http": ManyOrders()}))) as wiring:
            started = wiring.start(StartRequest(playbook=FLOW))
            assert wiring.run(started.execution_id)
            with served(api_of(Service(lambda: wiring.control, lambda: b"record"))) as url:
                done = noetl("record", started.execution_id, "--on", url)
        assert (done.returncode, done.stderr) == (0, "")
        document = yaml.safe_load((files / "flow.test.yaml").read_text())
        (name,) = document["tools"]["fetch.page"]["ok"]["data"].values()
        assert json.loads((files / name).read_text()) == [1] * 5_000
        assert noetl("test").returncode == 0
