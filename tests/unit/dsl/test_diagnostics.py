"""Broken playbooks: one mistake, one error, at the exact place, with the remedy; and how diagnostics are written out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.dsl.reading.diagnostics import CODES, InvalidPlaybook, suggest, to_json, to_sarif, to_text
from tests.unit.dsl.broken_playbooks import BROKEN, flow


def test_there_are_a_hundred_mistakes_each_with_its_own_name() -> None:
    names = [name for name, *_ in BROKEN]
    assert len(names) >= 100
    assert len(set(names)) == len(names)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("text", "code", "hint"), [pytest.param(*rest, id=name) for name, *rest in BROKEN])
def test_one_mistake_gives_one_error_at_its_place_with_its_remedy(text: str, code: str, hint: str) -> None:
    before, mark, after = text.partition("§")
    assert mark
    line, col = before.count("\n") + 1, len(before) - before.rfind("\n")

    playbook, diagnostics = check(before + after, "flow.yaml")

    assert playbook is None
    assert all(d.code in CODES for d in diagnostics)
    errors = [(d.code, d.line, d.col, d.hint) for d in diagnostics if d.severity == "error"]
    assert errors == [(code, line, col, hint)]


def test_all_errors_are_reported_at_once_in_the_order_of_the_text() -> None:
    text = flow(
        "step: a\nspec: {jion: all}\ntool: {kind: htpp}\nnext: {arcs: [{step: c}]}",
        "{step: b, tool: {kind: noop, result: '{{ | }}'}}",
    )
    with pytest.raises(InvalidPlaybook) as caught:
        parse_playbook(text, "flow.yaml")
    assert [(d.code, d.line) for d in caught.value.diagnostics] == [("E110", 6), ("E118", 7), ("E201", 8), ("E301", 9)]
    assert str(caught.value).splitlines()[2] == (
        'flow.yaml:8:26 E201 arc target "c" is not a step (add the step, or remove the arc)'
    )


def test_text_json_and_sarif_say_the_same() -> None:
    _, found = check(flow("{step: a, tool: {kind: htpp}}"), "flow.yaml")
    assert to_text(found) == 'flow.yaml:5:28 E118 "htpp" is not a tool kind (did you mean "http"?)'
    (one,) = json.loads(to_json(found))
    assert one == {
        "code": "E118",
        "severity": "error",
        "message": '"htpp" is not a tool kind',
        "hint": 'did you mean "http"?',
        "page": None,
        "source": "flow.yaml",
        "line": 5,
        "col": 28,
        "loc": "workflow[0].tool.kind",
    }
    run = json.loads(to_sarif(found))["runs"][0]
    assert run["tool"]["driver"]["rules"] == [{"id": "E118", "shortDescription": {"text": "unknown tool kind"}}]
    assert run["results"][0]["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "flow.yaml"},
        "region": {"startLine": 5, "startColumn": 28},
    }
    assert run["results"][0]["level"] == "error"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (flow("{step: a, tool: {kind: noop, result: [yes]}}"), "W401"),
        (flow("{step: a, tool: {kind: noop, result: [012]}}"), "W401"),
        (flow("step: a\ntool: {kind: noop, spec: {policy: {rules: [{when: '{{ workload.a }}', then: {do: fail}}]}}}"), "W402"),
        (flow("{step: a, tool: {kind: noop}, spec: {policy: {emit: {events: [x]}}}}"), "W403"),
        (
            flow(
                "step: a\ntool: {kind: noop}\nspec: {policy: {admit: {rules: [{when: '{{ workload.a }}', then: {allow: true}}]}}}"
            ),
            "W404",
        ),
        (flow("{step: end}"), "W405"),
        (
            flow(
                "step: a\ntool: {kind: noop, spec: {policy: {rules: "
                "[{else: {then: {do: fail}}}, {when: '{{ workload.a }}', then: {do: break}}]}}}"
            ),
            "W409",
        ),
        (flow("{step: a, tool: [{one: {kind: noop}}]}"), "W406"),
        (
            flow("{step: a, tool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: fail, attempts: 3}}}]}}}}"),
            "W408",
        ),
    ],
)
def test_lint_warns_and_accepts(text: str, code: str) -> None:
    playbook, found = check(text)
    assert playbook is not None
    assert [d.code for d in found] == [code]


@pytest.mark.parametrize("beside", ["attempts: 3", "to: b", "scope: loop", "error: {message: x}"])
def test_keys_beside_an_unknown_directive_are_not_reported(beside: str) -> None:
    rule = f"{{else: {{then: {{do: reity, {beside}}}}}}}"
    _, found = check(flow(f"step: a\ntool: {{kind: noop, spec: {{policy: {{rules: [{rule}]}}}}}}"))
    assert [d.code for d in found] == ["E113"]


def test_a_template_over_its_budget_is_an_error_at_its_place() -> None:
    _, found = check(flow("step: a\ntool: {kind: noop, result: '{{ " + "1 + " * 50_000 + "1 }}'}"))
    assert [(d.code, d.line, d.col) for d in found] == [("E302", 6, 32)]


def test_every_code_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/language/diagnostics.md").read_text()
    assert [code for code in CODES if f"| {code} |" not in page and f"| [{code}](lint/{code}.md) |" not in page] == []


def test_thousands_of_wrong_words_are_compared_with_few_names_each(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def noted(word: str, names: list[str], *_: object, **__: object) -> list[str]:
        compared.append(len(names))
        return []

    monkeypatch.setattr("noetl_core.dsl.reading.diagnostics.difflib.get_close_matches", noted)
    check(flow(*(f"{{step: s{n}, tool: {{kind: noop}}, next: {{arcs: [{{step: z{n}}}]}}}}" for n in range(500))), "flow.yaml")
    assert len(compared) == 500
    assert max(compared) <= 100


def test_a_name_with_the_same_beginning_is_suggested_among_thousands() -> None:
    names = [f"step_{n:04d}" for n in range(5_000)]
    assert suggest("step_123", names).startswith('did you mean "step_1')
    assert suggest("x" * 1_000_000, names) == ""


def test_on_is_a_valid_key_of_retry_only() -> None:
    text = flow("{step: a, tool: {kind: http, url: 'http://x/', retry: {attempts: 2, on: [500]}}}")
    assert [d.code for d in check(text)[1]] == []
    assert [d.code for d in check(flow("{step: a, tool: {kind: noop, result: {on: 1}}}"))[1]] == ["W401"]
