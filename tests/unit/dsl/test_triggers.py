"""`executor.spec.triggers`: what is read, and what is refused with its place and what to write instead."""

from __future__ import annotations

import pytest

from noetl_core.dsl.dump import dump
from noetl_core.dsl.model import Schedule, Trigger
from noetl_core.dsl.parse import check, parse_playbook

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: a, path: a }
executor:
  spec:
    triggers:
"""
TAIL = """
workload: { day: null }
workflow:
  - step: start
    tool: { kind: noop, result: "{{ [workload.day, trigger.kind] }}" }
"""


def playbook(*triggers: str) -> str:
    return HEAD + "\n".join(f"      - {{ {trigger} }}" for trigger in triggers) + TAIL


def read(*triggers: str) -> tuple[Trigger, ...]:
    return parse_playbook(playbook(*triggers)).executor.triggers


def wrong(*triggers: str) -> list[str]:
    found = check(playbook(*triggers))[1]
    return [f"{d.line}:{d.col} {d.code} {d.message} ({d.hint})" for d in found]


@pytest.mark.parametrize(
    ("written", "schedule"),
    [
        ('schedule: "0 2 * * *"', Schedule("0 2 * * *")),
        ('schedule: " 0  2 * * MON-FRI "', Schedule("0 2 * * MON-FRI")),
        ('schedule: "@daily"', Schedule("0 0 * * *")),
        ("schedule: { rate: 5m }", Schedule(every_s=300)),
        ("schedule: { rate: 90 }", Schedule(every_s=90)),
        ('schedule: "rate(2 hours)"', Schedule(every_s=7200)),
        ('schedule: "rate(1 day)"', Schedule(every_s=86_400)),
        (
            'schedule: "0 2 * * *", timezone: Asia/Kathmandu, overlap: queue, catch_up: all, jitter: 10m',
            Schedule("0 2 * * *", None, "Asia/Kathmandu", "queue", "all", 600),
        ),
    ],
)
def test_schedules(written: str, schedule: Schedule) -> None:
    (trigger,) = read(written)
    assert trigger.source == schedule
    assert (trigger.name, trigger.enabled, trigger.payload) == ("schedule", True, {})


def test_a_trigger_without_a_name_gets_the_word_of_its_source() -> None:
    triggers = read('schedule: "0 1 * * *"', 'schedule: "0 2 * * *", name: schedule-2', 'schedule: "0 3 * * *"')
    assert [t.name for t in triggers] == ["schedule", "schedule-2", "schedule-3"]


def test_dumped_triggers_are_read_back() -> None:
    whole = parse_playbook(
        playbook(
            'schedule: "0 2 * * *", timezone: Europe/Berlin, payload: { day: "{{ trigger.scheduled_at }}" }, enabled: false',
            "name: often, schedule: { rate: 1d }, overlap: allow, jitter: 30, version: prod",
        )
    )
    assert parse_playbook(dump(whole)) == whole


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ('schedule: "0 0 31 2 *"', '7:21 E131 schedule of trigger 0: "0 0 31 2 *" is not a cron expression: bad day-of-month'),
        ('schedule: "* * * 2 MON#6"', "is not a cron expression: bad day-of-week"),
        (
            'schedule: "0 2 * *"',
            '"0 2 * *" is not a cron expression (five fields: minute, hour, day of month, month, day of week)',
        ),
        ('schedule: "0 0 2 * * *"', "is not a cron expression (five fields"),
        ('schedule: "cron(0 2 * * ? *)"', "is of another dialect (write it without cron( ), as five fields"),
        ('schedule: "rate(5 seconds)"', '"rate(5 seconds)" is not a rate (rate(5 minutes), or {rate: 5m})'),
        ("schedule: { rate: 30 }", "E124 rate of trigger 0 must be a whole number between 60 and 31,622,400"),
        ("schedule: { rate: 90s }", "or text such as 5m, 12h, 1d; not '90s'"),
        ("schedule: {}", "E111 schedule of trigger 0 has no rate (schedule: {rate: 5m})"),
        ("schedule: { rate: 5m }, timezone: Europe/Berlin", "a rate counts elapsed time and has no time zone (remove it)"),
        ('schedule: "@daily", timezone: Europe/Berlinn', 'there is no zone "Europe/Berlinn" (did you mean "Europe/Berlin"?)'),
        ('schedule: "@daily", timezone: europe/PARIS', '(did you mean "Europe/Paris"?)'),
        ('schedule: "@daily", timezone: Europe', 'E131 timezone of trigger 0: there is no zone "Europe"'),
        ('schedule: "@daily", timezone: ../../etc/passwd', "there is no zone"),
        ('schedule: "@daily", overlap: skipp', 'E113 overlap of trigger 0 cannot be "skipp" (did you mean "skip"?)'),
        (
            'schedule: "@daily", catch_up: all',
            "E114 catch_up of trigger 0: overlap skip would skip or cancel all missed occurrences but one",
        ),
        ('schedule: "@daily", catch_up: all, overlap: cancel', "overlap cancel"),
        ('schedule: "@daily", jitter: 2d', "E124 jitter of trigger 0 must be a number between 0 and 86,400"),
        ('shedule: "@daily"', 'E110 unknown key "shedule" in trigger 0 (did you mean "schedule"?)'),
        ("name: nothing", 'E111 trigger "nothing" has no source (give it one of: schedule'),
        ('schedule: "@daily", name: a/b', 'E115 "a/b" cannot name a trigger'),
        ('schedule: "@daily", payload: { x: "{{ workload.day }}" }', "E208 workload in payload of trigger 0"),
        ('schedule: "@daily", payload: { x: "{{ keychain.k.token }}" }', "E205 keychain.k.token in payload of trigger 0"),
        ('schedule: "@daily", payload: { x: "{{ trigger. }}" }', "E301 template"),
        ('schedule: "@daily", payload: [1]', "E112 payload of trigger 0 must be a mapping, not a list"),
        ('schedule: "@daily", version: 1.5', "7:40 E131 version of trigger 0: '1.5' is not a version of a playbook"),
        ('schedule: "@daily", version: "pr od"', "E131 version of trigger 0: 'pr od' is not a version of a playbook"),
        ('schedule: "@daily", enabled: yes', "E112 enabled of trigger 0 must be true or false"),
    ],
)
def test_mistakes_in_triggers_are_reported(written: str, found: str) -> None:
    assert any(found in one for one in wrong(written)), wrong(written)


def test_two_of_a_name_are_refused() -> None:
    (found,) = wrong('schedule: "@daily", name: a', 'schedule: "@hourly", name: a')
    assert found == '8:32 E115 triggers of executor has two named "a" (first at line 7) (rename one)'


def test_unknown_names_below_trigger_are_reported() -> None:
    (found,) = check(playbook('schedule: "@daily"').replace("trigger.kind", "trigger.knd"))[1]
    assert (found.code, found.message, found.hint) == ("W515", "trigger has no knd", 'did you mean "kind"?')
