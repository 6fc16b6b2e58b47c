"""`kind: artifact` as playbooks use it, and what repeated and concurrent tasks come to."""

from __future__ import annotations

import tracemalloc
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.local.results import FileResultStore
from noetl_core.engine.outcome import Outcome
from noetl_core.log.stored_values import PublishedResults
from noetl_core.ports import NotFound
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.artifact import ArtifactTool
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from tests.unit.tools.aws_playbooks import Ran

MIB = 1024 * 1024
ROWS = [{"n": 1, "name": "ä"}, {"n": 2, "name": "b"}]


def put(name: str = "report", data: Any = 1, **more: Any) -> dict[str, Any]:
    return {"kind": "artifact", "action": "put", "key": name, "data": data, **more}


def get(name: str = "report", **more: Any) -> dict[str, Any]:
    return {"kind": "artifact", "key": name, **more}


class Direct:
    """Calls without a playbook, of any execution."""

    def __init__(self, folder: Path) -> None:
        self.local = LocalWiring()
        self.results = FileResultStore(folder)
        self.tool = ArtifactTool()

    def __call__(self, execution: str, run: str, **inputs: Any) -> Outcome:
        return invoke(self.tool, self.call(execution, run, **inputs))

    def call(self, execution: str, run: str, **inputs: Any) -> ToolCall:
        return ToolCall(
            "artifact", inputs, execution_id=execution, task_run_id=run, results=self.results,
            key_values=self.local.worker.tools.key_values, published=PublishedResults(self.results),
        )  # fmt: skip


@pytest.fixture
def direct(tmp_path: Path) -> Any:
    made = Direct(tmp_path)
    yield made
    made.local.close()


# --- returned values ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, 0, "", "ü\n", [], ROWS, {"a": [None, 1.5]}, False])
def test_a_value_comes_back_as_it_was_in_its_execution_and_in_another(value: Any) -> None:
    local = LocalWiring()
    same = Ran(put(data=value), get(), local=local)
    assert same.result["data"] == value
    later = Ran(get(), local=local)
    assert later.result["data"] == value
    assert later.result["version"] == same.execution_id != later.execution_id
    local.close()


@pytest.mark.parametrize(
    ("task", "form"),
    [
        (put(data=ROWS), "json"),
        (put(data="text"), "text"),
        (put("rows.csv", ROWS), "csv"),
        (put("rows.csv", "n,name\n1,x\n"), "csv"),
        (put("rows.jsonl", ROWS), "jsonl"),
        (put(data=ROWS, format="parquet"), "parquet"),
        (put("text.json", "text"), "json"),
        (put(data=b64encode(b"\0\xff").decode(), format="base64"), "bytes"),
    ],
)
def test_the_stored_format_follows_the_format_field_the_key_or_the_data(task: dict[str, Any], form: str) -> None:
    assert Ran(task).result["format"] == form


def test_bytes_come_back_as_base64() -> None:
    encoded = b64encode(b"\0\xff").decode()
    local = LocalWiring()
    Ran(put(data=encoded, format="base64"), local=local)
    assert Ran(get(format="base64"), local=local).result["data"] == encoded
    local.close()


def test_rows_of_another_execution_are_a_source_of_duckdb() -> None:
    local = LocalWiring()
    Ran(put(data=ROWS, format="parquet"), local=local)
    found = Ran(
        get(), {"kind": "duckdb", "sources": {"r": "{{ t0.data }}"}, "command": "SELECT sum(n)::int AS n FROM r"}, local=local
    )
    assert found.result["rows"] == [{"n": 3}]
    local.close()


def test_a_put_resolves_references_nested_in_the_value() -> None:
    """Other executions may not read the targets of references, so their data is stored."""
    local = LocalWiring()
    Ran(
        {"kind": "noop", "result": "{{ range(60000) | list }}"},
        {"kind": "noop", "result": {"deep": "{{ t0 }}", "pad": "{{ 'x' * 250000 }}"}},
        put(data="{{ t1 }}"),
        local=local,
    )
    found = Ran(get(), {"kind": "noop", "result": "{{ [t0.data.deep[59999], t0.data.pad | length] }}"}, local=local)
    assert found.result == [59999, 250000]
    local.close()


