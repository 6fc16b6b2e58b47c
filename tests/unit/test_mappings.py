"""Mappings merge key by key, at every depth."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.values.mappings import deep_merge


@pytest.mark.parametrize(
    ("under", "over", "merged"),
    [
        ({"a": {"b": 1, "c": {"d": 1}}}, {"a": {"c": {"e": 2}}}, {"a": {"b": 1, "c": {"d": 1, "e": 2}}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"b": 1}}, {"a": None}, {"a": None}),
        ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({}, {"a": 1}, {"a": 1}),
    ],
)
def test_the_upper_one_wins_and_mappings_merge(under: dict[str, Any], over: dict[str, Any], merged: dict[str, Any]) -> None:
    assert deep_merge(under, over) == merged


def test_merging_does_not_change_its_arguments() -> None:
    under, over = {"a": {"b": 1}}, {"a": {"c": 2}}
    deep_merge(under, over)
    assert (under, over) == ({"a": {"b": 1}}, {"a": {"c": 2}})
