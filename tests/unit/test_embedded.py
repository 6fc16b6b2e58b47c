"""`noetl_core.run`: what it takes, what it gives, and what it leaves behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import noetl_core
from noetl_core.dsl.parse import parse_playbook
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.workload import BadWorkload
from noetl_core.playbooks.called_files import SamePath
from noetl_core.tools.base import ToolCall

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: here, path: mine/here }\n"
HELLO = HEAD + 'workload: { name: world }\nworkflow:\n  - step: a\n    tool: { kind: noop, result: "{{ workload.name }}" }\n'
CUSTOM = HEAD + "executor: { spec: { extensions: true } }\nworkflow:\n  - step: a\n    tool: { name: t, kind: custom, n: 20 }\n"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    return tmp_path


def test_a_text_a_model_a_file_and_a_folder_give_the_same(elsewhere: Path) -> None:
    (elsewhere / "one").mkdir()
    file = elsewhere / "one" / "playbook.yaml"
    file.write_text(HELLO)
    sources: list[Any] = [HELLO, parse_playbook(HELLO), file, str(file), "one", Path("one"), "one/playbook.yaml"]
    ended = [noetl_core.run(playbook, {"name": "Ada"}) for playbook in sources]
    assert [(e.status, e.result, e.error, e.ctx) for e in ended] == [("completed", "Ada", None, {})] * len(sources)
    assert len({e.id for e in ended}) == len(sources)


def test_a_run_in_memory_leaves_nothing_behind(elsewhere: Path) -> None:
    before = set(threading.enumerate())
    execution = noetl_core.run(HELLO)
    assert (execution.result, list(elsewhere.iterdir())) == ("world", [])
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive(), thread.name


def test_the_history_is_there_as_long_as_the_execution() -> None:
    first, second = noetl_core.run(HELLO), noetl_core.run(HELLO, {"name": "Ada"})
    names = [event["name"] for event in first.events()]
    assert (names[0], names[-1]) == ("PlaybookExecutionRequested", "PlaybookProcessed")
    assert [event["name"] for event in second.events()] == names and first.events() == first.events()
    assert {event["execution_id"] for event in second.events()} == {second.id}


def test_values_are_whole_whatever_their_size() -> None:
    big = HEAD + (
        'workflow:\n  - step: a\n    tool: { name: t, kind: noop, result: { rows: "{{ range(9000) | list }}" },'
        ' set_ctx: { kept: { rows: "{{ range(9000) | list }}" } } }\n'
    )
    execution = noetl_core.run(big)
    assert execution.result == {"rows": list(range(9000))} and execution.ctx == {"kept": {"rows": list(range(9000))}}
    assert any("result_ref" in str(event["data"]) for event in execution.events())


def test_a_failure_is_a_status_with_its_error() -> None:
    execution = noetl_core.run(HEAD + 'workflow:\n  - step: a\n    tool: { kind: noop, result: "{{ 1 / 0 }}" }\n')
    assert (execution.status, execution.result) == ("failed", None)
    assert execution.error is not None and (execution.error["kind"], execution.error["step"]) == ("template", "a")
    assert execution.id in repr(execution) and "failed" in repr(execution)


@pytest.mark.parametrize(
    ("playbook", "payload", "raised"),
    [
        ("kind: Playbook\nworkflow: []\n", {}, InvalidPlaybook),
        ("{ apiVersion: noetl.io/v2 }", {}, InvalidPlaybook),
        (HELLO.replace("{ name: world }", "{ name: world, x-schema: { required: [id] } }"), {}, BadWorkload),
        (HELLO, {"name": {1, 2}}, ValueError),
        (HELLO, {"name": float("nan")}, ValueError),
        ("nowhere.yaml", {}, FileNotFoundError),
    ],
)
def test_run_raises_for_an_invalid_playbook_payload_or_path(
    playbook: str, payload: dict[str, Any], raised: type[Exception]
) -> None:
    with pytest.raises(raised):
        noetl_core.run(playbook, payload)


def test_an_error_of_a_file_names_the_file(elsewhere: Path) -> None:
    (elsewhere / "wrong.yaml").write_text(HELLO.replace("noop", "nope"))
    with pytest.raises(InvalidPlaybook, match=r"wrong\.yaml:7:"):
        noetl_core.run("wrong.yaml")


def test_a_playbook_that_is_called_is_found_beside_the_file(elsewhere: Path) -> None:
    inner = "mine/inner"
    outer = HEAD + f"workflow:\n  - step: a\n    tool: {{ kind: playbook, path: {inner}, args: {{ name: Ada }} }}\n"
    (elsewhere / "outer.yaml").write_text(outer)
    (elsewhere / "inner.yaml").write_text(HELLO.replace("mine/here", inner))
    assert noetl_core.run("outer.yaml").result == "Ada"
    error = noetl_core.run(outer).error
    assert error is not None and error["kind"] == "not_found", "a text lies in no folder"
    (elsewhere / "again.yml").write_text(HELLO.replace("mine/here", inner))
    with pytest.raises(SamePath, match="both have this path"):
        noetl_core.run("outer.yaml")


class TestTools:
    def test_a_function_gets_the_inputs_by_name(self) -> None:
        assert noetl_core.run(CUSTOM, tools={"custom": lambda n: {"double": n * 2}}).result == {"double": 40}

    def test_a_tool_gets_the_call(self) -> None:
        class Told:
            kind, inline = "custom", False

            def run(self, call: ToolCall) -> Outcome:
                return Outcome.ok([call.step, call.task, call.attempt, dict(call.inputs)])

        assert noetl_core.run(CUSTOM, tools={"custom": Told()}).result == ["a", "t", 1, {"n": 20}]

    @pytest.mark.parametrize(
        ("function", "kind", "message"),
        [
            (lambda n: {n}, "python", "the result of the function is not JSON data"),
            (lambda n: [][n], "python", "list index out of range"),
            (lambda m: m, "schema", "missing a required argument: 'm'"),
        ],
        ids=["answers no data", "raises", "takes something else"],
    )
    def test_an_error_of_a_tool_function_becomes_the_error_of_its_task(self, function: Any, kind: str, message: str) -> None:
        error = noetl_core.run(CUSTOM, tools={"custom": function}).error
        assert error is not None and error["kind"] == kind and message in error["message"]

    def test_a_task_error_has_the_exception_name_and_the_functions_traceback(self) -> None:
        def broken(n: int) -> None:
            raise LookupError(f"nothing for {n}")

        execution = noetl_core.run(CUSTOM, tools={"custom": broken})
        assert execution.error is not None and execution.error["code"] == "LookupError"
        (outcome,) = (e["data"]["outcome"] for e in execution.events() if e["name"] == "TaskProcessed")
        assert "in broken" in outcome["py"]["traceback"] and "noetl_core" not in outcome["py"]["traceback"]

    def test_a_value_that_is_no_tool_is_refused_before_the_run(self) -> None:
        with pytest.raises(TypeError, match="neither a function nor a tool"):
            noetl_core.run(CUSTOM, tools={"custom": 5})  # type: ignore[dict-item]

    def test_tools_are_of_their_run_alone(self) -> None:
        noetl_core.run(CUSTOM, tools={"custom": lambda n: n})
        error = noetl_core.run(CUSTOM).error
        assert error is not None and error["kind"] == "unsupported"

    @pytest.mark.parametrize(
        ("kind", "message"),
        [
            ("wait", "tools: the engine itself runs tasks of kind 'wait'; another kind can be replaced"),
            ("custm", "tools: no task has the kind 'custm' (did you mean \"custom\"?)"),
        ],
    )
    def test_a_name_that_no_task_could_use_is_refused(self, kind: str, message: str) -> None:
        with pytest.raises(ValueError, match=re.escape(message)):
            noetl_core.run(CUSTOM, tools={"custom": lambda n: n, kind: lambda: None})

    def test_a_function_goes_before_the_kind_of_the_language(self) -> None:
        assert noetl_core.run(HELLO, tools={"noop": lambda result: f"<{result}>"}).result == "<world>"


def test_a_store_keeps_the_execution_for_the_command_line(elsewhere: Path) -> None:
    execution = noetl_core.run(HELLO, {"name": "Ada"}, store=elsewhere / "kept" / "runs.db")
    noetl = Path(sys.executable).parent / "noetl"
    shown = subprocess.run([noetl, "show", execution.id, "--store", "kept/runs.db"], capture_output=True, text=True, check=True)
    assert "Ada" in shown.stdout and "completed" in shown.stdout


def test_an_execution_can_be_resumed_after_run_timed_out(elsewhere: Path) -> None:
    gate = threading.Event()
    store = elsewhere / "runs.db"
    with pytest.raises(TimeoutError) as told:
        noetl_core.run(CUSTOM, tools={"custom": lambda n: gate.wait(20)}, store=store, timeout_s=0.1)
    gate.set()
    execution_id = str(told.value).split()[1]
    noetl = Path(sys.executable).parent / "noetl"
    began = time.monotonic()
    resumed = subprocess.run([noetl, "resume", execution_id, "--store", store], capture_output=True, text=True, check=False)
    assert "unsupported" in resumed.stderr + resumed.stdout, "it goes on: there its kind is nobody's"
    assert time.monotonic() - began < 50, "its lease was given up: nobody waits for the end of it"


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys, noetl_core; print([m for m in sys.modules if m.startswith(('noetl_core.', 'yaml', 'boto', 'jinja'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout.strip() == "[]"


def test_the_package_exports_its_names_and_refuses_unknown_attributes() -> None:
    assert noetl_core.Execution.__name__ == "Execution" and callable(noetl_core.run)
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        _ = getattr(noetl_core, "walk")  # noqa: B009 - what a type checker would refuse
