"""The processes of an embedded stack (emulator, functions, sandboxes), and the total memory of these or of others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from noetl_infra.stack import Stack


@dataclass
class Peak:
    """The maximum total of some processes: megabytes, as shares of pages (PSS), and their number."""

    mb: float = 0.0
    processes: int = 0


def peak(stack: Stack, every_s: float = 0.5) -> AbstractContextManager[Peak]:
    """Measure all processes of the stack while the block runs."""
    return peak_of(lambda: processes(stack), every_s)


@contextmanager
def peak_of(roots: Callable[[], Iterable[int]], every_s: float = 0.5) -> Iterator[Peak]:
    """Measure processes and all that they started, each once, while the block runs, at its beginning and at its end. Reading
    takes processor time from the measured processes."""
    found = Peak()
    over = threading.Event()

    def measure() -> None:
        sizes = [size for process in set(with_descendants(roots())) if (size := taken_mb(process))]
        found.mb, found.processes = max(found.mb, sum(sizes)), max(found.processes, len(sizes))

    def watch() -> None:
        while not over.wait(every_s):
            measure()

    measure()
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
        measure()


def processes(stack: Stack) -> list[int]:
    """Return the emulator and its descendants."""
    return with_descendants([] if stack.pid is None else [stack.pid])


def with_descendants(roots: Iterable[int]) -> list[int]:
    """Return processes and all that they started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
            children.setdefault(parent, []).append(int(entry.name))
    found = list(roots)
    for process in found:  # the list grows during the iteration
        found += children.get(process, [])
    return found


def taken_mb(process: int) -> float:
    """Return the proportional memory (PSS) of a process in MB; 0 if it has ended."""
    try:
        sizes = Path(f"/proc/{process}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in sizes.splitlines() if line.startswith("Pss:")), 0.0)
