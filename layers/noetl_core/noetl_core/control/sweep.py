"""The sweeper: whatever stopped moving, found by the due index, and the timer service (DESIGN section 4 "Sweeper").

With the stream and every queue message lost, executions still complete by this alone, only slower. One execution's trouble is
its own: it is moved on in the index before it is looked at, so that a look that kills its process does not come first again for
ever; and after some looks that did not end, or a log that does not read, it is marked stuck.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from noetl_core.control.core import SECOND, Control
from noetl_core.control.look import AGAIN_S, LOOK_EVERY_S, Swept, look
from noetl_core.control.unreadable import mark_stuck
from noetl_core.engine.decide import Fact
from noetl_core.ports import CorruptLog, NewerLog, Unavailable

__all__ = ["Swept", "look", "look_safely", "sweep"]

log = logging.getLogger(__name__)

MAX_LOOKS = 5
"""Looks in a row that did not end, after which an execution is marked stuck: some ten minutes."""
HANDED = 100
"""Executions handed to the router at a time."""


def sweep(control: Control, until: int | None = None, mine: Callable[[str], bool] | None = None) -> Swept:
    """Look at every execution that is due (and `mine`) until `until` (microseconds; None: until all are looked at).

    When half of the time is gone, the rest is handed to the router, of which there are as many as it takes.
    """
    began = control.clock.now()
    alone_until = None if until is None else began + (until - began) // 2
    swept, handed = Swept(), list[str]()
    for due in control.index.due(began):
        now = control.clock.now()
        if until is not None and now >= until:
            break
        if mine is not None and not mine(due.execution_id):
            continue
        again_at = now + AGAIN_S * SECOND
        looks = control.index.claim_due(due, again_at)
        if looks is None:
            continue  # somebody else has just looked, or it has ended
        if looks > MAX_LOOKS:
            log.error("execution %s is given up: no look at it ends", due.execution_id)
            mark_stuck(
                control, due.execution_id, f"{MAX_LOOKS} looks at it in a row did not end; the functions' logs have the errors"
            )
        elif alone_until is None or now < alone_until:
            swept = look_safely(control, due.execution_id, swept.plus(looked=1), looks, again_at)
        else:
            handed.append(due.execution_id)
            if len(handed) % HANDED == 0:
                control.queue.wake(*handed[-HANDED:])
    if rest := len(handed) % HANDED:
        control.queue.wake(*handed[-rest:])
    return swept.plus(handed=len(handed))


def look_safely(control: Control, execution_id: str, swept: Swept, looks: int = 1, again_at: int | None = None) -> Swept:
    """`look`; what goes wrong is logged and remembered with its execution, and raised to nobody."""
    try:
        return look(control, execution_id, swept, again_at)
    except CorruptLog as error:
        log.exception("execution %s is stuck: its log does not read", execution_id)
        mark_stuck(control, execution_id, str(error))
    except NewerLog as error:
        log.warning("execution %s waits for newer code: %s", execution_id, error)
        control.index.set_due(execution_id, control.clock.now() + LOOK_EVERY_S * SECOND)
    except Unavailable:
        log.exception("execution %s could not be looked at; it is tried again", execution_id)
        control.index.set_due(execution_id, control.clock.now() + LOOK_EVERY_S * SECOND)
    except Exception as error:  # a bug: whatever it is, it is this execution's, and the others go on
        log.exception("looking at execution %s failed, %d time(s) in a row", execution_id, looks)
        if looks >= MAX_LOOKS:
            give_up(control, execution_id, f"{type(error).__name__}: {error}")
    return swept.plus(broken=1)


def give_up(control: Control, execution_id: str, why: str) -> None:
    """Mark it stuck: in its log, and in its head alone where that cannot be. `resume` tries again."""
    try:
        control.route(execution_id, facts=[Fact("stuck", {"reason": why})])
    except Exception:  # what went wrong before goes wrong here too
        log.exception("execution %s is marked stuck in its head alone", execution_id)
        mark_stuck(control, execution_id, why)
    else:
        control.index.clear_due(execution_id)
