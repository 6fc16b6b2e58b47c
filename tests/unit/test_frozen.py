"""Values: what `frozen` makes of a class."""

from __future__ import annotations

import copy
import pickle
from dataclasses import field, replace

import pytest

from noetl_core.values.frozen import frozen


@frozen
class Place:
    street: str
    number: int = 1
    seen: str = field(default="", compare=False)
    key: str = field(default="", repr=False)


@frozen
class Empty:
    pass


@frozen
class Spoken:
    word: str

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7


def test_values_with_equal_fields_are_one() -> None:
    assert Place("high", 2) == Place("high", number=2) != Place("high", 3)
    assert hash(Place("high", 2)) == hash(Place("high", 2))
    assert {Place("high"): 1}[Place("high", 1)] == 1
    assert Empty() == Empty() and hash(Empty()) == hash(Empty())


def test_a_field_that_does_not_count_is_not_compared() -> None:
    assert Place("high", seen="today") == Place("high") and hash(Place("high", seen="today")) == hash(Place("high"))


def test_values_of_two_classes_differ() -> None:
    place: object = Place("high")
    assert place not in (Empty(), ("high", 1))


def test_the_text_of_a_value_has_its_fields_without_those_that_are_hidden() -> None:
    assert repr(Place("high", key="secret")) == "Place(street='high', number=1, seen='')"
    assert repr(Empty()) == "Empty()"


def test_what_a_class_says_of_itself_stays() -> None:
    assert repr(Spoken("a")) == "***" and Spoken("a") == Spoken("b") and hash(Spoken("a")) == 7


def test_a_value_has_its_fields_and_no_more() -> None:
    with pytest.raises(AttributeError):
        Place("high").town = "x"  # type: ignore[attr-defined]


def test_another_value_is_made_of_one() -> None:
    place = Place("high", 2, key="k")
    assert replace(place, number=3) == Place("high", 3, key="k") and place.number == 2
    assert copy.deepcopy(place) == pickle.loads(pickle.dumps(place)) == place
