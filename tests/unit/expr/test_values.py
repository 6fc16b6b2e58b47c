"""Values of templates: types, undefined, text (resolution 15)."""

from __future__ import annotations

from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import pytest

from noetl_core.expr import Limits, Scope, TemplateError, UndefinedValue, render, truthy

NAMES: dict[str, Any] = {
    "outcome": {"status": "error", "http": {"status": 429, "headers": {"retry-after": "7"}}, "items": [1]},
    "event": {"name": "loop.done", "loop": {"failed": 0}},
    "iter": {"page": 3, "items": ["a", "b"], "has_more": True, "none": None},
    "workload": {"url": "https://example.org", "ratio": 0.5, "rows": [{"id": 1, "ok": True}, {"id": 2}], "empty": []},
    "_prev": {"data": {"data": [1, 2]}},
}
SCOPE = Scope(NAMES)


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ iter.page }}", 3),
        ("  {{ iter.page }}\n", 3),
        ("{{- iter.page -}}", 3),
        ("{{ workload.ratio * 2 }}", 1.0),
        ("{{ iter.has_more }}", True),
        ("{{ iter.none }}", None),
        ("{{ '3' }}", "3"),
        ("{{ '[1, 2]' }}", "[1, 2]"),
        ("{{ [1, 'a', none, true] }}", [1, "a", None, True]),
        ("{{ (1, 2) }}", [1, 2]),
        ("{{ {'a': (1, {'b': 2}), 3: 4} }}", {"a": [1, {"b": 2}], "3": 4}),
        ("{{ range(3) }}", [0, 1, 2]),
        ("{{ (iter.page | int) + 1 }}", 4),
        ("{{ _prev.data.data }}", [1, 2]),
        ("{{ outcome.missing.data.paging.page | default(iter.page) }}", 3),
        ("{{ outcome.missing.data | default([]) }}", []),
        ("{{ outcome.missing | default(none) }}", None),
        ("{{ iter.none | default(5) }}", None),
        ("{{ iter.none | default(5, true) }}", 5),
        ("{{ iter.page if iter.has_more else 0 }}", 3),
        ("{{ workload.rows | selectattr('ok') | map(attribute='id') }}", [1]),
        ("{{ workload.rows | map(attribute='ok', default=false) }}", [True, False]),
        ("{{ outcome.http.status in [429, 500] }}", True),
        ("{{ 1 < iter.page <= 3 }}", True),
        ("{{ not outcome.nothing.at.all }}", True),
        ("{{ outcome.nothing is defined }}", False),
        ("{{ outcome.status is defined and iter.none is none }}", True),
        ("{{ workload.rows[-1].id }}", 2),
        ("{{ workload.rows[0:1] }}", [{"id": 1, "ok": True}]),
        ("{{ workload.url[:5] }}", "https"),
        ("{{ workload.rows.0.id }}", 1),
        ("{{ workload['url'] }}", "https://example.org"),
    ],
)
def test_a_whole_expression_keeps_its_type(template: str, value: Any) -> None:
    result = render(template, SCOPE)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ workload.url }}/{{ iter.page }}", "https://example.org/3"),
        ("{{ iter.page }}{{ iter.page }}", "33"),
        ("[{{ iter.page }}, 4]", "[3, 4]"),
        ("{{ iter.none }} {{ iter.has_more }} {{ iter.items }}", "None True ['a', 'b']"),
        ("x{{ outcome.nothing.here }}y", "xy"),
        ("{% if iter.has_more %}more{% else %}done{% endif %}", "more"),
        ("{% for i in iter['items'] %}{{ loop.index }}{{ i }}{% if not loop.last %},{% endif %}{% endfor %}", "1a,2b"),
        ("{% for k, v in event.loop.items() %}{{ k }}={{ v }}{% endfor %}", "failed=0"),
        ("{% for x in workload.empty %}{{ x }}{% else %}none{% endfor %}", "none"),
        ("{% for x in range(6) if x is odd %}{{ x }}{% endfor %}", "135"),
        ("{% set a = iter.page %}{{ a + 1 }}", "4"),
        ("{% set a %}<{{ iter.page }}>{% endset %}{{ a }}{{ a }}", "<3><3>"),
        ("{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, b=5) }}", "1215"),
        ("{% macro m() %}({{ caller() }}){% endmacro %}{% call m() %}in{% endcall %}", "(in)"),
        ("{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}", "3"),
        ("{% filter upper %}abc{{ iter.page }}{% endfilter %}", "ABC3"),
        ("{% raw %}{{ not a template }}{% endraw %}", "{{ not a template }}"),
        ("{# a comment #}{{ iter.page }}.", "3."),
        ("{% set ns = namespace(n=0) %}{% for i in [1, 2, 3] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "6"),
        ("{% for x in [[1, [2]], [3]] recursive %}{% if x is sequence %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% endfor %}", "(1(2))(3)"),
        ("{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{{ loop.cycle('a', 'b') }}{{ loop.length }};{% endfor %}", "Truea3;Falseb3;Truea3;"),
        ("{% for x in [1, 2, 3] %}{{ loop.previtem }}-{{ loop.nextitem }};{% endfor %}", "-2;1-3;2-;"),
        ("{% for g in workload.rows | groupby('id') %}{{ g.grouper }}:{{ g.list | length }} {% endfor %}", "1:1 2:1 "),
        ("{% for id, rows in workload.rows | groupby('id') %}{{ id }}:{{ rows | length }} {% endfor %}", "1:1 2:1 "),
        ("{% set j = joiner('; ') %}{% for x in [1, 2] %}{{ j() }}{{ x }}{% endfor %}", "1; 2"),
        ("a\r\nb{{ iter.page }}\r\n\rc\n", "a\r\nb3\r\n\rc\n"),
        ("line\n{{ iter.page }}\n", "line\n3\n"),
    ],
)  # fmt: skip
def test_mixed_text_is_text(template: str, text: str) -> None:
    assert render(template, SCOPE) == text


