"""Schemas of callbacks: what conforms, what is said when it does not, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.values.json_schema import BadSchema, check_schema, problems

FORM = {
    "type": "object",
    "required": ["approved"],
    "additionalProperties": False,
    "properties": {
        "approved": {"type": "boolean"},
        "amount": {"type": ["number", "null"], "minimum": 1, "maximum": 9},
        "tags": {"type": "array", "maxItems": 2, "items": {"type": "string", "minLength": 1}},
        "who": {"enum": ["ann", "bob"]},
    },
}


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ({"approved": True, "amount": 2.5, "tags": ["a"], "who": "ann"}, []),
        ({"approved": False, "amount": None}, []),
        ("yes", ["the answer is string, not object"]),
        ({}, ["the answer has no 'approved'"]),
        ({"approved": 1}, ["the answer.approved is integer, not boolean"]),
        ({"approved": True, "amount": True}, ["the answer.amount is boolean, not number or null"]),
        ({"approved": True, "amount": 0}, ["the answer.amount is below 1"]),
        ({"approved": True, "x": 1}, ["the answer has 'x', which the schema does not allow"]),
        ({"approved": True, "who": "eve"}, ["the answer.who is none of ['ann', 'bob']"]),
        ({"approved": True, "tags": ["a", "", "c"]}, ["the length of the answer.tags is above 2", "the length of the answer.tags[1] is below 1"]),
    ],
)  # fmt: skip
def test_values_that_violate_the_schema_are_reported(value: Any, messages: list[str]) -> None:
    check_schema(FORM)
    assert problems(value, FORM) == messages


@pytest.mark.parametrize(
    ("format", "fit", "unfit"),
    [
        ("date", "2026-02-28", "2026-02-30"),
        ("date", "2026-02-28", "20260228"),
        ("date-time", "2026-02-28T10:00:00Z", "2026-02-28"),
        ("time", "10:00:00", "25:00"),
        ("email", "ann@example.org", "ann at example"),
        ("multiline", "a\nb", None),
        ("credential", "team/db", "a b"),
    ],
)
def test_a_text_has_its_format(format: str, fit: str, unfit: str | None) -> None:
    schema = {"type": "string", "format": format}
    check_schema(schema)
    assert problems(fit, schema) == []
    assert problems(7, {"format": format}) == [], "a format is one of texts"
    if unfit is not None:
        assert problems(unfit, schema) == [f"the answer is not a {format}"]


def test_true_is_no_number_among_the_values_of_an_enum() -> None:
    assert problems(True, {"enum": [1]}) == ["the answer is none of [1]"]
    assert problems(1, {"const": True}) == ["the answer is not True"]
    assert problems({"a": [1.0]}, {"const": {"a": [1]}}) == []


def test_numbers_without_a_fraction_are_integers() -> None:
    assert problems(3.0, {"type": "integer"}) == []
    assert problems(3.5, {"type": "integer"}) == ["the answer is number, not integer"]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ([], "must be a mapping"),
        ({"oneOf": []}, "keyword 'oneOf' is not supported"),
        ({"properties": {"a": {"format": "hostname"}}}, r"schema\.a: format is one of date, date-time, "),
        ({"type": "text"}, "type is one of object, .*, not 'text'"),
        ({"type": ["string", 5]}, "type is one of object"),
        ({"enum": "a"}, "enum is a list of values"),
        ({"required": [1]}, "required is a list of names"),
        ({"maximum": "9"}, "maximum is a number, not '9'"),
        ({"minLength": True}, "minLength is a whole number of at least 0"),
        ({"properties": []}, "properties is a mapping"),
        ({"items": {"pattern": "("}}, r"schema\[\]: keyword 'pattern'"),
    ],
)
def test_unsupported_and_malformed_schemas_are_refused(schema: Any, message: str) -> None:
    with pytest.raises(BadSchema, match=message):
        check_schema(schema)


def test_only_the_first_twenty_of_a_million_problems_are_reported() -> None:
    of = {"items": {"enum": ["x" * 100_000]}}
    messages = problems(["y"] * 1_000_000, of)
    assert len(messages) == 20
    assert max(map(len, messages)) < 300
