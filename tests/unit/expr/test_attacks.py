"""Hostile templates: each is refused with a clear error, within its budget, and the process lives."""

from __future__ import annotations

import tracemalloc

import pytest

from noetl_core.expr import LimitExceeded, TemplateError, TemplateSyntaxError
from noetl_core.expr.evaluation_limits import Limits
from tests.unit.expr.attacks import attempt

DUNDER_WALKS = [
    "{{ ''.__class__ }}",
    "{{ ''['__class__'] }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ().__class__.__bases__[0] }}",
    "{{ {}.__class__ }}",
    "{{ [].__init__.__globals__ }}",
    "{{ 5 .__class__ }}",
    "{{ none.__class__ }}",
    "{{ true.__class__ }}",
    "{{ (1.5).__class__ }}",
    "{{ range.__globals__ }}",
    "{{ range(3).__class__ }}",
    "{{ dict.__base__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ joiner.__init__.__globals__ }}",
    "{{ joiner().run.__globals__ }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ lipsum.__globals__ }}",
    "{{ self.__init__.__globals__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ x.__init__.__globals__['__builtins__'] }}",
    "{{ rows | map(attribute='__class__') | list }}",
    "{{ rows | map('attr', '__class__') | list }}",
    "{{ rows | attr('__class__') }}",
    "{{ '' | attr('__class__') }}",
    "{{ 'x' | attr('__cla' ~ 'ss__') }}",
    "{{ 'x'['__cla' ~ 'ss__'] }}",
    "{{ rows | sum(attribute='__class__') }}",
    "{{ rows | sort(attribute='__class__') }}",
    "{{ rows | groupby('__class__') }}",
    "{{ rows | join(',', attribute='__class__.__mro__') }}",
    "{{ rows | selectattr('__class__') | list }}",
    "{{ rows.append.__self__ }}",
    "{{ ''.join.__self__.__class__ }}",
    "{{ text.upper.__globals__ }}",
    "{{ cls.__init__.__globals__ }}",
    "{% for x in [1] %}{{ loop.__class__ }}{% endfor %}",
    "{% for x in [1] %}{{ loop._iterable }}{% endfor %}",
    "{% macro m() %}{% endmacro %}{{ m.__class__ }}",
    "{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}",
    "{% macro m() %}{{ caller.__globals__ }}{% endmacro %}{{ m() }}",
    "{% set ns = namespace() %}{{ ns.__class__ }}",
    "{% set ns = namespace() %}{{ ns._Namespace__attrs.__class__ }}",
    "{{ ''.format.__self__.__class__ }}",
    "{{ '{0.__class__}'.format(text) }}",
    "{{ '{0.__class__.__mro__[1]}'.format(text) }}",
    "{{ '{0[__class__]}'.format(text) }}",
    "{{ '{x.__class__}'.format(x=rows) }}",
    "{{ '{x.__class__}'.format_map({'x': 1}) }}",
    "{{ ''.format_map }}",
    "{{ ['{0.__class__}'] | map('format', text) | list }}x{{ '%s' % text.__class__ }}",
]


@pytest.mark.parametrize("template", DUNDER_WALKS)
def test_a_dunder_walk_reaches_nothing(template: str) -> None:
    try:
        result = attempt(template)
    except TemplateError as error:
        assert error.message
        return
    assert "class" not in str(result) and "globals" not in str(result) and "object at" not in str(result)


