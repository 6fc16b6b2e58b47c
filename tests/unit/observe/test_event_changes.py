"""Comparison of the events of a commit."""

from __future__ import annotations

from time import process_time

from noetl_core.observe.event_changes import event_changes


def test_a_commit_of_thousands_of_events_is_compared_at_once() -> None:
    recorded = [{"name": "AB"[number % 2], "data": {"n": number}} for number in range(1_500)]
    decided = [event for number, event in enumerate(recorded) if number % 7 or not number]
    started = process_time()
    changes = list(event_changes(recorded, decided))
    assert process_time() - started < 3
    assert changes[0] == {"event": "B", "recorded": '{"n": 7}'}
    assert sum("recorded" in change for change in changes) == len(recorded) - 7
