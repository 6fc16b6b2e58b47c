"""Changes of items that others change too."""

from __future__ import annotations

import pytest

from noetl_core.ports import MAX_ATTEMPTS, Conflict, OtherRevision, Unavailable, retry_conflicts


def test_a_conflict_with_another_writer_is_retried() -> None:
    lost: list[Exception | None] = [None, Conflict("first"), OtherRevision("r1")]

    def attempt() -> int | None:
        if lost and (error := lost.pop()) is not None:
            raise error
        return None if lost else 0

    assert retry_conflicts(attempt, "it") == 0, "whatever is not None is a result"


def test_after_many_attempts_the_error_names_the_contended_item() -> None:
    attempts: list[int] = []
    with pytest.raises(Unavailable, match=r"limit x is contended: 100 tries were not enough"):
        retry_conflicts(lambda: attempts.append(1), "limit x")
    assert len(attempts) == MAX_ATTEMPTS


def test_another_error_is_raised_at_once() -> None:
    with pytest.raises(ZeroDivisionError):
        retry_conflicts(lambda: 1 // 0, "it")
