"""Filters: as in Jinja2 where Jinja2 has them, and as documented where it has not."""

from __future__ import annotations

from typing import Any

import jinja2
import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from noetl_core.expr import Scope, TemplateError, render

DATA: dict[str, Any] = {
    "n": 42,
    "f": 2.675,
    "neg": -7,
    "s": "Hello, wide World",
    "lines": "one\ntwo three\n\nfour",
    "html": "<b>bold</b> &amp; <!-- gone -->more",
    "rows": [{"id": 3, "k": "b", "v": {"w": 1}}, {"id": 1, "k": "A", "v": {"w": 5}}, {"id": 2, "k": "a", "v": {"w": 3}}],
    "nums": [5, 3, 9, 3, 1],
    "words": ["b", "A", "c", "B"],
    "nested": [[1, 2], [3]],
    "d": {"z": 1, "A": 3, "b": 2},
    "none": None,
    "t": True,
    "empty": [],
}

SAME_AS_JINJA = [
    "{{ n | abs }} {{ neg | abs }}", "{{ s | capitalize }}|{{ s | upper }}|{{ s | lower }}|{{ s | title }}", "{{ 'a' | center(9) }}|",
    "{{ missing | default('x') }}{{ none | default('y') }}{{ '' | default('z', true) }}{{ 0 | d(5, true) }}", "{{ d | dictsort }}",
    "{{ d | dictsort(true) }}{{ d | dictsort(by='value', reverse=true) }}", "{{ '<a href=\"x\">' | escape }}{{ html | e }}",
    "{{ 500 | filesizeformat }} {{ 12345678 | filesizeformat }} {{ 12345678 | filesizeformat(true) }} {{ 1 | filesizeformat }}",
    "{{ nums | first }}{{ nums | last }}{{ 'abc' | first }}{{ 'abc' | last }}{{ empty | first }}", "{{ '3.5' | float }} {{ 'x' | float(1.5) }}",
    "{{ '%s-%05d' | format('a', 7) }} {{ '%(x)s' | format(x=5) }} {{ '%.2f%%' % f }} {{ '%r' % 5 }}", "{{ lines | indent }}",
    "{{ lines | indent(2, true) }}|{{ lines | indent('> ', blank=true) }}", "{{ '42' | int }} {{ 'x' | int }} {{ '3.9' | int }} {{ '0x1F' | int(base=16) }}",
    "{{ 'zz' | int(7) }} {{ none | int(3) }} {{ 3.99 | int }} {{ t | int }}", "{{ nums | join(', ') }} {{ rows | join('-', attribute='id') }}",
    "{{ s | length }}{{ rows | count }}{{ d | length }}{{ empty | length }}{{ missing | length }}", "{{ 'abc' | list }}{{ d | list }}{{ missing | list }}",
    "{{ rows | map(attribute='k') | list }}{{ rows | map(attribute='v.w') | list }}{{ words | map('lower') | list }}",
    "{{ nums | map('string') | join }}{{ rows | map(attribute='x', default=0) | list }}", "{{ nums | max }}{{ nums | min }}{{ words | max }}{{ words | min }}",
    "{{ (rows | max(attribute='id')).k }}{{ (rows | min(attribute='v.w')).k }}{{ empty | max }}", "{{ nums | select('odd') | list }}{{ nums | reject('gt', 3) | list }}",
    "{{ [0, 1, '', 'a', none] | select | list }}{{ [0, 1, ''] | reject | list }}", "{{ rows | selectattr('id', 'gt', 1) | map(attribute='id') | list }}",
    "{{ rows | rejectattr('k', 'in', ['a', 'A']) | map(attribute='id') | list }}{{ rows | selectattr('v.w') | list | length }}",
    "{{ s | replace('l', 'L') }}{{ s | replace('l', 'L', 1) }}{{ 'aaa' | replace('', '-') }}", "{{ nums | reverse | list }}{{ 'abc' | reverse }}",
    "{{ f | round }} {{ f | round(2) }} {{ f | round(1, 'ceil') }} {{ f | round(1, 'floor') }} {{ 1234.5 | round(-2) }} {{ 42 | round }}",
    "{{ nums | sort }}{{ nums | sort(reverse=true) }}{{ words | sort }}{{ words | sort(case_sensitive=true) }}", "{{ rows | sort(attribute='k') | map(attribute='id') | list }}",
    "{{ rows | sort(attribute='k,id') | map(attribute='id') | list }}{{ rows | sort(attribute='v.w', reverse=true) | map(attribute='id') | list }}",
    "{{ nums | slice(2) | list }}{{ nums | slice(3, 'x') | list }}{{ nums | batch(2) | list }}{{ nums | batch(2, 0) | list }}", "{{ 5 | string }}{{ none | string }}",
    "{{ html | striptags }}", "{{ nums | sum }}{{ rows | sum(attribute='id') }}{{ rows | sum(attribute='v.w', start=10) }}{{ nested | sum(start=[]) }}",
    "{{ '  x ' | trim }}|{{ 'xxaxx' | trim('x') }}", "{{ s | truncate(10) }}|{{ s | truncate(10, true) }}|{{ s | truncate(10, true, '..', 0) }}|{{ s | truncate(99) }}",
    "{{ nums | unique | list }}{{ words | unique | list }}{{ rows | unique(attribute='k') | map(attribute='id') | list }}",
    "{{ 'a b/c&d=ü' | urlencode }} {{ d | urlencode }} {{ [['a b', 1], ['c', 'd&']] | urlencode }} {{ 5 | urlencode }}", "{{ s | wordcount }}{{ lines | wordcount }}",
    "{{ s | wordwrap(8) }}|{{ lines | wordwrap(5, wrapstring='/') }}", "{{ d | items | list | length }}", "{{ 5 is odd }}{{ 4 is even }}{{ 9 is divisibleby 3 }}",
    "{{ n is number }}{{ n is integer }}{{ f is float }}{{ s is string }}{{ d is mapping }}{{ nums is sequence }}{{ nums is iterable }}{{ n is iterable }}",
    "{{ none is none }}{{ t is true }}{{ t is false }}{{ t is boolean }}{{ 'a' is lower }}{{ 'A' is upper }}{{ 1 is eq 1 }}{{ 1 is ne 1 }}",
    "{{ 1 is lt 2 }}{{ 1 is ge 2 }}{{ 1 is in [1, 2] }}{{ missing is defined }}{{ missing is undefined }}{{ 'upper' is filter }}{{ 'odd' is test }}",
    "{{ 1 is sameas 1 }}{{ 7 // 2 }}{{ 7 / 2 }}{{ 7 % 4 }}{{ 2 ** 10 }}{{ -n }}{{ +n }}{{ 'a' * 3 }}{{ [1] * 2 }}{{ 'a' ~ 1 ~ none }}{{ 2 ** -1 }}",
    "{{ 'Hello'[1:3] }}{{ nums[::2] }}{{ nums[-1] }}{{ 'abc'[::-1] }}{{ nums[1:] }}", "{{ 'a,b,c'.split(',') }}{{ 'a  b'.split() }}{{ 'a-b-c'.rsplit('-', 1) }}",
    "{{ 'abc'.startswith('a') }}{{ 'abc'.endswith(('b', 'c')) }}{{ 'abc'.find('c') }}{{ 'abcabc'.count('bc') }}{{ 'abc'.replace('b', 'x') }}",
    "{{ ' x '.strip() }}{{ 'ab'.upper() }}{{ 'a b'.title() }}{{ '7'.zfill(3) }}{{ 'x'.center(5, '*') }}{{ 'x'.ljust(3) }}|{{ ','.join(['a', 'b']) }}",
    "{{ '{0} {x:>4} {0!r}'.format('a', x=5) }}{{ '{}-{}'.format(1, none) }}{{ '{0[k]} {1:.2f}'.format({'k': 'v'}, 1.239) }}", "{{ 'a\nb'.splitlines() }}{{ 'a\tb'.expandtabs(4) }}",
    "{{ d.get('z') }}{{ d.get('q', 5) }}{{ 'prefix-x'.removeprefix('prefix-') }}{{ 'x'.isdigit() }}{{ nums.index(9) }}{{ nums.count(3) }}",
    "{{ 'a' in s }}{{ 3 in nums }}{{ 'z' in d }}{{ 4 not in nums }}{{ [1, 2] in [[1, 2]] }}{{ nested == [[1, 2], [3]] }}{{ [1] < [2] }}",
]  # fmt: skip

