"""`noetl try`: a task is called again on the recorded names, over the local store and over the API; nothing is recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl_cli.errors import FAILED, USAGE, Exit
from noetl_core.api.app import Api as Served
from noetl_core.control.admit import StartRequest
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.service.operations.base import cursor_key
from tests.api_server import served
from tests.commands import in_process

TEXT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: tried, path: tests/tried }
executor: { spec: { policy: { limits: { max_payload_bytes: 256 } } } }
workload: { factor: 3 }
workflow:
  - step: start
    tool: { kind: noop, result: "{{ range(200) | list }}" }
    next: { arcs: [{ step: each }] }
  - step: each
    spec: { policy: { failure: { mode: best_effort } } }
    loop: { in: [1, 2, 0], iterator: n }
    tool:
      - name: double
        kind: noop
        result: "{{ iter.n * 2 }}"
      - name: divide
        kind: noop
        result: "{{ (steps.start.result | length * workload.factor) // double }}"
        set_ctx: { last: "{{ outcome.result }}" }
        spec: { policy: { rules: [{ when: "{{ outcome.error.kind == 'template' }}", then: { do: fail, error: by zero } }] } }
    next: { arcs: [{ step: asks }] }
  - step: asks
    tool: { kind: playbook, path: tests/none, spec: { policy: { rules: [{ else: { then: { do: continue } } }] } } }
"""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalWiring]:
    wiring = LocalWiring(tmp_path_factory.mktemp("tried") / "runs.db")
    yield wiring
    wiring.close()


@pytest.fixture(scope="module")
def execution(local: LocalWiring) -> str:
    started = local.start(StartRequest(playbook=TEXT, payload={}))
    assert local.run(started.execution_id, timeout_s=60)
    return started.execution_id


@pytest.fixture(scope="module")
def url(local: LocalWiring) -> Iterator[str]:
    service = Service(lambda: local.control, cursor_key(lambda: local.control), {"name": "test"}, rights=lambda *_: True)
    with served(Served(service)) as address:
        yield address


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "playbook.yaml").write_text(TEXT)
    return tmp_path / "playbook.yaml"


@pytest.fixture(params=["local", "URL"])
def tried(request: pytest.FixtureRequest, local: LocalWiring, execution: str, url: str, file: Path) -> Any:
    where = ["--store", str(local.database.path)] if request.param == "local" else ["--on", url]
    events = len(list(local.database.rows("SELECT 1 FROM commits")))

    def call(*arguments: str) -> Any:
        done = in_process("try", execution, *arguments, *where, "--output", "json")
        assert len(list(local.database.rows("SELECT 1 FROM commits"))) == events, "nothing is recorded"
        return done

    return call


def test_a_task_of_an_iteration_is_called_on_the_names_it_saw(tried: Any) -> None:
    found = json.loads(tried("each/divide@1").stdout)
    assert found["inputs"] == {"result": 150}, "200 items, a large value, times 3, by double of iteration 1"
    assert found["outcome"]["status"] == "ok" and found["directive"] == {"do": "continue", "matched": None}
    assert found["set_ctx"] == {"last": 150}


def test_names_are_set_whether_a_template_reads_them_bare_or_not(tried: Any) -> None:
    assert json.loads(tried("each/divide@0", "--set", "workload.factor=4", "--set", "double=8").stdout)["inputs"] == {
        "result": 100
    }


def test_the_task_of_an_edited_file_is_tried(tried: Any, file: Path) -> None:
    file.write_text(TEXT.replace("iter.n * 2", "iter.n * workload.factor"))
    assert json.loads(tried("each/double@1").stdout)["outcome"]["result"] == 6


def test_without_a_call_only_the_inputs_are_shown(tried: Any) -> None:
    assert json.loads(tried("each/double@2", "--dry").stdout) == {"inputs": {"result": 0}, "undefined": []}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("place", "code", "message"),
    [
        ("eech", USAGE, 'did you mean "each"'),
        ("each", USAGE, "has 2 tasks: name one, each/double, each/divide"),
        ("each/devide@1", USAGE, 'did you mean "divide"'),
        ("each/double", USAGE, "iteration is required"),
        ("each@x", USAGE, "write STEP, STEP/TASK"),
        ("each/divide@2", FAILED, "division by zero"),
        ("each/divide@2 --set nonsense", USAGE, "--set 'nonsense': expected ctx.a=value"),
        ("each/divide@2 --set workload=3", USAGE, "--set 'workload=3': expected ctx.a=value"),
        ("each/divide@2 --set .a=3", USAGE, "--set '.a=3': expected ctx.a=value"),
        (
            "each/divide@1 --set workload.facter=4",
            USAGE,
            'task divide does not read workload.facter (did you mean "workload.factor"?)',
        ),
        (
            "each/divide@1 --set ctx.factor=4",
            USAGE,
            "task divide does not read ctx.factor (it reads double, steps.start.result, ",
        ),
        ("asks", FAILED, "the engine itself runs tasks of kind playbook"),
    ],
)
def test_refusals_name_the_remedy(tried: Any, place: str, code: int, message: str) -> None:
    done = tried(*place.split()).exception
    assert isinstance(done, Exit) and done.code == code and message in str(done)
