"""Results of Python as JSON data: a key is text, so keys must differ as text."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.tools.sandbox.plain import NotPlain, to_plain


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
