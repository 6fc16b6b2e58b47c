"""Reads in order: few one after the other, many concurrently."""

from __future__ import annotations

from threading import Barrier

import pytest

from noetl_core.log.concurrent_reads import AT_ONCE, at_once


def test_few_items_are_read_on_demand() -> None:
    read: list[int] = []

    def double(n: int) -> int:
        read.append(n)
        return 2 * n

    values = at_once(double, range(AT_ONCE))
    assert next(values) == 0
    assert read == [0]
    assert list(values) == [2, 4, 6]


def test_many_items_are_read_concurrently_and_returned_in_order() -> None:
    together = Barrier(AT_ONCE, timeout=30)

    def double(n: int) -> int:
        together.wait()
        return 2 * n

    assert list(at_once(double, range(2 * AT_ONCE))) == [2 * n for n in range(2 * AT_ONCE)]


@pytest.mark.parametrize("items", [AT_ONCE, 3 * AT_ONCE])
def test_an_error_of_a_read_is_raised_at_its_item(items: int) -> None:
    values = at_once(lambda n: 1 // (n - 1), range(items))
    assert next(values) == -1
    with pytest.raises(ZeroDivisionError):
        next(values)