@pytest.mark.parametrize("text", ["", "plain", "{ }", "{# kept #}", "100%", "}} %}", "a\r\nb"])
def test_text_without_templates_is_untouched(text: str) -> None:
    assert render(text, SCOPE) is text


def test_results_are_never_parsed_again() -> None:
    scope = Scope({"x": "{{ 1 + 1 }}", "y": "[1, 2]"})
    assert render("{{ x }}", scope) == "{{ 1 + 1 }}"
    assert render("{{ x }}!", scope) == "{{ 1 + 1 }}!"
    assert render("{{ y }}", scope) == "[1, 2]"
    assert render("{{ y }} ", scope) == "[1, 2]"


def test_structures_are_walked() -> None:
    value = {"url": "{{ workload.url }}", "n": ["{{ iter.page }}", 7, None, {"k": "p{{ iter.page }}"}], "{{ key }}": True}
    assert render(value, SCOPE) == {"url": "https://example.org", "n": [3, 7, None, {"k": "p3"}], "{{ key }}": True}


def test_mappings_and_text_of_other_classes_are_walked_too() -> None:
    class Text(str):
        pass

    value = OrderedDict(a=Text("{{ iter.page }}"), b=MappingProxyType({"c": ("{{ iter.page }}",)}))
    assert render(value, SCOPE) == {"a": 3, "b": {"c": [3]}}
    assert render(Text("{{ iter.page }}"), SCOPE) == 3


def test_an_undefined_whole_value_fails_or_is_none() -> None:
    with pytest.raises(UndefinedValue, match=r"\{\{ outcome.data.rows \}\} is undefined .*'data'.*default") as caught:
        render({"rows": "{{ outcome.data.rows }}"}, SCOPE)
    assert caught.value.kind == "template"
    assert render({"rows": "{{ outcome.data.rows }}"}, SCOPE, undefined_ok=True) == {"rows": None}
    with pytest.raises(UndefinedValue):
        render("{{ [outcome.data] }}", SCOPE)
    assert render("{{ [outcome.data] }}", SCOPE, undefined_ok=True) == [None]


@pytest.mark.parametrize(
    "template", ["{{ nothing + 1 }}", "{{ nothing() }}", "{{ nothing | int }}", "{{ -nothing }}", "{{ nothing ~ 1 + nothing }}"]
)
def test_arithmetic_with_undefined_fails(template: str) -> None:
    with pytest.raises(UndefinedValue, match="'nothing' is undefined"):
        render(template, SCOPE, undefined_ok=True)


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ("{{ outcome.status == 'error' and outcome.http.status in [429,500,502,503,504] }}", True),
        ("{{ outcome.status == 'error' and outcome.pg.code in ['40001','40P01'] }}", False),
        ("{{ event.name == 'loop.done' }}", True),
        ("{{ outcome.pg.code >= 500 }}", False),
        ("{{ outcome.pg.code < 500 }}", False),
        ("{{ outcome.pg }}", False),
        ("{{ outcome.pg.a['b'][0].c }}", False),
        ("{{ 'x' in outcome.pg.codes }}", False),
        ("{{ 'x' not in outcome.pg.codes }}", True),
        ("{{ ctx.store_ok != true }}", True),
        ("{{ ctx.store_ok == true }}", False),
        ("{{ workload.empty }}", False),
        ("{{ 'false' }}", True),
        ("{% if iter.has_more %}true{% endif %}", True),
        ("{% if iter.has_more %} false {% endif %}", False),
        ("true", True),
        (" False ", False),
        (True, True),
        (False, False),
        (0, False),
        (2, True),
        (None, False),
    ],
)  # fmt: skip
def test_conditions(when: Any, holds: bool) -> None:
    assert truthy(when, SCOPE) is holds


