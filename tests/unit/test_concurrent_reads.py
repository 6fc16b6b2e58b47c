"""Reads in order: few one after the other, many concurrently."""

from __future__ import annotations

from threading import Barrier

import pytest

from noetl_core.log.concurrent_reads import CONCURRENT_READS, read_concurrently


def test_few_items_are_read_on_demand() -> None:
    read: list[int] = []

    def double(n: int) -> int:
        read.append(n)
        return 2 * n

    values = read_concurrently(double, range(CONCURRENT_READS))
    assert next(values) == 0
    assert read == [0]
    assert list(values) == [2, 4, 6]


def test_many_items_are_read_concurrently_and_returned_in_order() -> None:
    together = Barrier(CONCURRENT_READS, timeout=30)

    def double(n: int) -> int:
        together.wait()
        return 2 * n

    assert list(read_concurrently(double, range(2 * CONCURRENT_READS))) == [2 * n for n in range(2 * CONCURRENT_READS)]


@pytest.mark.parametrize("items", [CONCURRENT_READS, 3 * CONCURRENT_READS])
def test_an_error_of_a_read_is_raised_at_its_item(items: int) -> None:
    values = read_concurrently(lambda n: 1 // (n - 1), range(items))
    assert next(values) == -1
    with pytest.raises(ZeroDivisionError):
        next(values)
