"""Every number of a playbook has one range: validation and the JSON Schema give the same verdict at its borders and beyond."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from noetl_core.dsl import numbers
from noetl_core.dsl.fields.keychain import KEYCHAIN
from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.numbers import BadNumber, Range, in_range, value_of
from noetl_core.dsl.parse import check
from noetl_core.dsl.schema import playbook_schema
from noetl_core.expr import Scope, TemplateError
from tests.properties import examples, some

SCHEMA = playbook_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
Place = tuple[str, ...]
"""The place of a number: a definition of the schema (none: an executor's), and the keys from there."""


def document(**root: Any) -> dict[str, Any]:
    head = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "a", "path": "a"}}
    return {**head, "workflow": [{"step": "a", "tool": {"kind": "noop"}}], **root}


def executor(*keys: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: document(executor={"spec": nest(value, *keys)})


def step(*keys: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: document(workflow=[{"step": "a", "tool": {"kind": "noop"}, **nest(value, *keys)}])


def loop(*keys: str) -> Callable[[Any], dict[str, Any]]:
    return step_with("loop", lambda value: {"in": [1], "iterator": "i", "spec": nest(value, *keys)})


def claiming(*keys: str) -> Callable[[Any], dict[str, Any]]:
    """A loop with a cursor: of its spec, or of the cursor itself."""

    def made(value: Any) -> dict[str, Any]:
        cursor = {"kind": "postgres", "auth": "a", "table": "t", "done": "delete", **({} if keys else {"lease_s": value})}
        return {"cursor": cursor, "iterator": "i", **({"spec": nest(value, *keys)} if keys else {})}

    return step_with("loop", made)


def step_with(key: str, made: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda value: document(workflow=[{"step": "a", "tool": {"kind": "noop"}, key: made(value)}])


COMPLETE: dict[str, dict[str, Any]] = {
    "kv": {"action": "put", "key": "k", "value": 1},
    "s3": {"action": "presign", "bucket": "b", "key": "k"},
}
"""Required inputs of kinds with actions, which their schema does not know."""


def task(kind: str, *keys: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: document(
        workflow=[{"step": "a", "tool": {"kind": kind, **COMPLETE.get(kind, {}), **nest(value, *keys)}}]
    )


def then(key: str) -> Callable[[Any], dict[str, Any]]:
    made = task("noop", "spec", "policy", "rules")
    return lambda value: made([{"else": {"then": {"do": "retry", key: value}}}])


def executor_limit(key: str) -> Callable[[Any], dict[str, Any]]:
    made = executor("policy", "concurrency")
    return lambda value: made({"key": "k", "max": 1, key: value})


def step_limit(key: str) -> Callable[[Any], dict[str, Any]]:
    made = step("spec", "policy", "concurrency")
    return lambda value: made({"key": "k", "max": 1, key: value})


def rate(key: str) -> Callable[[Any], dict[str, Any]]:
    made = task("noop", "spec", "policy", "rate")
    return lambda value: made({"key": "k", "per_second": 1, key: value})


def value_schema(key: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: document(workload={"n": 1, "x-schema": {key: value}})


def credential(kind: str, key: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: document(keychain=[{"name": "k", "kind": kind, key: value}])


def trigger(made: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda value: document(executor={"spec": {"triggers": [made(value)]}})


def nest(value: Any, *keys: str) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


SIGNED = {"form": "hmac", "credential": "hooks/x", "header": "X-Signature", "timestamp": "X-Time", "signed": "{timestamp}.{body}"}
PLACES: dict[Place, Callable[[Any], dict[str, Any]]] = {
    **{("executor", "spec", "policy", "limits", name): executor("policy", "limits", name) for name in numbers.LIMITS},
    **{
        ("executor", "spec", "policy", "defaults", "timeouts", name): executor("policy", "defaults", "timeouts", name)
        for name in ("task_s", "step_s", "execution_s")
    },
    **{("executor", "spec", "policy", "lifecycle", n): executor("policy", "lifecycle", n) for n in ("timeout_s", "lifetime_s")},
    **{("executor", "spec", name): executor(name) for name in ("timeout_s", "lifetime_s", "timeout")},
    **{("timeout", part): executor("timeout", part) for part in ("connect", "read", "write", "pool", "total")},
    **{("step", "spec", name): step("spec", name) for name in ("timeout_s", "timeout")},
    **{("step", "spec", "policy", "lifecycle", n): step("spec", "policy", "lifecycle", n) for n in ("timeout_s", "deadline_s")},
    ("join", "count"): step("spec", "join", "count"),
    **{("loop", "spec", name): loop(name) for name in ("timeout_s", "timeout", "max_in_flight", "chunk_size", "commit_every")},
    ("loop", "max_in_flight"): step_with("loop", lambda value: {"in": [1], "iterator": "i", "max_in_flight": value}),
    **{("step", name): step(name) for name in ("timeout", "timeout_s", "timeout_seconds")},
    **{("noop_task", name): task("noop", name) for name in ("timeout", "timeout_s", "timeout_seconds")},
    ("loop", "spec", "frame"): claiming("frame"),
    ("cursor", "lease_s"): claiming(),
    ("cursor", "wait_s"): step_with(
        "loop", lambda value: {"cursor": {"kind": "sqs", "queue": "q", "wait_s": value}, "iterator": "i"}
    ),
    **{("loop", "spec", "policy", name): loop("policy", name) for name in ("max_in_flight", "chunk_size")},
    **{("loop", "spec", "policy", "failure", n): loop("policy", "failure", n) for n in ("tolerated_count", "tolerated_percent")},
    ("router", "spec", "policy", "priority"): step_with(
        "next", lambda value: {"spec": nest(value, "policy", "priority"), "arcs": []}
    ),
    **{("then", name): then(name) for name in ("attempts", "delay", "max_delay", "jitter", "backoff_multiplier")},
    **{("noop_task", "spec", name): task("noop", "spec", name) for name in ("timeout", "timeout_s")},
    ("executor", "spec", "policy", "priority"): executor("policy", "priority"),
    ("executor", "spec", "policy", "concurrency", "max"): executor_limit("max"),
    ("step", "spec", "policy", "concurrency", "max"): step_limit("max"),
    **{("task_policy", "rate", name): rate(name) for name in ("per_second", "burst")},
    **{
        ("value_schema", name): value_schema(name)
        for name in ("minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum")
    },
    **{
        (block.name, name): credential(kind, name)
        for kind, block in KEYCHAIN.items()
        for name in ("ttl", "expires_in", "cache_ttl")
    },
    ("trigger", "jitter"): trigger(lambda value: {"schedule": "0 0 * * *", "jitter": value}),
    ("webhook", "tolerance"): trigger(lambda value: {"webhook": {**SIGNED, "tolerance": value}}),
    ("webhook", "rate"): trigger(lambda value: {"webhook": {**SIGNED, "rate": value}}),
    ("schedule", "rate"): trigger(lambda value: {"schedule": {"rate": value}}),
    **{(f"{kind}_task", name): task(kind, name) for kind, spec in KINDS.items() for name in spec.durations},
}
ALIKE = ("spec", "timeout"), ("spec", "timeout_s"), ("timeout",), ("timeout_s",), ("timeout_seconds",)
"""Every kind of task has them; one stands for all."""


def numeric(schema: Any, path: Place) -> Iterator[Place]:
    """Every place of a schema that takes a number."""
    if not isinstance(schema, Mapping):
        return
    if schema.get("$ref") in ("#/$defs/seconds", "#/$defs/timeout") or schema.get("type") in ("number", "integer"):
        yield path
    for key in ("anyOf", "allOf"):
        for part in schema.get(key, ()):
            yield from numeric(part, path)
    for key, part in schema.get("properties", {}).items():
        yield from numeric(part, (*path, key))


def test_every_number_of_the_schema_is_tried_here() -> None:
    found = {p for name, part in SCHEMA["$defs"].items() for p in numeric(part, (name,))} - {("seconds",), ("timeout",)}
    others = {p for p in found if p[1:] in ALIKE and p[0].endswith("_task")} - {("noop_task", *rest) for rest in ALIKE}
    others -= set(PLACES)
    assert found - others == set(PLACES)


BORDERS = sorted(
    {
        near
        for allowed in [*vars(numbers).values(), *numbers.LIMITS.values()]
        if isinstance(allowed, Range)
        for border in (allowed.low, allowed.high)
        for near in (border, border - 1, border + 1, border - 0.5, border + 0.5, math.nextafter(border, math.inf))
    }
)
values: st.SearchStrategy[int | float] = st.one_of(
    st.sampled_from([*BORDERS, *(int(b) for b in BORDERS)]),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([None, True, False, "5", "15m", "", "text", "{{ workload.n }}", "{% if true %}1{% endif %}", [], {}]),
)


@pytest.mark.one_in(6)
@pytest.mark.sized
@pytest.mark.parametrize("place", some(sorted(PLACES), 3), ids=".".join)
@examples(60)
@given(value=values)
@example(value=0)
@example(value=1e3)
@example(value=5)
@example(value=500)
@example(value=1000)
@example(value=1e6)
@example(value=1e9)
def test_the_schema_and_validation_agree(place: Place, value: Any) -> None:
    made = PLACES[place](value)
    _, found = check(yaml.safe_dump(made))
    refused = [d for d in found if d.severity == "error" and d.code in ("E111", "E112", "E124", "E128")]
    assert VALIDATOR.is_valid(made) == (not refused), refused


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, -math.inf, "inf", "nan", "soon", None, True, [], {}, 10**400])
def test_a_value_out_of_range_is_refused_with_the_range(value: Any) -> None:
    with pytest.raises(BadNumber, match="timeout_s of step a must be a number above 0") as wrong:
        in_range(value, numbers.TIMEOUT, "timeout_s of step a")
    assert wrong.value.kind == "schema"


def test_an_undefined_expression_for_a_limit_is_an_error() -> None:
    scope = Scope({"ctx": {"text": "7", "none": None}})
    assert value_of(None, numbers.TIMEOUT, "timeout_s", scope) is None
    assert value_of("{{ ctx.text }}", numbers.TIMEOUT, "timeout_s", scope) == 7
    with pytest.raises(TemplateError, match="timeout_s") as wrong:
        value_of("{{ ctx.missing }}", numbers.TIMEOUT, "timeout_s", scope)
    assert wrong.value.kind == "template"
    with pytest.raises(BadNumber, match="default"):
        value_of("{{ ctx.none }}", numbers.TIMEOUT, "timeout_s", scope)
