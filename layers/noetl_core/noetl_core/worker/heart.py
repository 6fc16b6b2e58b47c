"""One thread that beats for every activation of a process while their tasks run."""

from __future__ import annotations

import logging
import threading
from typing import Protocol

log = logging.getLogger(__name__)

BEAT_S = 0.5


class Beats(Protocol):
    def beat(self) -> None: ...


class Heart:
    """Calls `beat` of what is being run about twice a second. The thread starts with the first and sleeps without any."""

    def __init__(self) -> None:
        self._watched: set[Beats] = set()
        self._lock = threading.Lock()
        self._some = threading.Event()
        self._pause = threading.Event()  # never set: `time.sleep` fails where the clock is faked
        self._thread: threading.Thread | None = None

    def add(self, watched: Beats) -> None:
        with self._lock:
            self._watched.add(watched)
            self._some.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="heart", daemon=True)
                self._thread.start()

    def remove(self, watched: Beats) -> None:
        with self._lock:
            self._watched.discard(watched)
            if not self._watched:
                self._some.clear()

    def _beat(self) -> None:
        while True:
            self._some.wait()
            self._pause.wait(BEAT_S)
            with self._lock:
                watched = list(self._watched)
            for one in watched:
                try:
                    one.beat()
                except Exception:  # one run's trouble must not end the leases of the others
                    log.exception("a heartbeat failed; the run's lease may end")
