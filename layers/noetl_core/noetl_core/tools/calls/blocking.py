"""Runs blocking work for coroutines, such as reading and writing stored objects, on threads beside the event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")
THREADS: Final = 16

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def begin(work: Callable[[], T]) -> Future[T]:
    """Begin `work` on a thread of the process."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(THREADS, thread_name_prefix="http-objects")
        return _pool.submit(work)


async def wait_for(future: Future[T]) -> T:
    """Wait for work that has begun and return its result. The waiting task may be cancelled; the work continues."""
    waiting = asyncio.wrap_future(future)
    waiting.add_done_callback(lambda one: one.cancelled() or one.exception())
    return await asyncio.shield(waiting)


async def run_blocking(work: Callable[[], T]) -> T:
    """Do `work` on a thread and return its result."""
    return await wait_for(begin(work))


def _forked() -> None:
    global _lock, _pool
    _lock, _pool = threading.Lock(), None  # threads stay behind


os.register_at_fork(after_in_child=_forked)
