"""Judges the permissions of a function's role as IAM does: denied actions are refused, and so are actions that are not
allowed."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from tests.unit.infra.translated import listed, statements

Context = Mapping[str, Any]


def permits(function: str, action: str, resource: str, context: Context, **parameters: str) -> bool:
    """Return whether the role of `function` permits the call. `resource` is written as the template's policies resolve it."""
    if any(_is_about(s, action, resource, context) for s in statements(function, "Deny", **parameters)):
        return False
    return any(_is_about(s, action, resource, context) for s in statements(function, **parameters))


def _is_about(statement: Mapping[str, Any], action: str, resource: str, context: Context) -> bool:
    if "NotAction" in statement:
        named = not _any(statement["NotAction"], action)
    else:
        named = _any(statement["Action"], action)
    return named and _any(statement["Resource"], resource) and _holds(statement.get("Condition", {}), context)


def _any(patterns: Any, value: str) -> bool:
    return any(fnmatchcase(value.lower(), str(pattern).lower()) for pattern in listed(patterns))


def _holds(conditions: Mapping[str, Mapping[str, Any]], context: Context) -> bool:
    return all(
        _one(operator, context.get(key), listed(wanted)) for operator, keys in conditions.items() for key, wanted in keys.items()
    )


def _one(operator: str, value: Any, wanted: list[Any]) -> bool:
    quantifier, _, plain = operator.rpartition(":")
    if value is None:
        return quantifier == "ForAllValues" or plain.endswith("IfExists")
    negated = "Not" in plain
    matches = [any(fnmatchcase(str(each), str(one)) for one in wanted) != negated for each in listed(value)]
    return any(matches) if quantifier == "ForAnyValue" else all(matches)
