"""noop, store, secrets; the registry; what `invoke` promises for every kind."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from noetl_core.adapters.local.results import LazyTempResultStore
from noetl_core.dsl.kinds import ENGINE_KINDS, KINDS, PLUGINS
from noetl_core.engine.outcome import Outcome
from noetl_core.expr import Secret, contains_secret, reveal
from noetl_core.ports import NotFound, TooLarge, Unavailable
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from noetl_core.tools.masking.scrub import Scrubber
from noetl_core.tools.masking.words import is_word
from noetl_core.tools.registry import BUILT_IN, ToolRegistry, UnknownKind
from noetl_core.tools.sandbox.plain import NotPlain, to_plain
from tests.plugins import install_only

from .conftest import Run, kind

# --- noop ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "result"),
    [
        ({}, None),
        ({"result": None, "args": {"a": 1}}, None),
        ({"result": 1, "data": 2}, 1),
        ({"data": 2, "args": {}}, 2),
        ({"args": {"a": 1}}, {"a": 1}),
    ],
)
def test_noop_returns_its_result_else_its_data_else_its_args(run: Run, inputs: dict[str, Any], result: object) -> None:
    assert run("noop", inputs).result == result


# --- store --------------------------------------------------------------------------------------------------------------------

ROWS = [{"id": 1, "name": "ü"}, {"id": 2, "name": None}]


def test_a_stored_value_comes_back_as_a_reference(run: Run, store: LazyTempResultStore) -> None:
    ref = run("store", {"data": ROWS}).result
    assert ref["kind"] == "result_ref" and ref["key"] == "1/store/run-1.json" and ref["rows"] == 2 and ref["format"] == "json"
    assert ref["schema_hint"] == {"type": "list", "length": 2, "columns": ["id", "name"]}
    assert json.loads(store.get(ref["key"])) == ROWS and len(store.get(ref["key"])) == ref["size"]


def test_storing_again_writes_the_same_object(run: Run) -> None:
    assert run("store", {"data": ROWS}).result == run("store", {"data": ROWS}, attempt=2).result
    assert run("store", {"data": ROWS}, task_run_id="run-2").result["key"] != run("store", {"data": ROWS}).result["key"]


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("jsonl", '{"id":1,"name":"ü"}\n{"id":2,"name":null}\n'),
        ("csv", "id,name\n1,ü\n2,\n"),
        ("json", '[{"id":1,"name":"ü"},{"id":2,"name":null}]'),
    ],
)
def test_formats(run: Run, store: LazyTempResultStore, form: str, body: str) -> None:
    ref = run("store", {"data": ROWS, "format": form}).result
    assert store.get(ref["key"]).decode() == body and ref["format"] == form and ref["key"].endswith("." + form)


def test_a_named_key_stands_under_the_execution(run: Run) -> None:
    ref = run("store", {"data": ROWS, "key": "pages/1.csv"}).result
    assert ref["key"] == "1/store/pages/1.csv" and ref["format"] == "csv"


@pytest.mark.parametrize(
    "key",
    [
        "../x",
        "/etc/passwd",
        "a/../../x",
        "a//b",
        "",
        "a/./b",
        "..",
        "a\x00b",
        "a\nb",
        "x" * 600,
        "s3://bucket/x",
        5,
        "a\\b",
        "%2e%2e/x",
    ],
)
def test_keys_that_lead_elsewhere_are_refused(run: Run, key: object) -> None:
    assert kind(run("store", {"data": 1, "key": key})) == "schema"


@pytest.mark.parametrize(
    "inputs",
    [{"data": float("nan")}, {"data": object()}, {"data": {"a": 1}, "format": "csv"}, {"data": [1], "format": "csv"}, {"data": "x", "format": "jsonl"},
     {"data": 1, "format": "xml"}, {"data": [], "format": "parquet"}],
)  # fmt: skip
def test_data_that_cannot_be_stored_is_refused(run: Run, inputs: dict[str, Any]) -> None:
    assert kind(run("store", inputs)) == "schema"


def test_sizes_at_and_over_the_limit(run: Run) -> None:
    assert kind(run("store", {"data": "x" * 98}, spec={"max_bytes": 100})) == "ok"
    assert kind(run("store", {"data": "x" * 99}, spec={"max_bytes": 100})) == "limit"


def test_a_reference_is_stored_already_or_converted(run: Run, store: LazyTempResultStore) -> None:
    ref = run("store", {"data": ROWS}).result
    assert run("store", {"data": ref}, task_run_id="other").result == ref
    assert store.get(run("store", {"data": ref, "format": "csv"}, task_run_id="other").result["key"]).startswith(b"id,name")


def test_a_secret_is_never_stored(run: Run) -> None:
    outcome = run("store", {"data": [{"token": Secret("hunter2-and-more")}]})
    assert kind(outcome) == "schema" and "hunter2" not in str(outcome)


# --- secrets ------------------------------------------------------------------------------------------------------------------


def test_a_credentials_fields_are_secret_except_addresses_and_names(run: Run) -> None:
    stored = {"db": {"type": "postgres", "data": {"user": "u", "password": "hunter2-and-more"}}}
    outcome = run("secrets", {"secret": "db"}, secrets=stored.__getitem__)
    assert reveal(outcome.result) == {"type": "postgres", "user": "u", "password": "hunter2-and-more"}
    assert [name for name, value in outcome.result.items() if contains_secret(value)] == ["password"]
    assert "hunter2" not in str(outcome)
    assert reveal(run("secrets", {"secret_name": "db", "field": "user"}, secrets=stored.__getitem__).result) == "u"
    assert kind(run("secrets", {"key": "db", "field": "pin"}, secrets=stored.__getitem__)) == "not_found"
    assert kind(run("secrets", {"secret": "other"}, secrets=stored.__getitem__)) == "not_found"
    assert kind(run("secrets", {"secret": "other"})) == "schema"


# --- scrubbing ----------------------------------------------------------------------------------------------------------------

TEXT = st.text(min_size=6, max_size=30).filter(lambda s: len(set(s)) > 3 and s.strip() == s)


@given(TEXT, st.sampled_from(["plain", "base64", "hex", "reversed", "url", "json"]), st.text(max_size=10), st.text(max_size=10))
@example("0001\x80\x81", "base64", "", "")
def test_no_disguise_of_a_secret_gets_through(secret: str, form: str, before: str, after: str) -> None:
    from urllib.parse import quote

    raw = secret.encode("utf-8", "surrogatepass")
    disguised = {
        "plain": secret,
        "base64": base64.b64encode(raw).decode(),
        "hex": raw.hex(),
        "reversed": secret[::-1],
        "url": quote(raw, safe=""),
        "json": secret.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"),
    }[form]
    scrubber = Scrubber()
    scrubber.learn(secret)
    if is_word(secret) or is_word(disguised):
        before, after = f"{before} ", f" {after}"
    assert disguised not in scrubber.text(before + disguised + after).replace("***", "\x00")


def test_scrubbing_keeps_the_host_and_the_user_of_a_credential(run: Run) -> None:
    scrubber = Scrubber()
    scrubber.learn({"type": "postgres", "host": "db.example.com", "user": "reporter", "password": "hunter2-and-more"})
    value = {"m": "postgres at db.example.com as reporter with hunter2-and-more", "n": 5, "hunter2-and-more": [True, None]}
    assert scrubber.value(value) == {"m": "postgres at db.example.com as reporter with ***", "n": 5, "***": [True, None]}


def test_a_bearer_token_is_masked_without_its_prefix() -> None:
    scrubber = Scrubber()
    scrubber.learn_secrets({"h": [Secret("Bearer tok-123456789")]})
    assert scrubber.text("got tok-123456789 from a bear") == "got *** from a bear"


# --- plain data ---------------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_json_data_is_plain_already(value: Any) -> None:
    assert to_plain(value) == value


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_keeps_its_digits(value: Any) -> None:
    import decimal

    plain = to_plain(value)
    assert decimal.Decimal(plain if isinstance(plain, str) else repr(plain)) == value


@pytest.mark.parametrize("value", [b"x", float("inf"), object(), {("a", "b"): 1}, [1, {2: [b""]}]])
def test_a_value_that_is_not_plain_data_is_refused_with_its_path(value: Any) -> None:
    with pytest.raises(NotPlain, match="result"):
        to_plain(value)


# --- registry and invoke ------------------------------------------------------------------------------------------------------


def test_importing_the_registry_imports_no_tool_and_no_heavy_library() -> None:
    code = (
        "import sys; import noetl_core.tools.registry, noetl_core.tools.base, noetl_core.tools.invoke\n"
        "print([m for m in ('httpx', 'aiohttp', 'duckdb', 'psycopg', 'boto3', 'ssl', 'noetl_core.tools.http.tool', 'noetl_core.tools.calls.event_loop') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_built_in_kind_is_there_and_known_to_validation(registry: ToolRegistry, name: str) -> None:
    tool = registry.get(name)
    assert tool.kind == name and isinstance(tool.inline, bool) and registry.get(name) is tool
    assert name in KINDS


def test_every_kind_that_validation_knows_has_an_implementation() -> None:
    assert set(KINDS) - set(ENGINE_KINDS) == set(BUILT_IN) | set(PLUGINS)


@pytest.mark.parametrize("kind", sorted(PLUGINS))
def test_a_kind_of_a_missing_plugin_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    assert ToolRegistry().get(kind).kind == kind
    install_only(monkeypatch)
    with pytest.raises(UnknownKind, match=f"noetl up --tools {PLUGINS[kind]}"):
        ToolRegistry().get(kind)


def test_an_unknown_kind_is_refused_by_name(registry: ToolRegistry) -> None:
    with pytest.raises(UnknownKind, match="teleport"):
        registry.get("teleport")


def test_a_kind_without_its_library_names_the_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.delitem(sys.modules, "noetl_core.tools.duckdb.tool", raising=False)
    with pytest.raises(UnknownKind, match=r"kind 'duckdb' needs duckdb, which is not installed here: .*`sam build`"):
        ToolRegistry().get("duckdb")


def test_third_party_kinds_come_from_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    class Teleport:
        kind = "teleport"
        inline = True

        def run(self, call: ToolCall) -> Outcome:
            return Outcome.ok(call.inputs["to"])

    install_only(monkeypatch, Teleport)
    registry = ToolRegistry()
    assert invoke(registry.get("teleport"), ToolCall("teleport", {"to": "moon"})).result == "moon"
    assert "teleport" in registry.kinds()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NotFound("x"), "not_found"),
        (TooLarge("x"), "limit"),
        (Unavailable("x"), "storage"),
        (ZeroDivisionError("hunter2-and-more"), "unknown"),
    ],
)
def test_an_exception_in_a_tool_becomes_an_error_without_the_secret(error: Exception, expected: str) -> None:
    class Broken:
        kind = "broken"
        inline = True

        def run(self, call: ToolCall) -> Outcome:
            call.log(f"working with {call.inputs['token']}")
            raise error

    lines: list[str] = []
    outcome = invoke(
        Broken(), ToolCall("broken", {"token": Secret("hunter2-and-more")}, log=lambda line, _="": lines.append(line))
    )
    assert kind(outcome) == expected and "hunter2" not in str(outcome) and lines == ["working with ***"]


def test_a_secret_of_several_lines_is_masked_line_by_line() -> None:
    class Printing:
        kind = "printing"
        inline = True

        def run(self, call: ToolCall) -> Outcome:
            for line in str(call.inputs["key"]).splitlines():
                call.log(f"| {line} |", "stderr")
            return Outcome.ok(None)

    lines: list[str] = []
    key = Secret("-- BEGIN --\nmy dog is not\n  so big a cat \n")
    invoke(Printing(), ToolCall("printing", {"key": key}, log=lambda line, stream="": lines.append(f"{stream} {line}")))
    assert [line for line in lines if "dog" in line or "cat" in line or "BEGIN" in line] == []
    assert len(lines) == 3


@pytest.mark.parametrize("limit", [0, -1, True, "much", [], float("nan")])
def test_a_store_limit_that_is_no_number_of_bytes_is_refused(run: Run, limit: object) -> None:
    error = run("store", {"data": [1]}, spec={"max_bytes": limit}).error
    assert error is not None and error.kind == "schema"
    assert "`spec.max_bytes` must be a number of bytes" in error.message


def test_a_store_limit_of_null_means_the_default_limit(run: Run) -> None:
    assert run("store", {"data": [1]}, spec={"max_bytes": None}).status == "ok"
