"""Event patterns: what the content filters of Amazon EventBridge match, and what is refused as a pattern."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.aws.event_patterns import FILTERS, Flaw, flaws, matches

EC2 = {
    "version": "0",
    "id": "6a7e8feb",
    "detail-type": "EC2 Instance State-change Notification",
    "source": "aws.ec2",
    "time": "2026-11-22T18:43:48Z",
    "resources": ["arn:aws:ec2:us-west-1:1:instance/i-1", "arn:aws:ec2:us-west-1:1:instance/i-2"],
    "detail": {"instance-id": "i-1", "state": "terminated", "cpu": 7.5, "spot": False, "reason": None, "tag": "", "disks": []},
}

MATCHES = {
    "a value": {"source": ["aws.ec2"]},
    "one of several": {"source": ["aws.ec3", "aws.ec2"]},
    "every key": {"source": ["aws.ec2"], "detail": {"state": ["terminated"]}},
    "an item of a list": {"resources": ["arn:aws:ec2:us-west-1:1:instance/i-2"]},
    "null": {"detail": {"reason": [None]}},
    "the empty text": {"detail": {"tag": [""]}},
    "false": {"detail": {"spot": [False]}},
    "a number, however written": {"detail": {"cpu": [7.50]}},
    "prefix": {"time": [{"prefix": "2026-11-22"}]},
    "prefix in any case": {"source": [{"prefix": {"equals-ignore-case": "AWS."}}]},
    "suffix": {"source": [{"suffix": ".ec2"}]},
    "suffix in any case": {"source": [{"suffix": {"equals-ignore-case": "EC2"}}]},
    "any case": {"detail": {"state": [{"equals-ignore-case": "TERMINATED"}]}},
    "wildcard": {"detail-type": [{"wildcard": "EC2*State*Notification"}]},
    "wildcard at both ends": {"detail-type": [{"wildcard": "*State*"}]},
    "a wildcard that is a text": {"source": [{"wildcard": "aws.ec2"}]},
    "anything but a text": {"detail": {"state": [{"anything-but": "running"}]}},
    "anything but texts": {"detail": {"state": [{"anything-but": ["running", "stopped"]}]}},
    "anything but numbers": {"detail": {"cpu": [{"anything-but": [1, 2]}]}},
    "anything but a prefix": {"source": [{"anything-but": {"prefix": "my."}}]},
    "anything but one of several suffixes": {"source": [{"anything-but": {"suffix": [".s3", ".sqs"]}}]},
    "anything but any case": {"detail": {"state": [{"anything-but": {"equals-ignore-case": ["RUNNING", "stopped"]}}]}},
    "anything but a wildcard": {"detail-type": [{"anything-but": {"wildcard": "*S3*"}}]},
    "anything but a text, of a number": {"detail": {"cpu": [{"anything-but": "high"}]}},
    "a range": {"detail": {"cpu": [{"numeric": [">", 7, "<=", 7.5]}]}},
    "a number that is equal": {"detail": {"cpu": [{"numeric": ["=", 7.5]}]}},
    "it exists": {"detail": {"state": [{"exists": True}]}},
    "it does not exist": {"detail": {"stopped-by": [{"exists": False}]}},
    "nothing below it exists": {"detail": {"network": {"address": [{"exists": False}]}}},
    "a mapping is no value that exists": {"detail": [{"exists": False}]},
    "an empty list has no value": {"detail": {"disks": [{"exists": False}]}},
    "either": {"$or": [{"source": ["aws.s3"]}, {"detail": {"state": ["terminated"]}}]},
    "either, and": {
        "source": ["aws.ec2"],
        "detail": {"$or": [{"cpu": [{"numeric": ["<", 5]}]}, {"state": [{"prefix": "term"}]}]},
    },
}
DOES_NOT = {
    "another value": {"source": ["aws.ec3"]},
    "a key that is not there": {"region": ["us-west-1"]},
    "one of two keys": {"source": ["aws.ec2"], "detail": {"state": ["running"]}},
    "another case": {"source": ["AWS.EC2"]},
    "true is not 1": {"detail": {"spot": [0]}},
    "a number is not its text": {"detail": {"cpu": ["7.5"]}},
    "null is not the empty text": {"detail": {"tag": [None]}},
    "what is not there is not null": {"detail": {"stopped-by": [None]}},
    "what is not there is not anything but": {"detail": {"stopped-by": [{"anything-but": "me"}]}},
    "anything but": {"detail": {"state": [{"anything-but": "terminated"}]}},
    "anything but one of several": {"detail": {"state": [{"anything-but": ["running", "terminated"]}]}},
    "anything but a prefix": {"source": [{"anything-but": {"prefix": ["my.", "aws."]}}]},
    "anything but a wildcard": {"source": [{"anything-but": {"wildcard": "aws.*"}}]},
    "a text in a range": {"detail": {"state": [{"numeric": [">", 0]}]}},
    "a boolean in a range": {"detail": {"spot": [{"numeric": ["<", 1]}]}},
    "a number out of range": {"detail": {"cpu": [{"numeric": [">", 7, "<", 7.5]}]}},
    "a prefix of a number": {"detail": {"cpu": [{"prefix": "7"}]}},
    "a mapping exists": {"detail": [{"exists": True}]},
    "it exists, and is said not to": {"detail": {"state": [{"exists": False}]}},
    "neither": {"$or": [{"source": ["aws.s3"]}, {"detail": {"state": ["running"]}}]},
    "a mapping where there is a text": {"source": {"name": ["aws.ec2"]}},
    "a text where there is a mapping": {"detail": ["terminated"]},
}


@pytest.mark.parametrize("pattern", MATCHES.values(), ids=MATCHES)
def test_an_event_matches(pattern: dict[str, Any]) -> None:
    assert list(flaws(pattern)) == []
    assert matches(pattern, EC2)


@pytest.mark.parametrize("pattern", DOES_NOT.values(), ids=DOES_NOT)
def test_an_event_does_not_match(pattern: dict[str, Any]) -> None:
    assert list(flaws(pattern)) == []
    assert not matches(pattern, EC2)


@pytest.mark.parametrize(
    ("network", "address", "inside"),
    [
        ("10.0.0.0/24", "10.0.0.255", True),
        ("10.0.0.0/24", "10.0.1.0", False),
        ("10.0.0.7/24", "10.0.0.1", True),
        ("2001:db8::/32", "2001:db8:1::7", True),
        ("2001:db8::/32", "10.0.0.1", False),
        ("10.0.0.0/24", "no address", False),
        ("0.0.0.0/0", "167772161", False),
    ],
)
def test_addresses_of_a_network(network: str, address: str, inside: bool) -> None:
    assert matches({"ip": [{"cidr": network}]}, {"ip": address}) is inside


def test_a_pattern_of_several_keys_must_match_within_one_list_item() -> None:
    event = {"employees": [{"first": "Alice", "last": "Smith"}, {"first": "Bob", "last": "Jones"}]}
    assert matches({"employees": {"first": ["Alice"], "last": ["Smith"]}}, event)
    assert not matches({"employees": {"first": ["Alice"], "last": ["Jones"]}}, event)


def test_the_key_or_without_mappings_is_a_key_like_others() -> None:
    assert [f.at for f in flaws({"$or": ["a", "b"]})] == [("$or", 0), ("$or", 1)]


@pytest.mark.parametrize(
    ("wildcard", "text", "fits"),
    [
        ("dir/*.png", "dir/a/b.png", True),
        ("dir/*.png", "dir/.png", True),
        ("*", "", True),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("*a*b*", "xbxa", False),
        (r"a\*b", "a*b", True),
        (r"a\*b", "axb", False),
        (r"a\\*", "a\\x", True),
        ("a*b*ab", "abab", True),
        ("a*b*ab", "abxab", True),
    ],
)
def test_stars_stand_for_any_text(wildcard: str, text: str, fits: bool) -> None:
    assert list(flaws({"k": [{"wildcard": wildcard}]})) == []
    assert matches({"k": [{"wildcard": wildcard}]}, {"k": text}) is fits


def test_a_hostile_wildcard_is_matched_without_backtracking() -> None:
    pattern = {"k": [{"wildcard": "*a" * 5_000 + "*b"}]}
    assert not matches(pattern, {"k": "a" * 100_000})


def test_every_filter_is_tried_above() -> None:
    tried = str([*MATCHES.values(), *DOES_NOT.values()])
    assert [word for word in FILTERS if f"'{word}'" not in tried] == ["cidr"]  # it has a table of its own


FLAWS: dict[str, tuple[Any, tuple[str | int, ...], str]] = {
    "no mapping": (["aws.ec2"], (), "must be a mapping"),
    "nothing": ({}, (), "at least one key"),
    "a value that is no list": ({"source": "aws.ec2"}, ("source",), "a list of at least one value"),
    "an empty list": ({"detail": {"state": []}}, ("detail", "state"), "a list of at least one value"),
    "an empty mapping below": ({"detail": {}}, ("detail",), "at least one key"),
    "an unknown filter": ({"a": ["x", {"prefx": "b"}]}, ("a", 1, "prefx"), "no filter 'prefx'"),
    "two filters in one": ({"a": [{"prefix": "a", "suffix": "b"}]}, ("a", 0), "one key"),
    "a list in a list": ({"a": [["b"]]}, ("a", 0), "cannot be a list"),
    "a date": ({"a": [__import__("datetime").date(2026, 1, 1)]}, ("a", 0), "quote it"),
    "infinity": ({"a": [float("inf")]}, ("a", 0), "finite"),
    "prefix of a number": ({"a": [{"prefix": 7}]}, ("a", 0, "prefix"), "takes a text"),
    "prefix of another filter": ({"a": [{"prefix": {"suffix": "b"}}]}, ("a", 0, "prefix"), "equals-ignore-case: text"),
    "numeric without a number": ({"a": [{"numeric": [">"]}]}, ("a", 0, "numeric"), "comparisons and numbers"),
    "numeric with a text": ({"a": [{"numeric": [">", "7"]}]}, ("a", 0, "numeric"), "a number must follow"),
    "numeric with a boolean": ({"a": [{"numeric": [">", True]}]}, ("a", 0, "numeric"), "a number must follow"),
    "an unknown comparison": ({"a": [{"numeric": ["!=", 7]}]}, ("a", 0, "numeric"), "'!=' is not one of"),
    "no network": ({"a": [{"cidr": "10.0.0.0/33"}]}, ("a", 0, "cidr"), "takes a network"),
    "exists, perhaps": ({"a": [{"exists": "yes"}]}, ("a", 0, "exists"), "true or false"),
    "two stars": ({"a": [{"wildcard": "a**b"}]}, ("a", 0, "wildcard"), "two stars"),
    "a backslash before a letter": ({"a": [{"wildcard": r"a\b"}]}, ("a", 0, "wildcard"), "backslash"),
    "anything but nothing": ({"a": [{"anything-but": []}]}, ("a", 0, "anything-but"), "only texts or only numbers"),
    "anything but null": ({"a": [{"anything-but": [None]}]}, ("a", 0, "anything-but"), "only texts or only numbers"),
    "anything but this and that": ({"a": [{"anything-but": ["a", 1]}]}, ("a", 0, "anything-but"), "only texts or only numbers"),
    "anything but a range": ({"a": [{"anything-but": {"numeric": [">", 1]}}]}, ("a", 0, "anything-but"), "must be one of"),
    "either of one": ({"$or": [{"a": ["b"]}]}, ("$or",), "two mappings or more"),
    "either, of which one is wrong": ({"$or": [{"a": ["b"]}, {"c": "d"}]}, ("$or", 1, "c"), "a list of at least one value"),
}


@pytest.mark.parametrize(("pattern", "at", "says"), FLAWS.values(), ids=FLAWS)
def test_a_pattern_is_refused_where_it_is_wrong(pattern: Any, at: tuple[str | int, ...], says: str) -> None:
    found = list(flaws(pattern))
    assert [f.at for f in found] == [at]
    assert says in found[0].message


def test_an_unknown_filter_is_reported_with_the_known_ones() -> None:
    assert list(flaws({"a": [{"prefx": "b"}]})) == [Flaw(("a", 0, "prefx"), "there is no filter 'prefx'", tuple(FILTERS))]
