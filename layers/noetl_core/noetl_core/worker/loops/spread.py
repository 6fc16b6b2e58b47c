"""Decides when the worker of a loop hands over the iterations that it has not begun (docs/decisions.md, "A loop spreads while it
runs")."""

from __future__ import annotations

from noetl_core.dsl.model import Loop
from noetl_core.engine.loops import SpreadRule
from noetl_core.values.instants import SECOND
from noetl_core.worker.activation import SPARE_S, Activation
from noetl_core.worker.loops.processor import processor_seconds, processors
from noetl_core.worker.run_tree import LoopNode

MIN_ITERATIONS = 2
"""Fewer iterations than this are not worth a hand-over."""


def may_spread(activation: Activation, loop: Loop) -> bool:
    """Return whether the iterations of a step's loop may be handed over: they must be independent, and the queue must help.

    Iterations of a sequential loop see each other's writes. With one in flight nothing is gained.
    """
    return loop.cursor is None and activation.chunk is None and loop.mode == "parallel" and loop.exec in (None, "auto")


class LoopSpread:
    """Measures the iterations of the step's loop, and decides when the rest is handed over."""

    def __init__(self, activation: Activation, node: LoopNode, rule: SpreadRule) -> None:
        self._activation, self.node, self._rule = activation, node, rule
        self._from = max((*node.finished, *node.begun), default=-1) + 1
        """First index that no earlier activation has begun. Iterations before it are not handed over."""
        self._since: dict[int, int] = {}
        self._took, self._ran = 0, 0
        self._measured_from = activation.clock.now()
        self._sample: tuple[int, float] | None = None
        """The instant of the last measurement of processor time, and its value."""
        self.busy = False
        """True if the processor limits the iterations."""
        self.decided = False

    def record_start(self, index: int) -> None:
        self._since[index] = self._activation.clock.now()

    def record_end(self, index: int) -> None:
        since = self._since.pop(index, None)
        if since is not None:
            self._took, self._ran = self._took + self._activation.clock.now() - since, self._ran + 1

    @property
    def seconds(self) -> float:
        """Mean seconds per iteration, including waits for the others."""
        return self._took / SECOND / max(1, self._ran)

    @property
    def pace(self) -> float:
        """Seconds between the ends of two iterations."""
        return (self._activation.clock.now() - self._measured_from) / SECOND / max(1, self._ran)

    @property
    def seconds_left(self) -> float:
        """Estimated seconds for the iterations that have not begun, if they run here."""
        return (len(self.node.items) - self.node.next) * self.seconds / self.node.limit

    def stops_new(self) -> bool:
        """Return whether no further iteration begins here. Decided once; running iterations end here."""
        node = self.node
        if not self.decided and self._ran and node.limit > 1 and node.next >= self._from and not node.stopping:
            now = self._activation.clock.now()
            if len(node.items) - node.next >= MIN_ITERATIONS and now - self._measured_from >= self._rule.measured_s * SECOND:
                self.decided = self._too_long(now)
        return self.decided

    def _too_long(self, now: int) -> bool:
        """Return whether the remaining iterations take too long here."""
        left = self.seconds_left
        if left > self._rule.left_s and self._is_busy(now):
            return True
        return left > self._activation.invocation.left_s(now) - SPARE_S

    def _is_busy(self, now: int) -> bool:
        """Return whether the iterations are limited by the processor. Measured over at least a second, so that a short loop never
        pays for it."""
        if not self._rule.busy:
            self.busy = True
        elif self._sample is None:
            self._sample = (now, processor_seconds())
        elif now >= self._sample[0] + SECOND:
            before, used = self._sample
            self._sample = (now, processor_seconds())
            self.busy = self._sample[1] - used >= self._rule.busy * processors() * (now - before) / SECOND
        return self.busy

    def postpone(self) -> None:
        """Continue here and measure again, because the running iterations all wait."""
        self.decided, self._measured_from = False, self._activation.clock.now()
        self._took = self._ran = 0
