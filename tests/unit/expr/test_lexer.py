"""The short way through the lexer reads what Jinja2's own lexer reads: the same tokens at the same places, or it gives up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import Lexer

from noetl_core.expr.compiled import ENVIRONMENT
from noetl_core.expr.lexer import PositionLexer, tokens_of_line

PARTS = (
    "{{", "}}", "{{ ", " }}", " ", "a", "b1", "_x", "not", "true", "0", "1", "12", "012", "1.5", "1e3", "1_000", ".", "..", ",", "|",
    "==", "!=", "<=", "=", "!", "//", "**", "-", "+", "~", "%", "(", ")", "[", "]", "{", "}", "'text'", '"te}}xt"', "'it''s'", "'\\n'",
    "é", "'é'", "$", "@", "text ", ":", ";", "\t", "}}}", "-}}", "{{-", "#", "'", '"',
)  # fmt: skip


def by_jinja(source: str) -> list[tuple[int, int, str, object]] | None:
    """The tokens as the long way gives them; None where it refuses the text."""
    lexer = ENVIRONMENT.lexer
    assert isinstance(lexer, PositionLexer)
    try:
        stream = Lexer.tokenize(lexer, source)
        return [(int(t.lineno), t.lineno.column, t.type, t.value) for t in stream]  # type: ignore[attr-defined]
    except TemplateSyntaxError:
        return None


def compare(source: str) -> None:
    short = tokens_of_line(source)
    if short is not None:
        assert [(int(t.lineno), t.lineno.column, t.type, t.value) for t in short] == by_jinja(source)  # type: ignore[attr-defined]


@given(st.lists(st.sampled_from(PARTS), max_size=14).map("".join))
def test_the_fast_lexer_gives_up_or_agrees_with_jinja(source: str) -> None:
    if not any(sign in source for sign in ("{%", "{#", "{{-", "{{+", "\n")):
        compare(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ workload.url }}/items/{{ iter.page | default(1) }}?x=1",
        "{{ outcome.status == 'error' and outcome.http.status in [429, 503] }}",
        "{{ {'a': 1, 'b': [2, {'c': 3}]} }}",
        '{{ rows[0].name ~ "-" ~ (n + 1) // 2 }}',
        "text only }} and more",
    ],
)
def test_common_templates_take_the_short_way(source: str) -> None:
    assert tokens_of_line(source) is not None
    compare(source)


@pytest.mark.parametrize("source", ["{{ 'it\\'s' }}", "{{ 1.5 }}", "{{ é }}", "{{ a", "{{ (a }}", "{{ 012 }}", "{{ a -}}"])
def test_unsupported_syntax_is_left_to_the_lexer_of_jinja(source: str) -> None:
    assert tokens_of_line(source) is None