JINJA = ImmutableSandboxedEnvironment(undefined=jinja2.ChainableUndefined, keep_trailing_newline=True)


@pytest.mark.parametrize("template", SAME_AS_JINJA, ids=lambda t: t[:50])
def test_templates_render_as_in_jinja2(template: str) -> None:
    expected = JINJA.from_string(template + ".").render(DATA).replace("(", "[").replace(",)", "]").replace(")", "]")
    assert render(template + ".", Scope(DATA)).replace("(", "[").replace(")", "]") == expected


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ {'b': [1, none, true, 'ü<&>'], 'a': 1.5} | tojson }}", '{"b": [1, null, true, "ü<&>"], "a": 1.5}'),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        ("{{ '{\"a\": [1, null]}' | fromjson }}", {"a": [1, None]}),
        ("{{ 'héllo' | b64encode }}", "aMOpbGxv"),
        ("{{ 'aMOpbGxv' | b64decode }}", "héllo"),
        ("{{ 'YQ' | b64decode }}", "a"),
        ("{{ '_-8=' | replace('_-8=', 'YWI_') | b64decode }}", "ab?"),
        ("{{ 'yes' | bool }}", True),
        ("{{ 'False' | bool }}", False),
        ("{{ 2 | bool }}", True),
        ("{{ 'nan' | float }}", 0.0),
        ("{{ 'inf' | float(1.0) }}", 1.0),
        ("{{ 'ab12' | regex_match('[a-z]+') }}", True),
        ("{{ 'ab12' | regex_match('[0-9]+') }}", False),
        ("{{ 'ab12' | regex_search('[0-9]+') }}", "12"),
        ("{{ 'ab12' | regex_search('([a-z]+)[0-9]') }}", "ab"),
        ("{{ 'ab12' | regex_search('([a-z]+)([0-9]+)') }}", ["ab", "12"]),
        ("{{ 'ab12' | regex_search('x') }}", None),
        ("{{ 'AB' | regex_search('b', ignorecase=true) }}", "B"),
        ("{{ 'a1 b2' | regex_findall('[a-z]([0-9])') }}", ["1", "2"]),
        ("{{ 'a\nb' | regex_findall('^.', multiline=true) }}", ["a", "b"]),
        (r"{{ 'john smith' | regex_replace('(\\w+) (\\w+)', '\\2 \\1') }}", "smith john"),
        ("{{ 'aaa' | regex_replace('a', 'b', 2) }}", "bba"),
        ("{{ '2026-11-21T08:30:00Z' | parse_datetime }}", "2026-11-21T08:30:00+00:00"),
        ("{{ '2026-11-21' | parse_datetime }}", "2026-11-21T00:00:00+00:00"),
        ("{{ '2026-11-21T10:30:00+02:00' | parse_datetime }}", "2026-11-21T08:30:00+00:00"),
        ("{{ '21/11/2026 08.30' | parse_datetime('%d/%m/%Y %H.%M') }}", "2026-11-21T08:30:00+00:00"),
        ("{{ '2026-11-21T08:30:00Z' | format_datetime('%Y%m%d') }}", "20261121"),
        ("{{ 0 | format_datetime }}", "1970-01-01 00:00:00"),
        ("{{ '2026-11-21T08:30:00Z' | to_epoch }}", 1795249800),
        ("{{ 1795249800 | from_epoch }}", "2026-11-21T08:30:00+00:00"),
        ("{{ 1795249800500 | from_epoch('ms') }}", "2026-11-21T08:30:00.500000+00:00"),
        ("{{ '2026-02-28' | date_add(days=1, hours=2) }}", "2026-03-01T02:00:00+00:00"),
        ("{{ '2026-01-01' | add_seconds(-0.5) }}", "2025-12-31T23:59:59.500000+00:00"),
        ("{{ 60 | add_seconds(30) | to_epoch }}", 90),
        ("{{ '2026-01-02' | parse_datetime > '2026-01-01T23:59:59.9Z' | parse_datetime }}", True),
        ("{{ [{'a': 1}, {'a': 1}] | unique | list }}", [{"a": 1}]),
        ("{{ rows | attr('id') | default('none') }}", "none"),
        ("{{ d | attr('z') }}", 1),
        ("{{ '<b>' | safe }}", "<b>"),
        ("{{ 'x' | urlencode | type if false else 'ok' }}", None),
    ],
)  # fmt: skip
def test_filters_beyond_jinja2_give_their_values(template: str, value: Any) -> None:
    if value is None and "type" in template:
        with pytest.raises(TemplateError, match="no filter 'type'"):
            render(template, Scope(DATA))
        return
    assert render(template, Scope(DATA)) == value


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ 'x{' | fromjson }}", "fromjson: "),
        ("{{ 'NaN' | fromjson }}", "not JSON"),
        ("{{ '[1e999]' | fromjson }}", "1e999 is not JSON"),
        (r"""{{ '"\\ud800"' | fromjson }}""", "surrogates not allowed"),
        ("{{ '!!' | b64decode }}", "not base64"),
        ("{{ '/w==' | b64decode }}", "not UTF-8"),
        ("{{ 'yesterday' | parse_datetime }}", "a time must be ISO 8601"),
        ("{{ missing | to_epoch }}", "'missing' is undefined"),
        ("{{ 1e18 | format_datetime }}", "a time must be"),
        ("{{ '9999-12-31' | date_add(days=1) }}", "out of range"),
        ("{{ 0 | date_add(days='1') }}", "must be a number"),
        ("{{ 0 | format_datetime('%10000Y') }}", "unknown time format directive '%1'"),
        ("{{ 0 | format_datetime('%') }}", "unknown time format directive"),
        ("{{ 'x' | regex_search('(') }}", "regular expression"),
        ("{{ 'x' | regex_replace('(x)', '\\\\9') }}", "replacement"),
        ("{{ missing | tojson }}", "'missing' is undefined"),
        ("{{ [1, 'a'] | sort }}", "no common order"),
        ("{{ [1, none] | max }}", "no common order"),
        ("{{ 5 | list }}", "number cannot be iterated"),
        ("{{ 5 | length }}", "number cannot be iterated"),
        ("{{ 'a' | abs }}", "abs needs a number"),
        ("{{ 5 | round(100) }}", "precision"),
        ("{{ [1] | map('nope') }}", "no filter 'nope'"),
        ("{{ [1] | select('nope') }}", "no test 'nope'"),
        ("{{ [1] | batch(0) }}", "at least 1"),
        ("{{ 'a' | upper(1, 2) }}", "argument"),
        ("{{ [1].index(2) }}", "not in the list"),
        ("{{ [1, 2] | tojson(indent=99) }}", "at most 16"),
        ("{{ 5 | items }}", "items needs a mapping"),
        ("{{ range('3') }}", "whole numbers"),
        ("{{ range(1, 5, 0) }}", "the step must not be 0"),
        ("{{ int('x') }}", "is not a number"),
        ("{{ (-8) ** 0.5 }}", "not a real number"),
    ],
)  # fmt: skip
def test_mistakes_are_explained(template: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(template, Scope(DATA))
    assert message in caught.value.message
