"""`noetl get`: results as files, from the local store and over the API."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl_cli.errors import Exit
from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.api.app import Api as Served
from noetl_core.control.admit import StartRequest
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.service.operations.base import cursor_key
from noetl_core.views.history import objects
from tests.api_server import served
from tests.commands import in_process

TEXT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: results, path: tests/results }
executor: { spec: { result: { small: 1, rows: "{{ steps.large.result }}" }, policy: { limits: { max_payload_bytes: 64 } } } }
workflow:
  - step: start
    tool: { kind: noop, result: { n: 1, text: "grüß" } }
    next: { arcs: [{ step: large }] }
  - step: large
    tool: { kind: noop, result: "{{ range(3000) | list }}" }
    next: { arcs: [{ step: nested }] }
  - step: nested
    loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel, policy: { exec: local } } }
    tool: { kind: noop, result: { n: "{{ iter.n }}", rows: "{{ range(60) | list }}" } }
    next: { arcs: [{ step: spread }] }
  - step: spread
    loop: { in: "{{ range(40) | list }}", iterator: n, spec: { mode: parallel, chunk_size: 7, policy: { exec: distributed } } }
    tool: { kind: noop, result: { n: "{{ iter.n }}", text: "{{ 'x' * 80 }}" } }
    next: { arcs: [{ step: table }] }
  - step: table
    tool: { kind: store, format: csv, data: [{ a: 1, b: x }, { a: 2, b: y }] }
    next: { arcs: [{ step: login }] }
  - step: login
    tool: { kind: noop, result: { token: tok-secret-1, n: 5 }, spec: { result: { secret: [token] } } }
    next: { arcs: [{ step: fails }] }
  - step: fails
    tool: { kind: noop, result: 1, spec: { policy: { rules: [{ else: { then: { do: fail } } }] } } }
    next: { arcs: [{ step: after, when: "{{ event.status == 'error' }}" }] }
  - step: after
    tool: { kind: noop, result: null }
"""
NESTED = [{"n": n, "rows": list(range(60))} for n in (1, 2, 3)]
SPREAD = [{"n": n, "text": "x" * 80} for n in range(40)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results") / "runs.db"


@pytest.fixture(scope="module")
def local(store: Path) -> Iterator[LocalWiring]:
    wiring = LocalWiring(store)
    yield wiring
    wiring.close()


@pytest.fixture(scope="module")
def execution(local: LocalWiring) -> str:
    started = local.start(StartRequest(playbook=TEXT, payload={}))
    assert local.run(started.execution_id, timeout_s=60)
    return started.execution_id


@pytest.fixture(scope="module")
def url(local: LocalWiring, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    secrets = LocalSecrets(tmp_path_factory.mktemp("secrets") / "credentials.json")
    key = cursor_key(lambda: local.control)
    with served(
        Served(Service(lambda: local.control, key, {"name": "test"}, lambda: secrets, rights=lambda *_: True))
    ) as address:
        yield address


@pytest.fixture(params=["local", "URL"])
def get(request: pytest.FixtureRequest, store: Path, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOETL_TOKEN", raising=False)
    where = ["--store", str(store)] if request.param == "local" else ["--on", url]
    return lambda *arguments: in_process("get", *arguments, *where)


def code_of(done: Any) -> int:
    return int(done.exception.code) if isinstance(done.exception, Exit) else int(done.exit_code)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("step", "value"),
    [
        (".start", {"n": 1, "text": "grüß"}),
        (".large", list(range(3000))),
        (".nested", NESTED),
        (".spread", SPREAD),
        (".login", {"token": "***", "n": 5}),
        (".after", None),
        ("", {"small": 1, "rows": list(range(3000))}),
    ],
)
def test_a_result_is_written_with_its_references_resolved(
    get: Any, execution: str, step: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "PIECE", 4000)
    done = get(f"{execution}{step}", "-o", "out.json")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "out.json").read_text()
    assert json.loads(text) == value and text.endswith("\n")
    shown = get(f"{execution}{step}", "-o", "-")
    assert shown.exit_code == 0 and shown.stdout == text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("step", "items"), [("large", list(range(3000))), ("nested", NESTED), ("spread", SPREAD)])
def test_a_list_is_written_as_lines(get: Any, execution: str, step: str, items: list[Any], tmp_path: Path) -> None:
    assert get(f"{execution}.{step}", "-o", "out.jsonl").exit_code == 0
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == items


def test_a_stored_file_is_written_unchanged(get: Any, execution: str, tmp_path: Path) -> None:
    assert get(f"{execution}.table", "-o", "table.csv").exit_code == 0
    assert (tmp_path / "table.csv").read_text().split() == ["a,b", "1,x", "2,y"]


def test_an_existing_file_is_overwritten_only_with_force(get: Any, execution: str, tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("mine")
    refused = get(f"{execution}.start", "-o", "out.json")
    assert code_of(refused) == 2 and "--force" in str(refused.exception)
    assert (tmp_path / "out.json").read_text() == "mine"
    assert get(f"{execution}.start", "-o", "out.json", "--force").exit_code == 0
    assert json.loads((tmp_path / "out.json").read_text()) == {"n": 1, "text": "grüß"}


@pytest.mark.parametrize(("step", "code"), [(".nothing", 2), (".fails", 1)])
def test_a_step_without_a_result_is_an_error_and_leaves_no_file(
    get: Any, execution: str, step: str, code: int, tmp_path: Path
) -> None:
    assert code_of(get(f"{execution}{step}", "-o", "out.json")) == code
    assert list(tmp_path.iterdir()) == []


def test_an_object_that_was_altered_is_not_left_as_the_result(get: Any, local: LocalWiring, tmp_path: Path) -> None:
    started = local.start(StartRequest(playbook=TEXT.replace("tests/results", "tests/altered"), payload={}))
    assert local.run(started.execution_id, timeout_s=60)
    folder = Path(local.results.url(f"{started.execution_id}/x")).parent
    for file in folder.rglob("*.json"):
        file.write_bytes(b" " + file.read_bytes())
    done = get(f"{started.execution_id}.large", "-o", "out.json")
    assert code_of(done) == 1 and "checksum" in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_keys_that_are_no_value_of_the_execution_are_not_found(local: LocalWiring, execution: str) -> None:
    from noetl_core.ports import NotFound

    for key in ("1/results/x.json", "nothing", f"{execution}/commits/1", f"{execution}/logs/x-1.json", "../x", ""):
        with pytest.raises(NotFound):
            objects.object_piece(local.control, execution, key)
    with pytest.raises(NotFound):
        objects.page_result(local.control, execution, "no-run", 0)


@pytest.mark.nightly
def test_a_large_object_is_copied_in_constant_memory(local: LocalWiring, store: Path, tmp_path: Path) -> None:
    text = TEXT.split("workflow:")[0].replace('result: { small: 1, rows: "{{ steps.large.result }}" }, ', "")
    text += "workflow: [{ step: big, tool: { kind: store, format: jsonl, data: \"{{ ['y' * 1000000] * 30 }}\" } }]\n"
    started = local.start(StartRequest(playbook=text, payload={}))
    assert local.run(started.execution_id, timeout_s=60)
    tracemalloc.start()
    try:
        done = in_process("get", f"{started.execution_id}.big", "-o", str(tmp_path / "big.jsonl"), "--store", str(store))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert done.exit_code == 0, done.output
    size = (tmp_path / "big.jsonl").stat().st_size
    assert size > 30_000_000 and peak < size * 0.8
