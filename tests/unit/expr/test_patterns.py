"""Regular expressions of authors: what they match, what is refused, and with which remedy."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.dsl.parse import check
from noetl_core.expr import TemplateError, render
from noetl_core.expr.patterns import BadPattern, compiled


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (r"{{ 'Müller é 1' | regex_findall('\\w+') }}", ["Müller", "é", "1"]),
        (r"{{ 'é٣' | regex_findall('\\d') }}", ["٣"]),
        (r"{{ 'éa b' | regex_replace('\\s', '-') }}", "éa-b"),
        (r"{{ 'é-b_1' | regex_findall('[\\w-]+') }}", ["é-b_1"]),
        (r"{{ 'é b' | regex_findall('\\W') }}", [" "]),
        (r"{{ 'é,\nb' | regex_search('[\\s\\S]+') }}", "é,\nb"),
        (r"{{ 'é[b]' | regex_findall('[[:alpha:]]|[]]') }}", ["b", "]"]),
        (r"{{ 'a]é' | regex_findall('[]\\w]+') }}", ["a]é"]),
        (r"{{ 'ab' | regex_search('b\\Z') }}", "b"),
        (r"{{ 'aéb' | regex_replace('', '-') }}", "-a-é-b-"),
        (r"{{ 'É' | regex_search('é', ignorecase=true) }}", "É"),
        (r"{{ 'a-b' | regex_replace('(?P<x>a)-(b)', '\\g<2>/\\g<x>') }}", "b/a"),
        (r"{{ 'a' | regex_replace('a', '\\\\\\n') }}", "\\\n"),
        (r"{{ 'ab' | regex_replace('(a)|(b)', '[\\1\\2]') }}", "[a][b]"),
        (r"{{ 'é' | regex_replace('(é)', '\\1ü') }}", "éü"),
        (r"{{ 'xay' | regex_findall('(x)|(y)') }}", [["x", None], [None, "y"]]),
    ],
)
def test_matches(template: str, expected: Any) -> None:
    assert render(template, {}) == expected


@pytest.mark.parametrize(
    ("pattern", "remedy"),
    [
        ("a(?=b)", "no lookaround"),
        ("(?<!a)b", "no lookaround"),
        (r"(a)\1", "no backreferences"),
        ("(?P<q>a)(?P=q)", "no backreferences"),
        ("a++", "possessive"),
        ("(?>a)", "possessive"),
        ("a{1001}", "at most 1,000"),
        ("(a{1000}){1000}", "at most 1,000"),
        (r"(?:\p{L}{500}){2}", "repeat less"),
        ("\\u00e9", r"\x{20AC}"),
        ("(?x) a", "beside the pattern"),
        ("(", "missing )"),
    ],
)
def test_refused_patterns_name_a_remedy(pattern: str, remedy: str) -> None:
    with pytest.raises(BadPattern) as caught:
        compiled(pattern)
    assert remedy in str(caught.value)
    with pytest.raises(TemplateError) as failed:
        render("{{ 'x' | regex_search(p) }}", {"p": pattern})
    assert remedy in failed.value.message


@pytest.mark.parametrize(
    "use",
    [
        "{{ workload.x | regex_search('a(?=b)') }}",
        "{{ workload.x | regex_match(pattern='a(?=b)') }}",
        "{{ [workload.x] | map('regex_replace', 'a(?=b)', '') }}",
    ],
)
def test_validate_finds_a_refused_literal_at_its_place(use: str) -> None:
    text = f"""apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: p, path: p}}
workload: {{x: a}}
workflow:
  - step: start
    tool: {{kind: noop, result: "{use}"}}
"""
    (found,) = [one for one in check(text)[1] if one.severity == "error"]
    assert (found.code, found.line) == ("E301", 7)
    assert "lookaround" in found.message + found.hint


def test_a_slow_pattern_of_keys_ends_at_once() -> None:
    from noetl_core.tools.aws.globs import matcher

    assert not matcher("**a" * 16)("a" * 500 + "b")