def test_a_condition_that_is_no_template_is_refused() -> None:
    with pytest.raises(TemplateError, match="must be a"):
        truthy("outcome.status == 'error'", SCOPE)


def test_data_comes_before_methods() -> None:
    scope = Scope({"ctx": {"items": [1], "keys": 2, "get": "g", "d": {"a": 1}}})
    assert render("{{ ctx.items }}", scope) == [1]
    assert render("{{ ctx.keys }}{{ ctx.get }}", scope) == "2g"
    assert render("{{ ctx.d.items() }}", scope) == [["a", 1]]
    assert render("{{ ctx.d.keys() }}{{ ctx.d.values() }}{{ ctx.d.get('a') }}{{ ctx.d.get('b', 9) }}", scope) == "['a'][1]19"


@pytest.mark.parametrize(
    "template",
    [
        "{{ outcome.http.headers['Retry-After'] }}", "{{ outcome.http.headers['retry-after'] }}",
        "{{ outcome.http.headers.get('RETRY-AFTER') }}", "{{ outcome.http.headers.get('Retry-After', 2) }}",
        "{{ outcome.http.headers['RETRY-after'] | default(2) }}",
    ],
)  # fmt: skip
def test_header_names_are_case_insensitive(template: str) -> None:
    assert render(template, SCOPE) == "7"


def test_missing_headers_are_undefined() -> None:
    assert render("{{ outcome.http.headers['x'] | default(2) }}", SCOPE) == 2
    assert render("{{ outcome.http.headers.get('x', 3) }}", SCOPE) == 3
    assert render("{{ outcome.ftp.headers['x'] | default(4) }}", SCOPE) == 4


def test_errors_name_the_template_and_the_remedy() -> None:
    with pytest.raises(TemplateError, match=r"\{\{ 'page ' \+ iter.page \}\}: text \+ number has no meaning; to join text use ~"):
        render("{{ 'page ' + iter.page }}", SCOPE)
    with pytest.raises(TemplateError, match="division by zero"):
        render("{{ 1 / 0 }}", SCOPE)
    with pytest.raises(TemplateError, match="null > number"):
        render("{{ iter.none > 3 }}", SCOPE)
    with pytest.raises(TemplateError, match="mapping cannot be called"):
        render("{{ outcome() }}", SCOPE)


def test_limits_hold_for_a_render_as_a_whole() -> None:
    value = ["{% for i in range(1000) %}{% endfor %}"] * 10
    assert render(value, SCOPE, limits=Limits(ops=20_000)) == [""] * 10
    with pytest.raises(TemplateError, match="more than 5000 operations") as caught:
        render(value, SCOPE, limits=Limits(ops=5_000))
    assert caught.value.kind == "limit"


def test_functions_have_their_usual_meaning() -> None:
    for template, value in {
        "{{ len([1, 2]) }}": 2,
        "{{ max(1, 3, 2) }}": 3,
        "{{ min([4, 2]) }}": 2,
        "{{ sum([1, 2.5]) }}": 3.5,
        "{{ round(2.567, 1) }}": 2.6,
        "{{ round(2.5) }}": 2,
        "{{ str(5) ~ int('6') ~ float('1.5') }}": "561.5",
        "{{ bool('no') }}": False,
        "{{ abs(-3) }}": 3,
        "{{ sorted([3, 1, 2], reverse=true) }}": [3, 2, 1],
        "{{ zip([1, 2], ['a', 'b']) }}": [[1, "a"], [2, "b"]],
        "{{ enumerate(['a', 'b'], 1) }}": [[1, "a"], [2, "b"]],
        "{{ dict(a=1, value=2) }}": {"a": 1, "value": 2},
        "{{ dict([['a', 1]], b=2) }}": {"a": 1, "b": 2},
        "{{ list('ab') }}": ["a", "b"],
        "{{ range(1, 10, 4) }}": [1, 5, 9],
    }.items():
        assert render(template, SCOPE) == value, template


def test_a_name_of_the_scope_hides_a_function() -> None:
    assert render("{{ max }}", Scope({"ctx": {"max": 5}})) == 5
