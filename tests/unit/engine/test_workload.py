"""The workload: templates among its defaults, the requirements of `x-schema`, and probable typos in a payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.engine.workload import BadWorkload, check_inputs, doubts, rendered_defaults, unknown
from noetl_core.values.mappings import deep_merge
from tests.unit.dsl.broken_playbooks import HEAD

STEP = {"step": "start", "tool": {"kind": "noop"}}


def playbook(workload: Mapping[str, Any]) -> Playbook:
    return parse_playbook(HEAD + yaml.safe_dump({"workload": dict(workload), "workflow": [STEP]}, sort_keys=False))


def merged(workload: Mapping[str, Any], **payload: Any) -> dict[str, Any]:
    of = playbook(workload)
    return deep_merge(deep_merge(of.workload, payload), rendered_defaults(of, payload, "42"))


# --- templates among the defaults -------------------------------------------------------------------------------------------


def test_a_default_reads_the_payload_and_other_defaults_whatever_their_order() -> None:
    workload = {
        "url": "{{ workload.base }}/{{ region }}",
        "base": "https://{{ workload.host }}",
        "host": "a.example",
        "region": "n",
    }
    assert merged(workload)["url"] == "https://a.example/n"
    assert merged(workload, host="b.example", region="s")["url"] == "https://b.example/s"
    assert merged(workload, base="ftp://c")["url"] == "ftp://c/n"


def test_a_whole_expression_keeps_its_type_in_mappings_and_lists_too() -> None:
    workload = {"n": 4, "deep": {"half": "{{ workload.n / 2 }}", "list": [1, "{{ n }}", {"x": "{{ workload.deep.half }}"}]}}
    assert merged(workload) == {"n": 4, "deep": {"half": 2.0, "list": [1, 4, {"x": 2.0}]}}
    assert merged(workload, n=10)["deep"]["list"] == [1, 10, {"x": 5.0}]


def test_a_default_may_take_a_whole_mapping_that_holds_templates() -> None:
    assert merged({"copy": "{{ workload.of }}", "of": {"x": "{{ execution_id }}"}})["copy"] == {"x": "42"}


def test_templates_in_the_payload_are_not_rendered() -> None:
    workload = {"a": 1, "b": "{{ workload.a }}", "deep": {"c": "{{ b }}"}}
    assert merged(workload, a="{{ 6 * 7 }}", deep={"d": "{{ b }}"}) == {
        "a": "{{ 6 * 7 }}",
        "b": "{{ 6 * 7 }}",
        "deep": {"c": "{{ 6 * 7 }}", "d": "{{ b }}"},
    }
    assert merged(workload, b="{{ 1 }}", deep=None) == {"a": 1, "b": "{{ 1 }}", "deep": None}


def test_a_default_that_the_payload_replaces_is_not_rendered() -> None:
    workload = {"a": "{{ 1 // 0 }}", "b": 2}
    assert merged(workload, a=3) == {"a": 3, "b": 2}


@pytest.mark.parametrize(
    ("workload", "payload", "kind", "message"),
    [
        ({"a": "{{ workload.b + 1 }}"}, {}, "template", "the default workload.a: {{ workload.b + 1 }}: "),
        ({"d": {"a": ["{{ workload.nope }}"]}}, {}, "template", "the default workload.d.a[0]: {{ workload.nope }} is undefined"),
        ({"a": "{{ workload[k] }}", "k": "a"}, {}, "template", "defaults need each other: workload.a -> workload.a"),
        ({"a": "{{ 'x' * 100000000 }}"}, {}, "limit", "the default workload.a: "),
    ],
)
def test_a_default_that_cannot_be_rendered_is_named_in_the_error(
    workload: Mapping[str, Any], payload: Mapping[str, Any], kind: str, message: str
) -> None:
    with pytest.raises(BadWorkload) as refused:
        rendered_defaults(playbook(workload), payload, "42")
    assert refused.value.kind == kind
    assert message in str(refused.value)


@pytest.mark.nightly
def test_a_long_chain_of_defaults_is_refused_before_the_stack_is() -> None:
    chain: dict[str, Any] = {f"a{n}": f"{{{{ workload.a{n + 1} }}}}" for n in range(5000)}
    with pytest.raises(BadWorkload, match="more than 50 defaults need each other") as refused:
        rendered_defaults(playbook({**chain, "a5000": 1}), {}, "42")
    assert refused.value.kind == "limit"


# --- validation -------------------------------------------------------------------------------------------------------------


def found(workload: str) -> list[str]:
    text = HEAD + f"workload: {workload}\nworkflow: [{{step: a, tool: {{kind: noop, result: '{{{{ workload }}}}'}}}}]\n"
    return [f"{d.code} {d.message}" for d in check(text)[1]]


@pytest.mark.parametrize(
    ("workload", "messages"),
    [
        ("{a: '{{ b }}', b: '{{ workload.a }}'}", ["E209 defaults need each other: workload.a -> workload.b -> workload.a"]),
        ("{a: '{{ workload.a }}'}", []),
        (
            "{a: {x: '{{ workload.b }}'}, b: '{{ c }}', c: '{{ workload.a }}'}",
            ["E209 defaults need each other: workload.a.x -> workload.b -> workload.c -> workload.a.x"],
        ),
        ("{a: {host: h, url: '{{ workload.a.host }}'}}", []),
        ("{a: '{{ keychain.k.x }}'}", ["E205 keychain.k.x in workload: the control plane holds no secrets"]),
        ("{a: '{{ ctx.x }}'}", ["E208 ctx in workload: defaults are rendered once, before the execution begins"]),
        ("{a: '{{ steps.a.result }}'}", ["E208 steps in workload: defaults are rendered once, before the execution begins"]),
        ("{a: '{{ }}'}", ["E301 template: Expected an expression"]),
        ("{a: '{{ workload.bb }}', b: 1}", ["W515 nothing binds workload.bb"]),
        ("{a: '{{ workload.b }}', b: 1, description: '{{ execution_id }}'}", []),
        ("{event: 1, b: '{{ event }}'}", []),
    ],
)  # fmt: skip
def test_validation_reports_defaults_that_cannot_be_rendered(workload: str, messages: list[str]) -> None:
    heard = found(workload)
    assert len(heard) == len(messages), heard
    assert all(h.startswith(s) for h, s in zip(heard, messages, strict=True)), heard


def test_a_key_that_only_another_default_reads_is_read() -> None:
    text = (
        HEAD
        + "workload: {base: x, url: '{{ workload.base }}/y'}\nworkflow: [{step: a, tool: {kind: noop, result: '{{ url }}'}}]\n"
    )
    assert check(text)[1] == []


def test_the_name_callback_is_known_beside_a_callback_by_token() -> None:
    def codes(*tasks: str) -> list[str]:
        body = "".join(f"\n      - {t}" for t in tasks)
        return [
            d.code for d in check(HEAD + f"workload: {{a: 1}}\nworkflow:\n  - step: s\n    tool:{body}\n")[1] if d.code == "W515"
        ]

    ask = "{name: ask, kind: http, url: '{{ a }}', json: {to: '{{ callback.url }}', t: '{{ callback.token }}'}}"
    assert codes(ask, "{name: wait_for_it, kind: callback}") == []
    assert codes(ask) == ["W515", "W515"]
    assert codes(ask, "{name: wait_for_it, kind: callback, signal: go}") == ["W515", "W515"]


# --- x-schema ---------------------------------------------------------------------------------------------------------------

SCHEMA = {"required": ["n"], "properties": {"n": {"type": "integer", "minimum": 1}, "mode": {"enum": ["fast", "safe"]}}}


def test_the_schema_is_no_input() -> None:
    of = playbook({"n": 1, "x-schema": SCHEMA})
    assert (of.workload, of.inputs) == ({"n": 1}, SCHEMA)


@pytest.mark.parametrize(
    ("workload", "wrong"),
    [
        ({"n": 2, "mode": "fast"}, []),
        ({"n": None}, ["workload.n is null, not integer"]),
        ({"n": 0, "mode": "slow"}, ["workload.n is below 1", "workload.mode is none of ['fast', 'safe']"]),
        ({}, ["workload has no 'n'"]),
        ({"n": True}, ["workload.n is boolean, not integer"]),
    ],
)
def test_a_workload_that_violates_the_schema_is_refused(workload: Mapping[str, Any], wrong: list[str]) -> None:
    of = playbook({"x-schema": SCHEMA})
    if not wrong:
        check_inputs(of, workload)
        return
    with pytest.raises(BadWorkload) as refused:
        check_inputs(of, workload)
    assert (refused.value.kind, refused.value.wrong) == ("schema", wrong)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{properties: {n: {type: interger}}}", "x-schema.n: type is one of object, array"),
        ("{requierd: [n]}", "x-schema: keyword 'requierd' is not supported"),
        ("{required: n}", "x-schema: required is a list of names"),
        ("{properties: {n: {type: 5}}}", "x-schema.n: type is one of"),
        ("{properties: {n: {minimum: '1'}}}", "x-schema.n: minimum is a number"),
        ("{properties: [n]}", "x-schema: properties is a mapping"),
        ("{type: array}", "x-schema: the type of the workload must be object, not array"),
        ("[]", "x-schema must be a mapping"),
    ],
)
def test_a_schema_out_of_shape_is_an_error_of_the_playbook(schema: str, message: str) -> None:
    (one,) = found(f"{{n: 1, x-schema: {schema}}}")
    assert one.startswith(f"E128 {message}")


# --- slips ------------------------------------------------------------------------------------------------------------------

KNOWN = {
    "region": "north",
    "size": 10,
    "exact": True,
    "source": {"url": "x", "pages": 3},
    "free": {},
    "any": None,
    "on": "{{ size }}",
}


@pytest.mark.parametrize(
    ("payload", "messages"),
    [
        ({"regoin": "s"}, ['workload has no "regoin" (did you mean "region"?)']),
        ({"colour": 1}, ['workload has no "colour" (it has region, size, exact, source, free, any, on)']),
        ({"source": {"urll": 1}}, ['workload.source has no "urll" (did you mean "url"?)']),
        ({"source": {"headers": 1}, "free": {"x": 1}, "s3": {}, "any": [1], "on": [2]}, []),
        ({"size": "10"}, ["workload.size is text, where the playbook has a number"]),
        ({"size": True, "exact": 1}, ["workload.size is a boolean, where the playbook has a number", "workload.exact is a number, where the playbook has a boolean"]),
        ({"size": 2.5, "region": None}, []),
        ({"source": "x"}, ["workload.source is text, where the playbook has a mapping"]),
        ({"source": {"pages": [3]}}, ["workload.source.pages is a list, where the playbook has a number"]),
    ],
)  # fmt: skip
def test_unknown_keys_and_wrong_types_in_a_payload_are_reported(payload: Mapping[str, Any], messages: list[str]) -> None:
    assert doubts(playbook(KNOWN), payload) == messages


def test_a_playbook_that_declares_no_inputs_takes_any() -> None:
    assert doubts(playbook({}), {"x": 1}) == []


def test_a_thousand_unknown_keys_are_reported_in_a_few_lines() -> None:
    assert len(doubts(playbook({"a": 1}), {f"k{n}": 1 for n in range(1000)})) == 21


def test_properties_of_the_schema_are_known_keys_and_their_types_are_unchecked() -> None:
    of = playbook(
        {
            "n": 1,
            "more": {"a": 1},
            "x-schema": {"properties": {"n": {"type": "string"}, "m": {}, "more": {"additionalProperties": True}}},
        }
    )
    assert doubts(of, {"n": "x", "m": 2, "more": {"b": 1}}) == []
    assert [path for path, _, _ in unknown(of, {"more": {"b": 1}, "source": 1})] == [("source",)]


# --- expensive workloads -------------------------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.untraced
def test_defaults_that_double_at_every_link_of_a_chain_are_refused() -> None:
    """As text they would come to 2 ** 48 numbers, and writing them down would exhaust the memory."""
    chain = {"k0": 1} | {f"k{n}": f"{{{{ [workload.k{n - 1}, workload.k{n - 1}] }}}}" for n in range(1, 49)}
    with pytest.raises(BadWorkload, match="defaults come to more than") as refused:
        rendered_defaults(playbook(chain), {}, "42")
    assert refused.value.kind == "limit"


@pytest.mark.nightly
def test_a_list_of_defaults_that_takes_one_a_million_times_is_refused() -> None:
    workload = {"row": "{{ range(10000) | list }}", "all": ["{{ workload.row }}"] * 200}
    with pytest.raises(BadWorkload, match=r"workload\.all.*defaults come to more than"):
        rendered_defaults(playbook(workload), {}, "42")


def test_defaults_that_each_stay_within_the_time_of_a_template_have_a_time_together(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr("noetl_core.engine.workload.time.thread_time", lambda: next(clock))
    with pytest.raises(BadWorkload, match="processor time together") as refused:
        rendered_defaults(playbook({f"k{n}": "{{ 1 }}" for n in range(100)}), {}, "42")
    assert refused.value.kind == "limit"


def test_a_payload_of_any_number_of_unknown_keys_is_compared_with_few(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def noted(key: str, names: list[str], n: int) -> list[str]:
        nonlocal compared
        compared += len(names)
        return []

    monkeypatch.setattr("noetl_core.engine.workload.get_close_matches", noted)
    known = {f"name_{n}": n for n in range(100)}
    assert doubts(playbook(known), {f"key_{n}": 1 for n in range(100_000)})[-1] == "and 99980 more"
    assert 0 < compared <= 5_000


def test_a_key_of_a_megabyte_is_shortened_in_messages() -> None:
    long = "\u00e9" * 1_000_000
    messages = [
        *doubts(playbook({"a": 1, "b" * 100_000: 1}), {long: 1}),
        *raised(playbook({"x-schema": {"additionalProperties": False}}), {long: 1}),
    ]
    assert [len(text) < 1_000 for text in messages] == [True, True]


def raised(of: Playbook, workload: Mapping[str, Any]) -> list[str]:
    with pytest.raises(BadWorkload) as refused:
        check_inputs(of, workload)
    return refused.value.wrong
