"""The memory of the processes of a side while it does a case: the most at one time, as shares of pages (PSS)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from noetl_infra.processes import taken_mb, with_descendants

EVERY_S = 0.2


@dataclass(slots=True)
class Most:
    """Megabytes; 0 if nothing was seen."""

    mb: float = 0.0


@contextmanager
def watched(roots: Callable[[], Sequence[int]], every_s: float = EVERY_S) -> Iterator[Most]:
    """Measure processes and all that they started while the block runs, at its begin and its end too. Reading takes processor
    time from what is measured, so nothing is timed meanwhile."""
    most = Most()
    over = threading.Event()

    def look() -> None:
        most.mb = max(most.mb, sum(map(taken_mb, with_descendants(roots()))))

    def watch() -> None:
        while not over.wait(every_s):
            look()

    look()
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()
        look()
