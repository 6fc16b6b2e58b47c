"""Conditions of requests to the emulator are parsed once, with the same result for every item and every request."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from noetl_infra.expressions import remember

dynamodb: Any = import_module("ministack.services.dynamodb")
KEY = "pk = :pk AND sk BETWEEN :first AND :last"
VALUES = {":pk": {"S": "a"}, ":first": {"S": "1"}, ":last": {"S": "5"}}
PARSERS = ("_tokenize", "_condition_syntax_error", "_check_redundant_parens", "_check_reserved_keyword_usage")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parsers called since they were remembered."""
    called: list[str] = []

    def noting(name: str) -> Any:
        own = getattr(dynamodb, name)

        def noted(*arguments: Any) -> Any:
            called.append(name)
            return own(*arguments)

        return noted

    for name in PARSERS:
        monkeypatch.setattr(dynamodb, name, noting(name))
    found = SimpleNamespace(**{name: getattr(dynamodb, name) for name in PARSERS})
    remember(found)
    for name in PARSERS:
        monkeypatch.setattr(dynamodb, name, getattr(found, name))
    return called


def test_a_condition_is_parsed_once_for_all_items(calls: list[str]) -> None:
    items = [{"pk": {"S": "a"}, "sk": {"S": str(n)}} for n in range(9)]
    found = [dynamodb._evaluate_condition(KEY, item, VALUES, {}, "KeyConditionExpression") for item in items]
    assert found == [1 <= n <= 5 for n in range(9)]
    assert sorted(calls) == sorted(PARSERS)


@pytest.mark.parametrize("wrong", ["pk == :pk", "((pk = :pk))", "pk = :pk AND", "size = :pk", "pk = :first"])
def test_a_wrong_condition_has_the_same_error_each_time(wrong: str, calls: list[str]) -> None:
    def outcome() -> str:
        try:
            return str(dynamodb._evaluate_condition(wrong, {"pk": {"S": "a"}}, VALUES, {}))
        except ValueError as error:
            return str(error)

    assert outcome() == outcome()
    assert calls.count("_tokenize") == 1
