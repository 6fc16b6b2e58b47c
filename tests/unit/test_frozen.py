"""Values: what `frozen` makes of a class."""

from __future__ import annotations

import copy
import pickle
from dataclasses import field, replace

import pytest

from noetl_core.values.frozen import frozen, mutable


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


@frozen
class Defaults:
    needed: int
    filled: dict[str, int] = field(default_factory=dict)
    counted: int = field(default=7, init=False)
    made: list[int] = field(default_factory=list, init=False)
    unset: int = field(init=False, compare=False, repr=False)
    named: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        self.made.append(self.needed)


@mutable
class Counter:
    name: str
    counts: list[int] = field(default_factory=list)


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


def test_special_methods_that_a_class_defines_are_kept() -> None:
    assert repr(Spoken("a")) == "***" and Spoken("a") == Spoken("b") and hash(Spoken("a")) == 7


def test_a_value_has_its_fields_and_no_more() -> None:
    with pytest.raises(AttributeError):
        Place("high").town = "x"  # type: ignore[attr-defined]


def test_another_value_is_made_of_one() -> None:
    place = Place("high", 2, key="k")
    assert replace(place, number=3) == Place("high", 3, key="k") and place.number == 2
    assert copy.deepcopy(place) == pickle.loads(pickle.dumps(place)) == place


def test_objects_are_initialised_as_those_of_dataclasses() -> None:
    for _ in range(2):  # the first object generates the method
        one, two = Defaults(1), Defaults(2, {"a": 1}, named="n")
        assert (one.needed, one.filled, one.counted, one.made, one.named) == (1, {}, 7, [1], "")
        assert (two.needed, two.filled, two.counted, two.made, two.named) == (2, {"a": 1}, 7, [2], "n")
        assert one.filled is not Defaults(1).filled
    for arguments, named in (((), {}), ((1, {}, 3), {}), ((1,), {"counted": 3}), ((1,), {"nobody": 3})):
        with pytest.raises(TypeError, match=r"Defaults.__init__\(\)"):
            Defaults(*arguments, **named)  # type: ignore[arg-type]


def test_a_method_is_generated_with_the_first_object() -> None:
    @frozen
    class Late:
        word: str

    before = Late.__init__
    assert Late("a").word == "a"
    generated = Late.__init__
    assert Late("b").word == "b"
    assert before is not generated is Late.__init__
    assert Late.__match_args__ == ("word",)


def test_a_subclass_has_fields_of_its_own() -> None:
    @frozen
    class Above:
        one: int

    @frozen
    class Below(Above):
        two: int = 2

    class Plain(Below):
        pass

    assert (Plain(1, 3).one, Plain(1).two, Below(1).two, Above(1).one) == (1, 2, 2, 1)


def test_a_mutable_value_can_change_and_has_no_hash() -> None:
    counter = Counter("a")
    counter.counts.append(1)
    counter.name = "b"
    assert counter == Counter("b", [1]) != Counter("b")
    assert repr(counter) == "Counter(name='b', counts=[1])"
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)
    assert copy.deepcopy(counter) == pickle.loads(pickle.dumps(counter)) == counter
