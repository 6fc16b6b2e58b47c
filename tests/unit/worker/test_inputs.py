"""Inputs of a task: values, loaded once, within the limit, or an error that names the input and the remedy (resolution 22)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl_core.adapters.local.database import MEMORY, Database
from noetl_core.adapters.local.events import SqliteEventStore
from noetl_core.adapters.local.results import LazyTempResultStore
from noetl_core.expr import Scope, Secret, TemplateError, references_in, render, replaced, reveal
from noetl_core.worker.values.execution_view import Resolver
from noetl_core.worker.values.inputs import CannotBegin, load_inputs

MB = 1024 * 1024


class Counting(LazyTempResultStore):
    """Knows what was read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        self.reads.append(key)
        return super().get(key, start, end)

    def ref(self, name: str, value: Any, **more: Any) -> dict[str, Any]:
        body = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
        return {**self.put(f"7/{name}", body), **more}


@pytest.fixture
def store() -> Counting:
    return Counting()


@pytest.fixture
def resolve(store: Counting) -> Resolver:
    return Resolver(SqliteEventStore(Database(MEMORY)), store, "7")


def loaded_inputs(inputs: dict[str, Any], resolve: Resolver, kind: str = "python", limit: int = MB) -> dict[str, Any]:
    return load_inputs(kind, "use", inputs, resolve, limit)


def test_references_are_loaded_wherever_they_stand(store: Counting, resolve: Resolver) -> None:
    inner = store.ref("inner.json", [1, 2])
    outer = store.ref("outer.json", {"deep": [inner, {"more": inner}]})
    inputs: dict[str, Any] = {"args": {"a": outer, "b": [0, {"c": inner}], "d": 1}, "x": Secret({"s": [inner]})}
    found = loaded_inputs(inputs, resolve)
    assert found["args"] == {"a": {"deep": [[1, 2], {"more": [1, 2]}]}, "b": [0, {"c": [1, 2]}], "d": 1}
    assert isinstance(found["x"], Secret) and reveal(found["x"]) == {"s": [[1, 2]]}
    assert inputs["args"]["b"] == [0, {"c": inner}]  # rendered values belong to the scope, and stay unchanged


def test_plain_inputs_are_passed_on_as_they_are(store: Counting, resolve: Resolver) -> None:
    rows = [{"n": n} for n in range(10)]
    assert loaded_inputs({"args": {"rows": rows}}, resolve)["args"]["rows"] is rows
    assert store.reads == []


def test_a_value_passed_to_many_tasks_is_read_once(store: Counting, resolve: Resolver) -> None:
    ref = store.ref("rows.json", list(range(100)))
    for _ in range(5):
        assert loaded_inputs({"args": {"rows": ref}}, resolve)["args"]["rows"] == list(range(100))
    assert store.reads == ["7/rows.json"]


def test_a_page_of_references_is_a_list_of_values(store: Counting, resolve: Resolver) -> None:
    parts = [{"result": [1, 2]}, {"result": store.ref("page.json", [store.ref("big.json", {"n": 3}), 4])}]
    manifest = store.ref("all.json", parts, schema_hint="manifest")
    assert loaded_inputs({"args": {"all": manifest}}, resolve)["args"]["all"] == [1, 2, {"n": 3}, 4]


def test_lines_of_json_are_a_list(store: Counting, resolve: Resolver) -> None:
    ref = store.ref("rows.jsonl", b'{"n":1}\n{"n":2}\n', format="jsonl")
    assert loaded_inputs({"args": {"rows": ref}}, resolve)["args"]["rows"] == [{"n": 1}, {"n": 2}]


def test_a_mapping_that_only_resembles_a_reference_is_plain_data(store: Counting, resolve: Resolver) -> None:
    looks = [
        {"kind": "result_ref", "store": "s3", "key": "8/rows.json", "size": 10 * MB},
        {"kind": "result_ref", "store": "s3", "key": 5},
        {"kind": "result_ref", "key": "7/rows.json"},
    ]
    assert loaded_inputs({"args": {"looks": looks}}, resolve) == {"args": {"looks": looks}}


@pytest.mark.parametrize(
    ("kind", "inputs", "kept"),
    [
        ("store", {"data": "REF"}, ("data",)),
        ("duckdb", {"sources": {"t": ["REF"]}, "query": "SELECT 1"}, ("sources", "t", 0)),
        ("playbook", {"path": "p", "payload": {"rows": "REF"}}, ("payload", "rows")),
        ("playbook", {"path": "p", "args": {"rows": ["REF"]}}, ("args", "rows", 0)),
        ("playbook", {"path": "p", "ctx": {"rows": "REF"}}, ("ctx", "rows")),
    ],
)
def test_kinds_that_accept_references_receive_them_unloaded(
    store: Counting, resolve: Resolver, kind: str, inputs: Any, kept: Any
) -> None:
    ref = store.ref("rows.json", [1])
    inputs = json.loads(json.dumps(inputs).replace('"REF"', json.dumps(ref)))
    value = loaded_inputs(inputs, resolve, kind)
    for key in kept:
        value = value[key]
    assert value == ref and store.reads == []


def test_a_mapping_of_references_that_is_one_itself_is_opened_no_further(store: Counting, resolve: Resolver) -> None:
    rows = store.ref("rows.json", [1])
    assert loaded_inputs({"path": "p", "payload": store.ref("all.json", {"rows": rows})}, resolve, "playbook")["payload"] == {
        "rows": rows
    }


