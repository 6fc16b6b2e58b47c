"""Compilation: errors with their place, what a template reads, once per text."""

from __future__ import annotations

import pytest

from noetl_core.expr import FILTERS, FUNCTIONS, TESTS, LimitExceeded, Read, TemplateSyntaxError, compile_text, referenced


@pytest.mark.parametrize(
    ("source", "line", "column", "message"),
    [
        ("{{ a b }}", 1, 6, "expected token 'end of print statement', got 'b'"),
        ("{{ }}", 1, 4, "Expected an expression"),
        ("text {{ a | }}", 1, 13, "expected token 'name'"),
        ("one\ntwo {{ a ++ }}", 2, 13, "unexpected"),
        ("one\r\n\r\ntwo {{ $ }}", 3, 8, "unexpected char '$'"),
        ("{{ a | uper }}", 1, 8, "there is no filter 'uper' (did you mean 'upper'?)"),
        ("x\n  {{ a is defind }}", 2, 8, "there is no test 'defind' (did you mean 'defined'?)"),
        ("{% if a %}\n{% include 'x' %}{% endif %}", 2, 4, "{% include %} is not available"),
        ("{% if a %}\n{% autoescape true %}{{ a }}{% endautoescape %}{% endif %}", 2, 4, "{% autoescape %} is not available"),
        ("{% macro m() %}{% autoescape a %}{% endautoescape %}{% endmacro %}", 1, 19, "{% autoescape %} is not available"),
        ("{{ a }}{% do b %}", 1, 11, "unknown tag 'do'"),
        ("{% trans %}a{% endtrans %}", 1, 4, "unknown tag 'trans'"),
        ("{% for x in a %}{% break %}{% endfor %}", 1, 20, "unknown tag 'break'"),
        ("{% if a %}", 1, 9, "Unexpected end of template"),
        ("{{ a }}{% endif %}", 1, 11, "Encountered unknown tag 'endif'"),
        ("{{ 'abc }}", 1, 4, 'unexpected char "\'"'),
        ("{{ (a }}", 1, 7, "unexpected '}', expected ')'"),
        ("{{ a", 1, 4, "unexpected end of template"),
        ("ok\n{# open", 2, 4, "Missing end of comment tag"),
        ("{{ x + 1e999 }}", 1, 8, "beyond the range"),
        (r"{{ x ~ '\ud83d\ude00' }}", 1, 8, "half of a surrogate pair"),
        ("{{ x in [1, 1e999] }}", 1, 13, "beyond the range"),
        ("{{ dict(a=1, a=2) }}", 1, 8, "the argument 'a' is given twice"),
        ("{{ random }}{{ [1] | random }}", 1, 22, "there is no filter 'random'"),
    ],
)  # fmt: skip
def test_a_syntax_error_has_its_place(source: str, line: int, column: int, message: str) -> None:
    if "{#" in source:
        source = source.replace("ok", "{{ ok }}")
    with pytest.raises(TemplateSyntaxError) as caught:
        compile_text(source)
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column)


def test_compiling_happens_once_per_text() -> None:
    assert compile_text("{{ once }}") is compile_text("{{ once }}")
    long = "{{ long }}" + "x" * 20_000
    assert compile_text(long) is compile_text(long)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("{{ a.b[c] }}", {"a", "c"}),
        ("{{ range(n) | map('upper') | list }}", {"n"}),
        ("{{ range }}", {"range"}),
        ("{% for x in xs %}{{ x.y }}{{ loop.index }}{{ z }}{% else %}{{ w }}{% endfor %}", {"xs", "z", "w"}),
        ("{% set a = b %}{{ a }}{{ c }}", {"b", "c"}),
        ("{% if q %}{% set a = 1 %}{% endif %}{{ a }}", {"q"}),
        ("{% macro m(p, d=e) %}{{ p }}{{ g }}{{ caller() }}{% endmacro %}{{ m(h) }}", {"e", "g", "h"}),
        ("{% with a = b %}{{ a }}{% endwith %}{{ c }}", {"b", "c"}),
        ("{% set ns = namespace(x=y) %}{% set ns.x = z %}{{ ns.x }}", {"y", "z"}),
        ("{{ 'text' }}", set()),
        ("plain", set()),
        ("{{ _prev.data + _attempt }}", {"_prev", "_attempt"}),
    ],
)
def test_the_names_a_template_reads(source: str, names: set[str]) -> None:
    assert compile_text(source).names == names


def test_the_paths_a_value_reads() -> None:
    value = {
        "a": "{{ steps.fetch.result['rows'][0].id }}",
        "b": ["x{{ ctx.n }}", {"c": "{% for r in fetch.rows %}{{ r.id + ctx[key].z }}{% endfor %}"}],
        "d": 5,
        "e": "steps.not.a.template",
        "f": "{{ outcome.http.headers['Retry-After'] | default(workload.delay) }}",
    }
    assert referenced(value) == {
        ("steps", "fetch", "result", "rows"),
        ("ctx", "n"),
        ("fetch", "rows"),
        ("ctx",),
        ("key",),
        ("outcome", "http", "headers", "Retry-After"),
        ("workload", "delay"),
    }


def test_reads_know_their_places() -> None:
    assert compile_text("a {{ b.c }}\n {{ d }}{{ f(e['g h'].i) }}").reads == (
        Read(("b", "c"), 1, 6),
        Read(("d",), 2, 5),
        Read(("f",), 2, 12),
        Read(("e", "g h", "i"), 2, 14),
    )


def test_only_a_single_output_block_is_an_expression() -> None:
    for source in ("{{ a }}", " {{ a }}\n", "{{- a -}}", "{{ {'a': {}} }}", "{{ '}}' }}", "{{ a }}{# note #}"):
        assert compile_text(source).is_expression, source
    for source in (
        "{{ a }}{{ b }}",
        "{{ a }}.",
        "{% if a %}{{ a }}{% endif %}",
        "{% raw %}{{ a }}{% endraw %}",
        "{{ a }}}",
        "text",
    ):
        assert not compile_text(source).is_expression, source


def test_sources_have_a_size() -> None:
    with pytest.raises(LimitExceeded, match="longer than"):
        compile_text("{{ a }}" + "x" * 200_000)


def test_the_vocabulary_authors_expect_is_there() -> None:
    assert FILTERS.keys() >= {
        "abs", "attr", "batch", "capitalize", "center", "count", "d", "default", "dictsort", "e", "escape", "filesizeformat", "first",
        "float", "forceescape", "format", "groupby", "indent", "int", "items", "join", "last", "length", "list", "lower", "map", "max",
        "min", "reject", "rejectattr", "replace", "reverse", "round", "safe", "select", "selectattr", "slice", "sort", "string",
        "striptags", "sum", "title", "tojson", "trim", "truncate", "unique", "upper", "urlencode", "wordcount", "wordwrap", "fromjson",
        "b64encode", "b64decode", "regex_match", "regex_search", "regex_replace", "regex_findall", "parse_datetime", "format_datetime",
        "to_epoch", "from_epoch", "add_seconds", "date_add", "bool",
    }  # fmt: skip
    from jinja2.tests import TESTS as JINJA

    assert TESTS.keys() >= JINJA.keys()
    assert FUNCTIONS.keys() >= {"range", "dict", "list", "len", "min", "max", "sum", "namespace", "joiner"}
