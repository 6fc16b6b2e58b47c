"""The sources of triggers that come from outside, as authors write them: what is read, and what is told where it is wrong."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from noetl_core.dsl.dump import dump
from noetl_core.dsl.model import Trigger
from noetl_core.dsl.parse import parse_playbook
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.dsl.sources import Events, Messages, Uploads, Webhook


def text(*entries: str) -> str:
    listed = "\n".join(f"    - {entry}" for entry in entries)
    return (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: a, path: a}\nexecutor:\n  spec:\n    triggers:\n"
        f"{listed}\nworkflow: [{{step: a, tool: {{kind: noop}}}}]\n"
    )


HMAC = {"form": "hmac", "credential": "hooks/x", "header": "X-Sig"}
READ: dict[str, tuple[str, Any]] = {
    "a pattern": (
        "event: {source: [shop], detail: {n: [{exists: true}]}}",
        Events({"source": ["shop"], "detail": {"n": [{"exists": True}]}}),
    ),
    "a queue": ("queue: orders.fifo", Messages("orders.fifo")),
    "messages that match": ("queue: {name: orders, match: {body: {a: [1]}}}", Messages("orders", {"body": {"a": [1]}})),
    "a sender's form": ("webhook: {form: github, credential: hooks/a}", Webhook("github", "hooks/a")),
    "a rate of its own": ("webhook: {form: github, credential: hooks/a, rate: 0.5}", Webhook("github", "hooks/a", rate=0.5)),
    "an own form": (
        (
            "webhook: {form: hmac, credential: hooks/a/b, header: X-S, algorithm: sha512, encoding: base64, prefix: 'v1=',"
            " timestamp: X-T, tolerance: 2m, signed: '{timestamp}:{body}', id: X-I, respond: validated, headers: [X-More],"
            " match: {body: {a: [1]}}}"
        ),
        Webhook(
            "hmac",
            "hooks/a/b",
            {"body": {"a": [1]}},
            ("x-more",),
            "X-S",
            "sha512",
            "base64",
            "v1=",
            "X-T",
            120,
            "{timestamp}:{body}",
            "X-I",
            "validated",
        ),
    ),
    "headers in any case": (
        (
            "webhook: {form: github, credential: hooks/a, match: {headers: {X-GitHub-Event: [push]}, $or: [{headers: {X-A: [1]}},"
            " {headers: {$or: [{X-B: [1]}, {x-c: [1]}]}}]}}"
        ),
        Webhook(
            "github",
            "hooks/a",
            {
                "headers": {"x-github-event": ["push"]},
                "$or": [{"headers": {"x-a": [1]}}, {"headers": {"$or": [{"x-b": [1]}, {"x-c": [1]}]}}],
            },
        ),
    ),
    "keys of the inbox": ("upload: {prefix: uploads/a/, suffix: .csv}", Uploads("uploads/a/", ".csv")),
    "another bucket": ("upload: {bucket: scans}", Uploads("", "", "scans")),
}


def triggers(source: str) -> tuple[Trigger, ...]:
    return parse_playbook(source, "f.yaml").executor.triggers


@pytest.mark.parametrize(("entry", "source"), READ.values(), ids=READ)
def test_a_source_is_read_and_written_again(entry: str, source: Any) -> None:
    (found,) = triggers(text(entry))
    assert (found.source, found.name, found.kind) == (source, source.kind, source.kind)
    again = dump(parse_playbook(text(entry), "f.yaml"))
    assert triggers(again if isinstance(again, str) else yaml.safe_dump(again)) == (found,)


def test_names_are_the_words_of_sources_unless_they_are_given() -> None:
    found = triggers(text("queue: a", "queue: b", "{name: mine, queue: c}", "event: {a: [b]}"))
    assert [t.name for t in found] == ["queue", "queue-2", "mine", "event"]


WRONG: dict[str, tuple[str, str]] = {
    "event: {source: aws}": ("7:23 E131", "a list of at least one value or filter"),
    "event: {source: [{prefx: a}]}": ("7:32 E131", 'did you mean "prefix"?'),
    "event: aws": ("7:14 E131", "an event pattern must be a mapping"),
    "event: {a: ['{{ x }}']}": ("7:19 E131", "a pattern has no templates"),
    "queue: arn:aws:sqs:us-east-1:123456789012:orders": ("7:14 E131", "write the name alone: orders"),
    "queue: {match: {a: [1]}}": ("7:14 E111", "has no name"),
    "queue: {nme: a}": ("7:15 E110", 'did you mean "name"?'),
    "webhook: github": ("7:16 E112", "must be a mapping, not text"),
    "webhook: {form: githb, credential: hooks/x}": ("7:23 E113", 'did you mean "github"?'),
    "webhook: {form: github}": ("7:16 E111", "has no credential"),
    "webhook: {form: github, credential: x}": ("7:43 E131", "begins with hooks/"),
    "webhook: {form: github, credential: hooks/x, header: a}": ("7:52 E114", "belongs to the form hmac"),
    "webhook: {form: github, credential: hooks/x, id: X-Mine}": ("7:56 E131", "X-GitHub-Delivery, or body"),
    "webhook: {form: stripe, credential: hooks/x, id: body}": ("7:52 E114", "belongs to the form hmac"),
    "webhook: {form: hmac, credential: hooks/x}": ("7:16 E111", "which header holds the signature"),
    "webhook: {form: hmac, credential: hooks/x, header: 'a b'}": ("7:58 E131", "is not the name of a header"),
    "webhook: {form: hmac, credential: hooks/x, header: a, tolerance: 5m}": ("7:61 E114", "needs a timestamp that is signed"),
    "webhook: {form: hmac, credential: hooks/x, header: a, timestamp: t, tolerance: 5d}": ("7:86 E124", "between 1 and 86,400"),
    "webhook: {form: hmac, credential: hooks/x, header: a, timestamp: t, signed: '{body}'}": (
        "7:83 E131",
        "must have each of {body}, {timestamp}",
    ),
    "webhook: {form: slack, credential: hooks/x, rate: 0}": ("7:57 E124", "between 0.01 and 10,000"),
    "webhook: {form: slack, credential: hooks/x, rate: '{{ 5 }}'}": ("7:57 E112", "must be a number, not text"),
    "webhook: {form: slack, credential: hooks/x, respond: validatde}": ("7:60 E113", 'did you mean "validated"'),
    "webhook: {form: slack, credential: hooks/x, headers: [Cookie]}": ("7:61 E131", "proves the sender"),
    "webhook: {form: slack, credential: hooks/x, match: {headers: []}}": ("7:68 E131", "a list of at least one value"),
    "upload: {prefix: reports/}": ("7:24 E131", '"uploads/reports/"'),
    "upload: {suffix: .csv}": ("7:15 E131", "neither a prefix nor a bucket"),
    "upload: {bucket: A_B}": ("7:24 E131", "is not the name of a bucket"),
    "{queue: a, timezone: Europe/Berlin}": ("7:18 E114", "belongs to the source schedule, and this trigger has the source queue"),
    "{queue: a, upload: {prefix: uploads/}}": ("7:18 E114", "has queue and upload"),
    "{queue: a, payload: {x: '{{ workload.y }}'}}": ("7:31 E208", "a payload reads only trigger"),
}


@pytest.mark.parametrize("entry", WRONG)
def test_mistakes_in_sources_are_reported_at_their_places(entry: str) -> None:
    at, says = WRONG[entry]
    with pytest.raises(InvalidPlaybook) as refused:
        triggers(text(entry))
    (found,) = refused.value.diagnostics
    assert str(found).startswith(f"f.yaml:{at} ")
    assert says in str(found)


def test_a_pattern_has_a_bounded_number_of_values() -> None:
    with pytest.raises(InvalidPlaybook, match="E124"):
        triggers(text(f"event: {{a: [{', '.join(map(str, range(1_001)))}]}}"))
