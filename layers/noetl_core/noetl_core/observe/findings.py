"""What an execution as a whole came to: what it waits for, where it ended without going on, what did not run, what failed and was
let pass."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from noetl_core.engine.state import State, StepState
from noetl_core.engine.warnings import warnings_of
from noetl_core.events.aggregates import WarningGroup
from noetl_core.observe import sentences
from noetl_core.observe.why import Explanation

MOST: Final = 10
"""Findings of one sort that are listed."""


def find(e: Explanation) -> None:
    """Add the findings to an explanation."""
    _dead_ends(e)
    _stranded(e)
    for run in islice(e.account.waiting(), MOST):
        e.waits(run, 0)


def _dead_ends(e: Explanation) -> None:
    """Steps that ended well, have arcs, and of whose newest run none fired."""
    for run, count in e.account.dead_ends(e.playbook)[:MOST]:
        e.dead_end(run, count)
    if e.account.unchecked:
        e.unread(f"whether {e.account.unchecked} more steps went on", 0, None)


def _stranded(e: Explanation) -> None:
    """Tokens that came to a step and were never consumed; one of each step and sort."""
    seen: set[tuple[str, str, str]] = set()
    for token in e.account.stranded():
        key = token.step, token.fate, token.code
        late = token.code == "join" and "has already fired" in token.reason  # what a join of any or count drops is meant so
        if key in seen or late or len(seen) > MOST:
            continue
        seen.add(key)
        e.stranded(token)


def iterations(steps: Mapping[str, StepState]) -> list[tuple[str, str]]:
    """Return a sentence for each loop that went on although iterations failed."""
    out = []
    for name, step in steps.items():
        if step.status != "ok" or step.loop is None or not step.loop["failed"]:
            continue
        counts = step.loop
        told = f"{counts['failed']:,} of {counts['total']:,} iterations of {name} failed"
        groups = (step.iterations or {}).get("errors", ())
        words = []
        for group in sorted(groups, key=lambda g: -g["count"])[:3]:
            first = f" (first: {_index(group['first'])})" if group.get("first") is not None else ""
            words.append(f"{group['count']:,} x {group['kind']}: {group['message']}{first}")
        out.append((name, f"{told}: {sentences.listed(words)}" if words else told))
    return out


def warnings(state: State) -> list[tuple[WarningGroup, str]]:
    """Return a sentence for each error that a policy let pass, and for each undefined name that counted as empty."""
    groups = (group for group in warnings_of(state)["groups"] if group["code"] != "iteration_failed")
    return [(group, sentences.warning(group)) for group in groups]


def _index(path: list[int]) -> str:
    return "@" + ".".join(map(str, path))


def status(state: State) -> str:
    """Return a sentence about the status; empty where there is nothing to add."""
    if state.status == "stuck":
        return f"the execution is stuck: {state.stuck}"
    if state.status == "paused":
        return "the execution is paused"
    if state.status in ("cancelled", "cancelling"):
        return "the execution was cancelled" + (f": {state.cancelled_for}" if state.cancelled_for else "")
    return ""
