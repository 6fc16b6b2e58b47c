"""YAML 1.2 values with positions, and hostile YAML refused within budgets."""

from __future__ import annotations

import json

import pytest

from noetl_core.dsl.parse import check
from noetl_core.dsl.reading.load import MAX_BYTES, Node, load
from tests.call_counts import calls_of
from tests.unit.dsl.broken_playbooks import HEAD


def root(text: str) -> Node:
    loaded = load(text)
    assert loaded.root is not None, loaded.diagnostics
    return loaded.root


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("off", "off"), ("true", True), ("False", False), ("~", None), ("null", None),
        ("", None), ("012", 12), ("0o14", 12), ("0x1F", 31), ("1e3", 1000.0), ("1.5", 1.5), (".5", 0.5), ("1_000", "1_000"),
        ("12:30", "12:30"), ("2024-01-01", "2024-01-01"), ("'12'", "12"), ('"yes"', "yes"), ("+1", 1), ("-", None), ("1.2.3", "1.2.3"),
    ],
)  # fmt: skip
def test_plain_values_are_those_of_yaml_1_2(written: str, value: object) -> None:
    found = root("a: " + written + "\n").value["a"].plain() if written != "-" else root("a:\n  -\n").value["a"].plain()[0]
    assert found == value
    assert type(found) is type(value)


def test_every_key_and_value_has_its_position() -> None:
    node = root("a:\n  b: [1, {c: 'x'}]\n")
    inner = node.value["a"]
    assert inner.key_at("b") == (2, 3)
    items = inner.value["b"]
    assert (items.line, items.col) == (2, 6)
    assert (items.value[1].value["c"].line, items.value[1].value["c"].col) == (2, 14)
    assert items.value[1].value["c"].path == ("a", "b", 1, "c")


def test_anchors_and_merge_keys_are_followed_and_own_keys_win() -> None:
    node = root("base: &b {x: 1, y: 2}\none: {<<: *b, y: 3}\ntwo: *b\nquoted: {'<<': 1}\n")
    assert node.plain() == {"base": {"x": 1, "y": 2}, "one": {"y": 3, "x": 1}, "two": {"x": 1, "y": 2}, "quoted": {"<<": 1}}


def test_json_is_read_too() -> None:
    value = {"a": ["\U0001f600", "\\ud83d\\ude00", None, 1.5], "b": {"c": "x\ny\t"}}
    assert root(json.dumps(value)).plain() == value
    assert root(json.dumps(value, ensure_ascii=False)).plain() == value


def test_an_alias_bomb_is_refused_at_once() -> None:
    text = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))
    found: list[str] = []
    assert calls_of(lambda: found.extend(d.code for d in load(text).diagnostics)) < 100_000, "of 10^11 nodes"
    assert found == ["E101"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[" * 1_000_000, "E101"),
        ("{a: " * 100_000, "E101"),
        ("x" * (MAX_BYTES + 1), "E101"),
        ("a: '\ud800'", "E102"),
        ("a: b\x07", "E102"),
        ("a: !!binary aGk=", "E104"),
        ("? [a]\n: b", "E104"),
        ("a: " + "9" * 400, "E104"),
        ("a: 'open", "E100"),
        ("%YAML 3.0\n---\na", "E100"),
    ],
    ids=["lists", "mappings", "large", "surrogate", "bell", "binary", "complex key", "digits", "quote", "version"],
)
def test_hostile_text_is_refused_with_a_clear_error(text: str, code: str) -> None:
    loaded = load(text)
    assert [d.code for d in loaded.diagnostics if d.severity == "error"] == [code]


@pytest.mark.nightly
def test_validation_grows_with_the_steps_and_not_with_their_square() -> None:
    step = (
        "  - step: s{i}\n    tool:\n      - name: fetch\n        kind: http\n        url: '{{{{ workload.api }}}}/items/{i}'\n"
        "        spec:\n          policy:\n            rules:\n"
        "              - when: \"{{{{ outcome.status == 'error' and outcome.error.retryable }}}}\"\n"
        "                then: {{ do: retry, attempts: 5, backoff: exponential, delay: 1 }}\n"
        "              - else: {{ then: {{ do: continue, set_ctx: {{ last: '{{{{ outcome.result.data }}}}' }} }} }}\n"
        "    next:\n      arcs:\n        - step: s{j}\n          when: \"{{{{ event.name == 'step.done' }}}}\"\n"
    )

    def work(steps: int) -> int:
        text = HEAD + "workflow:\n" + "".join(step.format(i=i, j=(i + 1) % steps) for i in range(steps))

        def validated() -> None:
            playbook, found = check(text)
            assert playbook is not None
            assert len(playbook.steps) == steps
            assert [d.code for d in found] == ["W510"]

        return calls_of(validated)

    work(10)
    assert work(1000) < 6 * work(250)
