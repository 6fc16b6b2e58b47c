"""The lease heartbeat: one thread that renews the leases of all activations of a process while their tasks run."""

from __future__ import annotations

import logging
import threading
from typing import Protocol

log = logging.getLogger(__name__)

HEARTBEAT_EVERY_S = 0.5


class Leaseholder(Protocol):
    """A run in progress whose lease can be renewed and whose tasks' output can be shown."""

    def renew_lease(self) -> None: ...

    def show_output(self) -> None: ...


class LeaseHeartbeat:
    """Calls `renew_lease` and `show_output` of every registered leaseholder about twice a second. The thread starts with the
    first leaseholder, sleeps while there is none, and ends with `close`."""

    def __init__(self) -> None:
        self._holders: set[Leaseholder] = set()
        self._lock = threading.Lock()
        self._some = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, holder: Leaseholder) -> None:
        with self._lock:
            self._holders.add(holder)
            if not self._some.is_set():
                self._some.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lease heartbeat", daemon=True)
                self._thread.start()

    def remove(self, holder: Leaseholder) -> None:
        with self._lock:
            self._holders.discard(holder)

    def close(self) -> None:
        """End the thread; no lease is renewed any more."""
        self._closed.set()
        self._some.set()

    def _run(self) -> None:
        while True:
            self._some.wait()
            if self._closed.wait(HEARTBEAT_EVERY_S):  # no `time.sleep`, which fails where the clock is faked
                return
            with self._lock:
                holders = list(self._holders)
                if not holders:
                    self._some.clear()
            for holder in holders:
                try:
                    holder.renew_lease()
                    holder.show_output()
                except Exception:  # one run's trouble must not end the leases of the others
                    log.exception("a heartbeat failed; the run's lease may end")
