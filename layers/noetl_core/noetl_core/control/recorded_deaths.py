"""Records the deaths of processes during an evaluation in the logs of their executions."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from noetl_core.control.core import Control
from noetl_core.control.deaths import next_attempt

log = logging.getLogger(__name__)


def record_deaths(control: Control, executions: Iterable[str]) -> int:
    """Record that a process died while it evaluated templates of `executions`.

    Return the number of executions marked. It raises nothing: a failed mark must not keep others from starting.
    """
    marked = 0
    for execution_id in executions:
        try:
            state = control.load(execution_id)
            if state.seq < 0:
                log.error("a process died while it evaluated the start of execution %s; nothing was stored", execution_id)
                continue
            log.error("a process died while it evaluated templates of execution %s", execution_id)
            if state.finished or state.status in ("stuck", "cancelling"):
                continue
            control.route(execution_id, facts=[next_attempt(state)])
            control.queue.wake(execution_id)
            marked += 1
        except Exception:  # whatever the error, the process starts
            log.exception("the death of a process for execution %s was not recorded", execution_id)
    return marked
