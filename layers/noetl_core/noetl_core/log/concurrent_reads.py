"""Reads several items from a service concurrently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeVar

CONCURRENT_READS: Final = 4
"""Concurrent reads of one decision, manifest or page."""

T = TypeVar("T")
R = TypeVar("R")


def read_concurrently(read: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Yield `read` of each item, in order. Many items are read concurrently, because each read waits for a service."""
    if len(items) <= CONCURRENT_READS:
        yield from map(read, items)
        return
    context = copy_context()  # the caller's deadline is that of its reads
    with ThreadPoolExecutor(CONCURRENT_READS) as pool:
        yield from pool.map(lambda item: context.copy().run(read, item), items)
