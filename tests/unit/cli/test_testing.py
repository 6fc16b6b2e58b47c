"""`noetl test` from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from noetl_cli.commands import testing
from noetl_cli.errors import Exit
from tests import commands
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

    monkeypatch.setattr("noetl_cli.commands.testing.time.sleep", change)
    with pytest.raises(KeyboardInterrupt):
        testing.test(watch=True)
    told = capsys.readouterr()
    assert told.out.count("2 passed") == 1
    assert told.err.count("waiting for changes") == 2 and 'unknown key "expekt"' in told.err


def test_the_schema_of_test_files_is_printed(noetl: Run) -> None:
    assert json.loads(noetl("schema", "--test").stdout)["title"] == "A test file of NoETL playbooks"
