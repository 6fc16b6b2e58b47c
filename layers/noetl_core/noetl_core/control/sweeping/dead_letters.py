"""Handles dead letters: messages that a queue gave up after repeated failures."""

from __future__ import annotations

import logging

from noetl_core.control.core import Control
from noetl_core.control.fence import boundary_of
from noetl_core.control.sweeping.sweep import mark_stuck
from noetl_core.control.unreadable_logs import mark_head_stuck
from noetl_core.engine.ids import trigger_of
from noetl_core.engine.records import StreamId
from noetl_core.engine.state import State
from noetl_core.engine.statuses import TERMINAL
from noetl_core.ports import CorruptLog, DeadLetter, NewerLog

log = logging.getLogger(__name__)


def handle_dead_letter(control: Control, letter: DeadLetter) -> None:
    """Handle a dead letter, after which it may be deleted.

    A command that no worker could carry out marks its execution stuck. A duplicate command is ignored: its run has ended, is
    suspended, or has a worker's commit at the position where the command was to begin. A dead wake makes its execution due; the
    sweeper reconciles it and counts attempts that do not end. Raises `Unavailable`: keep the letter.
    """
    execution_id = letter.execution_id
    try:
        if letter.run_id is None:
            _wake(control, execution_id)
            return
        state = control.load(execution_id)
        if state.seq >= 0 and not state.finished and _is_wanted(control, state, letter):
            what = f"the command of step {letter.step} (run {letter.run_id}) failed again and again"
            log.error("execution %s is stuck: %s", execution_id, what)
            mark_stuck(control, execution_id, f"{what}; the functions' logs have the errors")
    except CorruptLog as error:
        log.error("execution %s is stuck: its log is unreadable: %s", execution_id, error)
        mark_head_stuck(control, execution_id, str(error))
        control.index.clear_due(execution_id)
    except NewerLog:
        log.warning("a dead letter of execution %s is left to the newer version that wrote its log", execution_id)
        control.index.set_due(execution_id, control.clock.now())


def _wake(control: Control, execution_id: str) -> None:
    if trigger_of(execution_id) is not None:
        return  # its trigger stays in the due index
    head = control.index.head(execution_id)
    if head is None:
        log.error("dead letter of unknown execution %s", execution_id)
    elif head.status not in TERMINAL and head.status != "stuck":
        control.index.set_due(execution_id, control.clock.now())


def _is_wanted(control: Control, state: State, letter: DeadLetter) -> bool:
    """Return whether the run still waits for this command, or for a replacement."""
    run = state.runs.get(letter.run_id or "")
    if run is None or run.status != "scheduled" or run.expected_seq > letter.expected_seq or state.status != "running":
        return False
    last = control.store.last(StreamId(state.execution_id, run.id))
    return last is None or (last.seq < letter.expected_seq and (last.seq <= run.handled_seq or boundary_of(last) is None))
