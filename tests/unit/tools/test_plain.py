"""Results of Python as JSON data: a key is text, so keys must differ as text."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_core.tools.sandbox.plain import DEEPEST, NotPlain, converted, to_plain


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({1: "a", "1": "b"}, "result has the keys 1 and '1', which are both \"1\" in JSON"),
        ({"rows": [{"None": 1, None: 2}]}, "result.rows[0] has the keys 'None' and None"),
        ({True: 1, "True": 2}, "the keys True and 'True'"),
    ],
)
def test_keys_that_are_one_in_json_are_refused(value: Any, words: str) -> None:
    with pytest.raises(NotPlain) as refused:
        to_plain(value)
    assert words in str(refused.value)


def test_keys_that_differ_as_text_stay() -> None:
    assert to_plain({1: "a", "2": "b", 1.5: "c"}) == {"1": "a", "2": "b", "1.5": "c"}


def test_plain_data_is_returned_itself() -> None:
    value: Any = {"a": [1, 2.5, None, True, "é", {"b": []}], "c": {}}
    assert to_plain(value) is value


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda part: st.lists(part) | st.dictionaries(st.text() | st.integers(0, 3), part) | st.tuples(part, part),
    max_leaves=20,
)


@given(PLAIN)
def test_data_returned_without_a_copy_equals_a_copy(value: Any) -> None:
    try:
        copy = converted(value, "result", 0)
    except NotPlain as refusal:
        with pytest.raises(NotPlain, match=re.escape(str(refusal))):
            to_plain(value)
    else:
        assert json.dumps(to_plain(value)) == json.dumps(copy)


@pytest.mark.parametrize("depth", [DEEPEST, DEEPEST + 1, DEEPEST + 2])
def test_the_deepest_value_is_the_same_with_and_without_a_copy(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    outcomes = []
    for convert in (to_plain, converted):
        try:
            outcomes.append(convert(value, "result", 0))
        except NotPlain as refusal:
            outcomes.append(str(refusal))
    assert outcomes[0] == outcomes[1]
