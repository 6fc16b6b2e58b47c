"""Properties of expressions over generated data and generated templates."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import jinja2
from hypothesis import assume, given
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment

from noetl_core.expr import (
    MASK,
    Limits,
    Scope,
    Secret,
    TemplateError,
    TemplateSyntaxError,
    compile_text,
    contains_secret,
    mask,
    render,
    reveal,
    truthy,
)
from tests.properties import examples

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
json_data = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5), max_leaves=20
)
names = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)


@given(json_data)
def test_a_value_passed_whole_is_the_value(value: Any) -> None:
    assume(not (isinstance(value, dict) and value.get("kind") == "result_ref"))
    assert render("{{ x }}", Scope({"x": value})) is value
    assert render({"k": ["{{ x }}"]}, Scope({"x": value})) == {"k": [value]}
    assert render("{{ [x] }}", Scope({"x": value})) == [value]
    assert truthy("{{ x }}", Scope({"x": value})) is bool(value)


@given(st.text(), st.text())
def test_text_is_never_parsed_again(before: str, value: str) -> None:
    assume("{" not in before and not before.isspace())
    assert render(before + "{{ x }}!", Scope({"x": value})) == f"{before}{value}!"


@given(st.text())
def test_text_without_templates_is_itself(text: str) -> None:
    assume("{{" not in text and "{%" not in text)
    assert render(text, Scope({})) is text


@given(json_data)
def test_json_and_back(value: Any) -> None:
    scope = Scope({"x": value})
    assert render("{{ x | tojson | fromjson }}", scope) == value
    assert json.loads(render("{{ x | tojson }} ", scope) or '""') == value


@given(st.text())
def test_base64_and_back(text: str) -> None:
    assert render("{{ x | b64encode | b64decode }}", Scope({"x": text})) == text


@given(st.integers(-2 * 10**9, 7 * 10**9).map(lambda s: datetime.fromtimestamp(s, UTC)), st.integers(-(10**8), 10**8))
def test_times_and_back(when: datetime, seconds: int) -> None:
    scope = Scope({"t": when.replace(microsecond=0).isoformat(), "n": seconds})
    assert render("{{ t | to_epoch | from_epoch == t | parse_datetime }}", scope) is True
    assert render("{{ (t | add_seconds(n) | to_epoch) - (t | to_epoch) }}", scope) == seconds
    assert render("{{ (t | add_seconds(n) > t | parse_datetime) == (n > 0) }}", scope) is True


@given(st.text(), st.text(min_size=1, max_size=5), st.text(max_size=5))
def test_string_methods_are_pythons(text: str, part: str, new: str) -> None:
    scope = Scope({"s": text, "p": part, "n": new})
    assert render("{{ s.replace(p, n) }}", scope) == text.replace(part, new)
    assert render("{{ s.split(p) }}", scope) == text.split(part)
    assert render("{{ s.split() }}", scope) == text.split()
    assert render("{{ p.join([s, n]) }}", scope) == part.join([text, new])
    assert render("{{ s.upper() }}", scope) == text.upper()
    assert render("{{ p in s }}", scope) is (part in text)


JINJA = ImmutableSandboxedEnvironment(undefined=jinja2.ChainableUndefined, keep_trailing_newline=True)
numbers = st.integers(-50, 50)
rows = st.lists(st.fixed_dictionaries({"a": numbers, "b": st.text("abcXYZ", max_size=3)}), max_size=8)
LIST_FILTERS = [
    "sort(attribute='a')", "sort(attribute='b', reverse=true)", "sort(attribute='b', case_sensitive=true)", "selectattr('a', 'gt', 0)",
    "rejectattr('a', 'even')", "selectattr('b')", "unique(attribute='a')", "unique(attribute='b')", "reverse", "list",
]  # fmt: skip


@examples(100)
@given(
    rows,
    st.lists(st.sampled_from(LIST_FILTERS), max_size=4),
    st.sampled_from(["sum(attribute='a')", "map(attribute='b') | join('/')", "list | length"]),
)
def test_chains_of_list_filters_are_jinjas(data: Any, chain: list[str], end: str) -> None:
    template = f"{{{{ x | {' | '.join([*chain, end])} }}}}."
    assert render(template, Scope({"x": data})) == JINJA.from_string(template).render(x=data)


operands = st.sampled_from(
    ["1", "2", "7", "-3", "2.5", "'a'", "'bc'", "true", "none", "[1, 2]", "x", "y", "missing", "d.a", "d.q"]
)
operators = st.sampled_from(["+", "-", "*", "//", "==", "!=", "and", "or", "~", "in", "not in", "<", ">="])


@given(st.lists(st.tuples(operators, operands), min_size=1, max_size=4), operands)
def test_operators_are_jinjas(parts: list[tuple[str, str]], first: str) -> None:
    """If Jinja2 gives a value, we give the same one. If an undefined takes part in an order, ours is false instead of an
    error."""
    expression = first + "".join(f" {op} {operand}" for op, operand in parts)
    data = {"x": 5, "y": "bcd", "d": {"a": [1, 2, 3]}}
    try:
        expected = JINJA.from_string(f"{{{{ {expression} }}}}.").render(data)
    except (jinja2.exceptions.TemplateRuntimeError, TypeError, ZeroDivisionError):
        return
    assert render(f"{{{{ {expression} }}}}.", Scope(data)) == expected, expression


SOUP = st.lists(
    st.sampled_from(
        [
            "{{", "}}", "{%", "%}", "{#", "#}", "if", "for", "in", "endif", "endfor", "else", "set", "macro", "endmacro", "call", "(", ")",
            "[", "]", "{", "}", ":", ",", ".", "|", "~", "*", "**", "+", "==", "'", '"', "x", "rows", "loop", "self", "namespace", "range",
            "10**9", "999999999", "'a'", "__class__", "_x", "center", "format", "map", "attribute", "=", "recursive", "\n", "\r\n", "-", "é",
            "\x00", "is", "not", "and", "defined", "tojson", "join", "caller", "{{ x }}", "{{ rows | map(attribute='a') }}",
        ]
    ),
    max_size=25,
).map(" ".join)  # fmt: skip


@examples(300)
@given(SOUP)
def test_any_text_gives_data_or_a_clear_error(source: str) -> None:
    started = time.thread_time()
    try:
        result = render(source, Scope({"x": 1, "rows": [{"a": 1}, {"a": 2}]}))
        json.dumps(result)
    except TemplateSyntaxError as error:
        lines = source.replace("\r\n", "\n").split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
    except TemplateError as error:
        assert error.message
    assert time.thread_time() - started < 2


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Templates that parse: nested loops, conditions, macros and expressions over a small vocabulary."""
    expression = st.recursive(
        st.sampled_from(["x", "rows", "s", "1", "'ab'", "none", "missing.a", "range(4)", "rows[0].a", "loop.index", "10**3", "'z' * 99"]),
        lambda e: st.one_of(
            st.tuples(e, st.sampled_from([" + ", " * ", " ~ ", " == ", " in ", " and ", " ** ", " % ", " - ", " < "]), e).map("".join).map("({})".format),
            st.tuples(e, st.sampled_from(["upper", "list", "length", "tojson", "sort", "join('-')", "center(999)", "map('string')", "unique", "sum", "first", "int", "batch(2)", "regex_findall('a+')", "replace('a', 'bb')", "items", "default(0)", "groupby('a')"])).map("({0[0]} | {0[1]})".format),
            st.tuples(e, st.sampled_from(["a", "items()", "split('a')", "upper()", "get('a')", "__class__", "format(x)", "_a"])).map("{0[0]}.{0[1]}".format),
            st.lists(e, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
            st.tuples(e, e).map("{{'a': {0[0]}, 'b': {0[1]}}}".format),
            st.tuples(e, e, e).map("({0[0]} if {0[1]} else {0[2]})".format),
        ),
        max_leaves=6,
    )  # fmt: skip
    text = st.recursive(
        expression.map("{{{{ {} }}}}".format),
        lambda t: st.one_of(
            st.tuples(expression, t).map("{{% for i in {0[0]} %}}{0[1]}{{% endfor %}}".format),
            st.tuples(expression, t, t).map("{{% if {0[0]} %}}{0[1]}{{% else %}}{0[2]}{{% endif %}}".format),
            st.tuples(expression, t).map("{{% set x = {0[0]} %}}{0[1]}".format),
            st.tuples(t, expression).map("{{% macro f(x) %}}{0[0]}{{% endmacro %}}{{{{ f({0[1]}) }}}}{{{{ f(f(1)) }}}}".format),
            st.tuples(t, t).map("".join),
        ),
        max_leaves=4,
    )
    return draw(text)


@examples(300)
@given(programs())
def test_any_program_gives_data_or_a_clear_error_and_changes_nothing(source: str) -> None:
    data = {"x": 3, "s": "aaab", "rows": [{"a": 2, "b": "x"}, {"a": 1, "b": [1]}]}
    before = json.dumps(data)
    limits = Limits(ops=100_000, size=1_000_000, seconds=1)
    try:
        first = render(source, Scope(data), limits=limits)
        json.dumps(first)
        assert render(source, Scope(data), limits=limits) == first
    except TemplateError as error:
        assert error.message
    assert json.dumps(data) == before


@examples(300)
@given(programs())
def test_no_program_leaks_a_secret(source: str) -> None:
    word = "s3cr3t-w0rd"
    plain = {"x": 3, "s": word, "rows": [{"a": word, "b": "x"}, {"a": word, "b": [1]}]}
    hidden = {"x": 3, "s": Secret(word), "rows": [{"a": Secret(word), "b": "x"}, {"a": Secret(word), "b": [1]}]}
    try:
        result = render(source, Scope(hidden))
    except TemplateError as error:
        assert word not in str(error) and word.upper() not in str(error)
        return
    shown = json.dumps(mask(result))
    assert word not in shown and word.upper() not in shown
    if word in json.dumps(reveal(result)):
        assert contains_secret(result)
    assert reveal(result) == render(source, Scope(plain))


@given(json_data)
def test_mask_and_reveal_are_total(value: Any) -> None:
    assert reveal({"a": [Secret(value)]}) == {"a": [value]}
    assert mask({"a": [Secret(value)]}) == {"a": [MASK]}


@given(names, st.lists(names, max_size=4))
def test_the_path_written_in_a_template_is_its_read(root: str, path: list[str]) -> None:
    assume(not {root} & {"in", "is", "if", "or", "and", "not", "else", "none", "true", "false", "loop", "self"})
    source = "{{ " + root + "".join(f"['{p}']" for p in path) + " }}"
    assert [read.path for read in compile_text(source).reads] == [(root, *path)]