@pytest.mark.nightly
def test_an_artifact_of_any_size_passes_in_constant_memory(direct: Direct, tmp_path: Path) -> None:
    key = "1/artifacts/big.bytes"
    with direct.results.writer(key) as out:
        for _ in range(96):
            out.write(b"x" * MIB)
        big = {**out.finish(), "format": "bytes"}
    owning: Any = type(
        "Owning", (), {"owns": staticmethod(lambda value: isinstance(value, dict) and value.get("key") == big["key"])}
    )()
    tracemalloc.start()
    stored = invoke(ArtifactTool(), replace(direct.call("1", "a", action="put", key="big", data=big), references=owning))
    read = invoke(ArtifactTool(), direct.call("2", "b", key="big"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert stored.error is None and read.error is None
    assert (read.result["size"], read.result["data"]["checksum"]) == (96 * MIB, big["checksum"])
    assert read.result["data"]["key"].startswith("2/")
    assert peak < 40 * MIB


# --- versions -----------------------------------------------------------------------------------------------------------


def test_an_execution_is_a_version_and_the_latest_is_the_one_put_last() -> None:
    local = LocalWiring()
    first = Ran(put(data="first"), local=local)
    second = Ran(put(data="second"), local=local)
    assert first.result["version"] == first.execution_id
    assert Ran(get(), local=local).result["data"] == "second"
    assert Ran(get(version=first.execution_id), local=local).result["data"] == "first"
    assert Ran(get(version=second.execution_id), local=local).result["data"] == "second"
    local.close()


def test_an_artifact_outlives_the_process(tmp_path: Path) -> None:
    local = LocalWiring(tmp_path / "runs.db")
    Ran(put(data={"kept": True}), local=local)
    local.close()
    again = LocalWiring(tmp_path / "runs.db")
    assert Ran(get(), local=again).result["data"] == {"kept": True}
    again.close()


def test_a_put_that_is_repeated_late_does_not_take_the_place_of_a_newer_one(direct: Direct) -> None:
    now = [0]
    direct.tool = ArtifactTool(lambda: now[0])
    for at, execution, run, data in ((10, "1", "a", "old"), (20, "2", "b", "new"), (30, "1", "a", "old")):
        now[0] = at
        assert direct(execution, run, action="put", key="x", data=data).status == "ok"
    assert direct("3", "c", key="x").result["data"] == "new"


def test_concurrent_puts_have_one_latest_version_and_lose_none(direct: Direct) -> None:
    def one(n: int) -> Outcome:
        return direct(str(n), f"run{n}", action="put", key="x", data=n)

    with ThreadPoolExecutor(8) as pool:
        assert {outcome.status for outcome in pool.map(one, range(1, 25))} == {"ok"}
    newest = max((direct("99", "r", key="x", version=str(n)).result for n in range(1, 25)), key=lambda one: one["at"])
    latest = direct("99", "r", key="x").result
    assert latest["at"] == newest["at"]
    assert [direct("99", "r", key="x", version=str(n)).result["data"] for n in range(1, 25)] == list(range(1, 25))


def test_an_artifact_expires_after_its_ttl(direct: Direct) -> None:
    now = [1_000_000_000]
    direct.tool = ArtifactTool(lambda: now[0])
    stored = direct("1", "a", action="put", key="x", data=1, ttl=60)
    assert stored.result["expires_at"].startswith("1970-01-01T00:17:40")
    assert direct("2", "b", key="x").status == "ok"
    now[0] += 60_000_000
    assert direct("2", "b", key="x").as_dict()["error"]["kind"] == "not_found"


# --- refusals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "kind", "told"),
    [
        (get("none"), "not_found", "there is no artifact `none`"),
        (get("none", version="1"), "not_found", "there is no artifact `none` of execution 1"),
        (get("{{ '../x' }}"), "schema", "`key`"),
        (get("{{ 'a b' }}"), "schema", "`key`"),
        (get("{{ 'x' * 201 }}"), "schema", "`key`"),
        (get(version="{{ 'latest' }}"), "schema", "`version`"),
        (get(format="csv"), "schema", "`format` of get is one of auto, text, base64, reference"),
        (put(data="é", format="base64"), "schema", "cannot be written as base64"),
        (put(data=1, format="parquet"), "schema", "cannot be written as parquet"),
        (put(data="x" * 100, spec={"max_bytes": 10}), "limit", "`spec.max_bytes` is 10"),
    ],
)
def test_an_impossible_get_or_put_fails_with_its_reason(task: dict[str, Any], kind: str, told: str) -> None:
    error = Ran(task).error
    assert error["kind"] == kind and told in error["message"], error


def test_reading_binary_data_as_text_fails_and_suggests_base64() -> None:
    error = Ran(put(data=b64encode(b"\0\xff").decode(), format="base64"), get(format="text")).error
    assert error["kind"] == "parse" and "format: base64" in error["message"]


def test_a_text_over_max_value_bytes_fails_and_suggests_format_reference() -> None:
    error = Ran(put(data="x" * 100), get(spec={"max_value_bytes": 10})).error
    assert error["kind"] == "limit" and "format: reference" in error["message"]


def test_a_missing_artifact_of_a_deleted_execution_names_that_execution(direct: Direct) -> None:
    direct("1", "a", action="put", key="x", data="1" * 10)
    direct.results.forget("1")
    error = direct("2", "b", key="x").as_dict()["error"]
    assert error["kind"] == "not_found" and "lasts as long as the results of execution 1" in error["message"]


def test_secrets_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_CREDENTIAL_API", '{"token": "S3cret-Value"}')
    for task in (put(data=["{{ t0 }}"]), put("{{ t0 }}")):
        error = Ran({"kind": "secrets", "secret": "api", "field": "token"}, task).error
        assert "refuses secrets" in error["message"]


def test_other_executions_can_read_only_artifacts(tmp_path: Path) -> None:
    results = FileResultStore(tmp_path)
    results.put("1/private.json", b"1")
    results.put("1/artifacts/a.json", b"2")
    published = PublishedResults(results)
    assert published.get("1/artifacts/a.json") == b"2"
    for key in ("1/private.json", "1/artifacts/../private.json", "artifacts/1/private.json"):
        with pytest.raises(NotFound):
            published.get(key)


def test_the_entries_of_artifacts_are_out_of_reach_for_kv() -> None:
    error = Ran(put(), {"kind": "kv", "action": "put", "bucket": "{{ '~artifacts/report' }}", "key": "latest", "value": 1}).error
    assert error["kind"] == "schema" and "`bucket`" in error["message"]


def test_a_pool_without_access_to_artifacts_gets_an_auth_error() -> None:
    refused = invoke(ArtifactTool(), ToolCall("artifact", {"key": "x"})).as_dict()["error"]
    assert (refused["kind"], refused["retryable"]) == ("auth", False)
