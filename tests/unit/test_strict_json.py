"""JSON as it is taken from outside: what is refused, and what is said of it."""

from __future__ import annotations

import pytest

from noetl_core.values.strict_json import MAX_DEPTH, check, loads


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', '"a" is written twice: line 1 column 10'),
        ('{"x": [{"b": "}"}, {\n  "b": {"c": ","},\n  "d": 1, "b": 2}]}', '"b" is written twice: line 3 column 11'),
        ('{"a\\"": 1, "\\u0061\\"": 2}', '"a"" is written twice: line 1 column 12'),
        ('[{"a": 1}, {"a": {"a": "a"}, "b": ["a", "a"]}, {"": 1, "": 2}]', '"" is written twice: line 1 column 56'),
        ("NaN", "NaN is not a JSON number"),
        ("[1e999]", "1e999 is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ('["\\ud800"]', "surrogates not allowed"),
        ('{"\\udfff": 1}', "surrogates not allowed"),
        ("[" * (MAX_DEPTH + 1) + "1" + "]" * (MAX_DEPTH + 1), "deeper than 100 levels"),
        ("[" * 100_000 + "]" * 100_000, "deeper than 100 levels"),
        ("1" * 5000, "limit"),
    ],
)
def test_text_that_is_not_strict_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        loads(text)
    assert message in str(refused.value)


def test_the_same_key_in_different_objects_is_fine() -> None:
    assert loads('{"a": {"a": [{"a": 1}, {"a": 2}]}, "b": "a"}') == {"a": {"a": [{"a": 1}, {"a": 2}]}, "b": "a"}
    assert loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)


def test_an_infinite_number_in_a_python_value_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        check({"a": float("inf")})