@pytest.mark.parametrize(
    "inputs",
    [
        {"args": {"rows": ["BIG", "BIG"]}},
        {"args": {"rows": ["BIG", {"last": "BIG"}]}, "code": "x"},
    ],
)
def test_inputs_over_the_limit_are_refused_by_name_before_they_are_loaded(
    store: Counting, resolve: Resolver, inputs: Any
) -> None:
    ref = store.ref("big.json", "x" * 598)
    inputs = json.loads(json.dumps(inputs).replace('"BIG"', json.dumps(ref)))
    with pytest.raises(
        CannotBegin, match=r"args\.rows\[1\](\.last)? they are 1200 bytes.*max_input_bytes is 1000.*raise executor"
    ) as raised:
        loaded_inputs(inputs, resolve, limit=1000)
    error = raised.value.outcome.error
    assert error is not None and error.kind == "limit" and error.as_dict()["retryable"] is False
    assert store.reads == []


@pytest.mark.parametrize("size", [1, -5, None, "1", 1.5, True])
def test_a_wrong_size_in_a_reference_does_not_bypass_the_limit(store: Counting, resolve: Resolver, size: Any) -> None:
    ref = {**store.ref("big.json", "x" * 5000), "size": size}
    with pytest.raises(CannotBegin, match="max_input_bytes is 1000"):
        loaded_inputs({"args": {"a": ref}}, resolve, limit=1000)


def test_a_page_is_refused_if_its_parts_together_exceed_the_limit(store: Counting, resolve: Resolver) -> None:
    parts = [{"result": store.ref(f"{n}.json", ["x" * 300])} for n in range(9)]
    with pytest.raises(CannotBegin, match=r"args\.all.*max_input_bytes is 2000"):
        loaded_inputs({"args": {"all": store.ref("all.json", parts, schema_hint="manifest")}}, resolve, limit=2000)


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (b"a,b\n1,2\n", "schema", r"args\.rows: the content of 7/rows\.csv is not JSON"),
        (None, "not_found", r"args\.rows: .*7/rows.csv"),
    ],
)
def test_a_reference_that_cannot_become_a_value_is_refused_by_name(
    store: Counting, resolve: Resolver, body: bytes | None, kind: str, says: str
) -> None:
    ref: dict[str, Any] = {"kind": "result_ref", "store": "s3", "key": "7/rows.csv"}
    if body is not None:
        ref = store.ref("rows.csv", body)
    with pytest.raises(CannotBegin, match=says) as raised:
        loaded_inputs({"args": {"rows": ref}}, resolve)
    assert raised.value.outcome.error is not None and raised.value.outcome.error.kind == kind


@pytest.mark.parametrize("claims", [{}, {"checksum": "sha256:" + "0" * 64}, {"checksum": None}])
def test_a_reference_that_knows_no_more_than_the_key_loads_nothing(store: Counting, resolve: Resolver, claims: Any) -> None:
    """A called service may name an object of the execution in its answer; what the object holds it cannot know."""
    own = store.ref("own.json", {"mine": 1})
    assert loaded_inputs({"args": {"rows": own}}, resolve)["args"] == {"rows": {"mine": 1}}
    made_up = {"kind": "result_ref", "store": "s3", "key": "7/own.json", **claims}
    for known in (resolve, Resolver(SqliteEventStore(Database(MEMORY)), store, "7")):
        with pytest.raises(CannotBegin, match=r"args\.rows: the object 7/own.json is not what was stored") as raised:
            loaded_inputs({"args": {"rows": made_up}}, known)
        assert raised.value.outcome.error is not None and raised.value.outcome.error.kind == "schema"


def test_finding_and_replacing_leave_the_rest_as_it_was() -> None:
    ref = {"kind": "result_ref", "store": "s3", "key": "7/a.json"}
    value = {"a": [1, ref], "b": {"c": ref}, "d": [2]}
    assert references_in(value) == [(("a", 1), ref), (("b", "c"), ref)]
    changed = replaced(value, [(("a", 1), 5), (("b", "c"), 6)])
    assert changed == {"a": [1, 5], "b": {"c": 6}, "d": [2]} and changed["d"] is value["d"] and value["a"] == [1, ref]


def test_a_template_does_not_load_a_reference_over_the_limit(store: Counting) -> None:
    events = SqliteEventStore(Database(MEMORY))
    small, large = store.ref("small.json", {"a": "x" * 80}), store.ref("large.json", {"a": "x" * 200})
    scope = Scope({"small": small, "large": large}, resolve=Resolver(events, store, "7", 100))
    assert render("{{ small.a | length }}", scope) == 80
    store.reads.clear()
    with pytest.raises(TemplateError, match=r"would load 208 bytes of it \(the limit is 100\); read less of it") as refused:
        render("{{ large.a }}", scope)
    assert refused.value.kind == "limit"
    assert store.reads == [], "nothing is loaded"
    assert render("{{ large }}", scope) == large, "the reference itself is passed on"


def test_a_reference_that_understates_its_size_is_not_loaded_whole(store: Counting) -> None:
    lies = store.ref("lies.json", {"a": "x" * 10_000}, size=5)
    scope = Scope({"lies": lies}, resolve=Resolver(SqliteEventStore(Database(MEMORY)), store, "7", 100))
    with pytest.raises(TemplateError, match="the limit is 100") as refused:
        render("{{ lies.a }}", scope)
    assert refused.value.kind == "limit"
