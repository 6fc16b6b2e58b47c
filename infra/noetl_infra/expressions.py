"""Remembers the checks of MiniStack's expressions.

MiniStack (1.5.33) parses and checks a condition (`ministack.services.dynamodb._evaluate_condition`) for every item that it looks
at: a query for two commits of a log of four hundred parses its condition four hundred times. Programs send the same few
expressions again and again. The remedy upstream would be the same, or to parse once a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

REMEMBERED = 1_000


def remember(dynamodb: Any) -> None:
    """Patch `dynamodb` (`ministack.services.dynamodb`): what depends on an expression alone is computed once."""
    tokenize = lru_cache(REMEMBERED)(dynamodb._tokenize)
    dynamodb._tokenize = lambda expression: list(tokenize(expression))
    dynamodb._condition_syntax_error = lru_cache(REMEMBERED)(dynamodb._condition_syntax_error)
    for name in ("_check_redundant_parens", "_check_reserved_keyword_usage"):
        setattr(dynamodb, name, _by_tokens(getattr(dynamodb, name)))


def _by_tokens(check: Any) -> Any:
    remembered = lru_cache(REMEMBERED)(check)

    def checked(tokens: Sequence[tuple[str, str]], *slot: str) -> Any:
        return remembered(tuple(tokens), *slot)

    return checked