SIZES = [
    "{{ 'a' * 10**9 }}",
    "{{ 10**9 * 'a' }}",
    "{{ [0] * 10**9 }}",
    "{{ (0, 1) * 10**9 }}",
    "{{ 'a' | center(10**9) }}",
    "{{ 'a'.center(10**9) }}",
    "{{ 'a'.ljust(10**9) }}",
    "{{ 'a'.rjust(10**9) }}",
    "{{ 'a'.zfill(10**9) }}",
    "{{ '\t'.expandtabs(10**9) }}",
    "{{ 'a\nb' | indent(10**9) }}",
    "{{ 'a\nb' | indent('x' * 30000000) }}",
    "{{ range(10**9) }}",
    "{{ range(10**9) | list }}",
    "{{ range(10**30) }}",
    "{{ range(0, 10**30, 10**29) | length }}",
    "{{ range(1000001) | sum }}",
    "{{ 9 ** (9 ** 9) }}",
    "{{ 10 ** 10000 }}",
    "{{ 2 ** 4096 }}",
    "{{ 9.0 ** 9999 }}",
    "{{ (10**1000) / 3.0 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%.1000000000f' % 1 }}",
    "{{ '%*d' % (1000000000, 1) }}",
    "{{ '%(a)1000000000s' % {'a': 1} }}",
    "{{ '%1000000000d' | format(1) }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ '{:{w}}'.format(1, w=1000000000) }}",
    "{{ '{:.1000000000f}'.format(1) }}",
    "{{ '{0:>1000000000}'.format('a') }}",
    "{{ ('a' * 10000000) | replace('a', 'b' * 1000) }}",
    "{{ ('a' * 10000000).replace('a', 'b' * 1000) }}",
    "{{ ('a' * 10000000).replace('', 'b' * 100) }}",
    "{{ ('a,' * 10000000).split(',') }}",
    "{{ ('a ' * 10000000).split() }}",
    "{{ ('a\n' * 10000000).splitlines() }}",
    "{{ ('a' * 10000000) | list }}",
    "{{ ('x' * 10000000).join(['a'] * 1000) }}",
    "{{ ['x' * 1000000] * 1000 | int }}",
    "{{ (['x' * 1000000] * 1000) | join }}",
    "{{ (['x' * 1000000] * 1000) | tojson }}",
    "{{ (['x' * 1000000] * 1000) | string }}",
    "x{{ ['x' * 1000000] * 1000 }}",
    "{{ ['x' * 1000000] * 1000 ~ '' }}",
    "{{ [1] | batch(10**9, 'x') }}",
    "{{ [1] | slice(10**9) }}",
    "{{ [1] | tojson(indent=10**9) }}",
    "{{ ('a' * 10000000) | wordwrap(1) }}",
    "{{ ('<' * 20000000) | escape }}",
    "{{ ('\"' * 20000000) | urlencode }}",
    "{% for i in range(100000) %}" + "x" * 1000 + "{% endfor %}",
    "{% set big %}{% for i in range(100000) %}" + "x" * 1000 + "{% endfor %}{% endset %}{{ big }}",
    "{% filter upper %}{% for i in range(100000) %}" + "x" * 1000 + "{% endfor %}{% endfilter %}",
    "{% set ns = namespace(s='x') %}{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for i in range(40) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(40) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{% set ns = namespace(s=2) %}{% for i in range(40) %}{% set ns.s = ns.s * ns.s %}{% endfor %}",
    "{% set ns = namespace(s=[]) %}{% for i in range(100000) %}{% set ns.s = [ns.s, [1,2,3,4,5,6,7,8,9]*100] %}{% endfor %}",
    "{% set ns = namespace(l=[]) %}{% for i in range(10000) %}{% set ns.l = ns.l + ['a' * 1000000] %}{% endfor %}",
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("template", SIZES, ids=lambda t: t[:60])
def test_an_enormous_value_is_refused_before_it_exists(template: str) -> None:
    with pytest.raises(TemplateError) as caught:
        attempt(template)
    assert (
        isinstance(caught.value, LimitExceeded) or "variable width" in caught.value.message or "at most" in caught.value.message
    )


DOUBLING = "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}"
TUPLES = "{% set ns = namespace(a=(1,)) %}{% for i in range(60) %}{% set ns.a = (ns.a, ns.a) %}{% endfor %}"

OPERATIONS = [
    *(
        DOUBLING + use
        for use in (
            "{{ ns.a }}", "{{ ns.a == ns.b }}", "{{ ns.a != ns.b }}", "{{ ns.a < ns.b }}", "{{ ns.a in [ns.b] }}", "{{ ns.a | tojson }}",
            "{{ ns.a | string }}", "{{ ns.a ~ '' }}", "{{ '%s' % [ns.a] }}", "{{ '{}'.format(ns.a) }}", "{{ [ns.a, ns.b] | sort }}",
            "{{ [ns.a, ns.b] | unique }}", "{{ [ns.a, ns.b] | max }}", "{{ ns.a | join(',') }}", "{{ [ns.a].index(ns.b) }}",
            "{{ [ns.a].count(ns.b) }}", "{% for i in [1, 2] %}{{ loop.changed([ns.a]) }}{% endfor %}", "{{ [ns.a] | groupby(0) }}",
            "{{ [ns.a] | select('eq', ns.b) | list }}", "{{ ns.a | length if ns.a == ns.b }}",
        )
    ),
    *(TUPLES + use for use in ("{{ {ns.a: 1} }}", "{{ {}[ns.a] }}x{{ {ns.a: 1} }}", "{{ dict([[ns.a, 1]]) }}", "{{ ns.a ~ '' }}")),
    "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
    "{% for a in range(100000) %}{% for b in range(100000) %}{% if a == b %}{% endif %}{% endfor %}{% endfor %}",
    "{% for a in range(100000) %}{{ range(100000) | sum }}{% endfor %}",
    "{% for a in range(100000) %}{{ range(100000) | list | length }}{% endfor %}",
    "{% for a in range(100000) %}{{ range(100000) | map('string') | list | length }}{% endfor %}",
    "{% for a in range(100000) %}{{ 99999 in range(100000) | list }}{% endfor %}",
    "{% set s = 'a' * 10000000 %}{% for a in range(100000) %}{{ 'b' in s }}{% endfor %}",
    "{% set s = 'a' * 10000000 %}{% for a in range(100000) %}{{ s.count('b') }}{% endfor %}",
    "{% set s = 'a' * 10000000 %}{% set t = 'a' * 10000000 %}{% for a in range(100000) %}{{ s == t }}{% endfor %}",
    "{% set s = 'a' * 10000000 %}{% set t = 'a' * 10000000 %}{{ s in [t ~ 'b'] * 100000 }}{{ [s] * 1000 == [t] * 1000 }}",
    "{% set s = 'a' * 9000000 %}{% set t = 'a' * 9000000 %}{{ ([s] * 50000 + [t] * 50000) | unique | length }}",
    "{% set s = 'a' * 9000000 %}{% set t = 'a' * 9000000 %}{% for i in range(100000) %}{{ {s: 1}[t] }}{% endfor %}",
    "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(25) }}",
    "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}",
    "{% set ns = namespace(l=[1]) %}{% for x in ns.l recursive %}{{ loop(ns.l) }}{% endfor %}",
    "{% for a in range(100000) %}{{ ('b' * 9000) | wordwrap(3) }}{% endfor %}",
    "{{ ('<!--' * 5000000) | striptags }}{{ ('<!---->' * 3000000) | striptags }}",
    "{{ 'a' * 30 | int | string | regex_search('x') }}",
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("template", OPERATIONS[:-1], ids=lambda t: t[-60:])
def test_endless_work_is_cut_off(template: str) -> None:
    with pytest.raises(TemplateError):
        attempt(template, Limits(seconds=0.05))


def test_endless_work_is_cut_off_without_a_deadline() -> None:
    with pytest.raises(LimitExceeded):
        attempt("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}")


BACKTRACKING = [
    ("^(a+)+$", "a" * 40 + "b"),
    ("^(a|aa)+$", "a" * 60 + "b"),
    ("(x+x+)+y", "x" * 60),
    ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 60),
    ("(.*)*(.*)*(.*)*(.*)*z", "x" * 200),
]


@pytest.mark.parametrize("use", ["regex_search", "regex_match", "regex_findall", "regex_replace"])
@pytest.mark.parametrize(("pattern", "text"), BACKTRACKING)
def test_a_pattern_that_backtracks_elsewhere_ends_at_once(use: str, pattern: str, text: str) -> None:
    attempt(f"{{{{ t | {use}(p) }}}}", t=text, p=pattern)


def test_the_pattern_that_killed_the_process_is_an_error() -> None:
    with pytest.raises(TemplateError, match="invalid repetition size"):
        attempt("{{ ('a' * 1000000) | regex_search('(?:(a)|b){1000000}z') }}")


def test_a_search_that_could_take_too_long_is_refused_before_it_begins() -> None:
    with pytest.raises(LimitExceeded, match="a text of at most"):
        attempt("{{ ('ab' * 400000) | regex_search('(?:a|b)*a(?:a|b){900}c') }}")


def test_many_slow_patterns_share_one_budget() -> None:
    with pytest.raises(LimitExceeded):
        attempt("{% for i in range(1000) %}{{ t | regex_search('(?:a|b)*a(?:a|b){300}c') }}{% endfor %}", t="ab" * 50_000)


@pytest.mark.parametrize(
    "pattern",
    [
        "(" * 500,
        "(a{1,1000}){1,1000}",
        "((((a{1,100}){1,100}){1,100}){1,100}){1,100}",
        "a" * 1001,
        "(?R)",
        "(?P<n>(?&n))",
        "[",
        "*",
    ],
)
def test_a_hostile_pattern_is_refused_or_harmless(pattern: str) -> None:
    try:
        attempt("{{ t | regex_search(p) }}", t="a" * 1000, p=pattern)
    except TemplateError as error:
        assert error.message


def test_a_replacement_cannot_multiply_a_text() -> None:
    with pytest.raises(LimitExceeded):
        attempt("{{ t | regex_replace('a', r) }}", t="a" * 100_000, r="b" * 100_000)
    with pytest.raises(LimitExceeded):
        attempt(r"{{ t | regex_replace('(a+)', '\\1' * 400) }}", t="a" * 900_000)


def test_a_replacement_is_charged_before_it_is_expanded() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceeded):
            attempt(r"{{ t | regex_replace('(a+)', '\\1' * 400) }}", t="a" * 900_000)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


