"""Shared tasks in a catalog and beside a file: what is pinned is what runs, now and later."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import noetl_core
from noetl_core.control.admit import StartRequest, register
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from tests import commands

LIBRARY = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: texts, path: shared/texts }
workbook: { greet: { kind: noop, args: { greeting: Hello, name: nobody } } }
workflow: [{ step: start, tool: { kind: noop } }]
"""
USER = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: user, path: tests/user }
workbook:
  greet: { uses: "shared/texts#greet" }
workflow:
  - step: start
    tool:
      - { name: pause, kind: wait, duration: 0.01 }
      - { name: say, kind: workbook, task: greet, args: { name: Ada } }
"""
LATER = LIBRARY.replace("Hello", "Good day")


@pytest.fixture
def local() -> Iterator[LocalWiring]:
    with closing(LocalWiring()) as local:
        yield local


def greeting(local: LocalWiring, request: StartRequest) -> str:
    started = local.start(request)
    assert local.run(started.execution_id, timeout_s=30)
    return str(executions.summary(local.control, started.execution_id)["result"]["greeting"])


def test_a_later_library_version_does_not_change_registered_playbooks(local: LocalWiring) -> None:
    register(local.control, LIBRARY)
    _, first = register(local.control, USER)
    assert greeting(local, StartRequest(path="tests/user")) == "Hello"
    under_way = local.start(StartRequest(path="tests/user"))
    register(local.control, LATER)
    assert local.run(under_way.execution_id, timeout_s=30)
    assert executions.summary(local.control, under_way.execution_id)["result"]["greeting"] == "Hello"
    assert greeting(local, StartRequest(path="tests/user")) == "Hello"
    _, second = register(local.control, USER)
    assert (first.version, second.version) == (1, 2), "registering it again takes up the latest"
    assert greeting(local, StartRequest(path="tests/user")) == "Good day"
    assert greeting(local, StartRequest(path="tests/user", version=1)) == "Hello"
    assert register(local.control, USER)[1].version == 2, "the same once more is the same version"


def test_a_version_that_is_named_is_taken(local: LocalWiring) -> None:
    register(local.control, LIBRARY)
    register(local.control, LATER)
    assert greeting(local, StartRequest(playbook=USER.replace("texts#", "texts@1#"))) == "Hello"
    assert greeting(local, StartRequest(playbook=USER.replace("texts#", "texts@2#"))) == "Good day"


def test_a_playbook_with_missing_shared_tasks_is_refused_and_not_stored(local: LocalWiring) -> None:
    with pytest.raises(InvalidPlaybook, match=r":5:\d+ E211 .* which was not found"):
        register(local.control, USER)
    with pytest.raises(InvalidPlaybook, match="E211"):
        local.start(StartRequest(playbook=USER))
    register(local.control, LIBRARY)
    with pytest.raises(InvalidPlaybook, match=r"E211 .* has no task 'great' \(it has: greet\)"):
        register(local.control, USER.replace("#greet", "#great"))
    assert [v.path for v in local.control.catalog.list("")] == ["shared/texts"]


def test_a_file_is_run_with_the_tasks_of_the_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "texts.yaml").write_text(LIBRARY)
    user = tmp_path / "user.yaml"
    user.write_text(USER.replace("texts#", "texts@9#"))
    assert noetl_core.run(user).result["greeting"] == "Hello"
    env = {**commands.ENV, "NOETL_HOME": str(tmp_path / "home")}
    done = commands.run("run", str(user), cwd=tmp_path, env=env)
    assert (done.returncode, "greeting: Hello" in done.stdout) == (0, True), done.stderr
    assert commands.run("validate", str(user), cwd=tmp_path).returncode == 0
    (tmp_path / "texts.yaml").write_text(LIBRARY.replace("greet:", "hello:"))
    wrong = commands.run("validate", str(user), cwd=tmp_path)
    assert (wrong.returncode, "user.yaml:5:12 E211" in wrong.stdout) == (2, True), wrong.stdout


def test_a_file_is_run_with_the_tasks_of_the_catalog(tmp_path: Path) -> None:
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries" / "texts.yaml").write_text(LIBRARY)
    user = tmp_path / "user.yaml"
    user.write_text(USER)
    env = {**commands.ENV, "NOETL_HOME": str(tmp_path / "home")}
    refused = commands.run("run", str(user), cwd=tmp_path, env=env)
    assert (refused.returncode, "E211" in refused.stderr) == (2, True), refused.stderr
    told = commands.run("validate", str(user), cwd=tmp_path)
    assert (told.returncode, "E211" in told.stdout) == (0, True), "another catalog may have it"
    assert commands.run("register", "libraries/texts.yaml", "--on", "local", cwd=tmp_path, env=env).returncode == 0
    done = commands.run("run", str(user), cwd=tmp_path, env=env)
    assert (done.returncode, "greeting: Hello" in done.stdout) == (0, True), done.stderr
    listed = commands.run("register", str(user), "--on", "local", cwd=tmp_path, env=env)
    assert (listed.returncode, "tests/user version 1" in listed.stdout) == (0, True), listed.stderr


def test_files_that_use_each_other_come_to_an_end(tmp_path: Path) -> None:
    one = USER.replace("tests/user", "one").replace("shared/texts", "two")
    (tmp_path / "one.yaml").write_text(one)
    (tmp_path / "two.yaml").write_text(USER.replace("tests/user", "two").replace("shared/texts", "one"))
    done = commands.run("validate", "one.yaml", cwd=tmp_path, env=dict(os.environ))
    assert (done.returncode, "the task is itself taken from one#greet, which was not found" in done.stdout) == (2, True)
