"""Carries out executions of the local store that a page started or woke."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from noetl_core.ports import NotFound, PortError
from noetl_core.runtime.local import LocalWiring
from noetl_core.runtime.local_runner import Interrupted

AT_ONCE = 100
"""The most executions that are carried out concurrently, including those that wait for an answer; further ones begin when one
ends."""


class Carrier:
    """Carries out executions until they end or cannot continue, each with its own wiring and thread, so that none waits for
    another. Thread-safe."""

    def __init__(self, wiring: Callable[[], LocalWiring]) -> None:
        self._wiring = wiring
        self._lock = threading.Lock()
        self._carried: dict[str, LocalWiring | None] = {}
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._closed = False

    def carry(self, execution_id: str) -> None:
        """Begin to carry out an execution, or wake the thread that does."""
        with self._lock:
            wiring = self._carried.get(execution_id)
            if self._closed:
                return
            if execution_id not in self._carried:
                self._carried[execution_id] = None
                threading.Thread(
                    target=self._carry_out, args=(execution_id,), name=f"execution {execution_id}", daemon=True
                ).start()
        if wiring is not None:
            with wiring.queue.changed:
                wiring.queue.changed.notify_all()

    def close(self) -> None:
        """Stop carrying out executions: their leases are released, and `noetl resume` continues them."""
        with self._lock:
            self._closed = True
            held = [wiring for wiring in self._carried.values() if wiring is not None]
        for wiring in held:
            wiring.runner.leave("the console ended")

    def _carry_out(self, execution_id: str) -> None:
        with self._places:
            wiring = self._wiring()
            try:
                with self._lock:
                    self._carried[execution_id] = wiring
                    if self._closed:
                        return
                wiring.runner.adopt(execution_id)
                wiring.run(execution_id)
            except Interrupted:
                pass  # raised because of `close`
            except (NotFound, PortError) as error:
                print(f"execution {execution_id} is not carried out: {error}", file=sys.stderr)
            finally:
                with self._lock:
                    del self._carried[execution_id]
                wiring.close()