SOURCES = [
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "{{ " + "[" * 5000 + "]" * 5000 + " }}",
    "{{ " + "not " * 5000 + "x }}",
    "{{ " + "-" * 5000 + "1 }}",
    "{{ " + "1+" * 20000 + "1 }}",
    "{{ " + "a." * 20000 + "a }}",
    "{{ x" + "|upper" * 20000 + " }}",
    "{{ " + "a if b else " * 5000 + "c }}",
    "{% if a %}" * 5000 + "{% endif %}" * 5000,
    "{% for a in b %}" * 30 + "{% endfor %}" * 30,
    "{{ " + "1" * 100_000 + " }}",
    "{{ a }}" * 28_000,
    "{{ '" + "a" * 300_000 + "' }}",
    "{{ x }}" + "{" * 100_000,
    "{{ x }}" + "{% " * 60_000,
    "{{ x }}" + "{# " * 60_000,
    "{{ x }}" + "{%-" + " " * 100_000,
    "{{ x }}" + "{% raw" * 30_000,
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("source", SOURCES, ids=lambda s: f"{s[:12]}.{len(s)}")
def test_a_hostile_source_is_refused(source: str) -> None:
    with pytest.raises(TemplateError):
        attempt(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% extends 'x' %}", "{% block b %}{% endblock %}",
        "{% do x %}", "{% debug %}", "{{ super() }}",
    ],
)  # fmt: skip
def test_statements_that_reach_other_templates_are_refused(source: str) -> None:
    with pytest.raises(TemplateError):
        attempt(source)


def test_a_syntax_error_is_not_a_crash() -> None:
    for source in (
        "{{",
        "{{ }}",
        "{{ a b }}",
        "{% if %}",
        "{{ 'a }}",
        "{{ a | }}",
        "{{ a.. }}",
        "{% endfor %}",
        "{{ a \x00 }}",
        "{{ a }} {%",
    ):
        with pytest.raises(TemplateSyntaxError):
            attempt(source)
