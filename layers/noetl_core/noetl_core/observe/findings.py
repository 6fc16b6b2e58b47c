"""Finds facts about an execution as a whole: its waits, dead ends, steps that did not run, and tolerated failures."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from noetl_core.dsl.model import Playbook
from noetl_core.engine.state import State, StepState
from noetl_core.engine.warnings import warnings_of
from noetl_core.events.aggregates import WarningGroup
from noetl_core.observe import sentences
from noetl_core.observe.why import Explanation

MAX_FINDINGS: Final = 10
"""Maximum number of findings of one kind."""


def find(e: Explanation) -> None:
    """Add the findings to an explanation."""
    _dead_ends(e)
    _stranded(e)
    for run in islice(e.account.waiting(), MAX_FINDINGS):
        e.waits(run, 0)


def _dead_ends(e: Explanation) -> None:
    """Find steps with arcs whose newest run ended well and fired none."""
    for run, count in e.account.dead_ends(e.playbook)[:MAX_FINDINGS]:
        e.dead_end(run, count)
    if e.account.unchecked:
        e.unread(f"whether {e.account.unchecked} more steps continued", 0, None)


def _stranded(e: Explanation) -> None:
    """Find tokens that reached a step and were never consumed; one for each step and kind."""
    seen: set[tuple[str, str, str]] = set()
    for token in e.account.stranded():
        key = token.step, token.fate, token.code
        late = token.code == "join" and "has already fired" in token.reason  # joins of any or count drop such tokens on purpose
        if key in seen or late or len(seen) > MAX_FINDINGS:
            continue
        seen.add(key)
        e.stranded(token)


def iterations(steps: Mapping[str, StepState]) -> list[tuple[str, str, list[int] | None]]:
    """Return each loop that continued although iterations failed, with a sentence and the first of its most frequent failure."""
    out = []
    for name, step in steps.items():
        if step.status != "ok" or step.loop is None or not step.loop["failed"]:
            continue
        counts = step.loop
        sentence = f"{counts['failed']:,} of {counts['total']:,} iterations of {name} failed"
        groups = sorted((step.iterations or {}).get("errors", ()), key=lambda g: -g["count"])[:3]
        words = []
        for group in groups:
            first = f" (first: {_index(group['first'])})" if group.get("first") is not None else ""
            words.append(f"{group['count']:,} x {group['kind']}: {group['message']}{first}")
        first_of_all = groups[0].get("first") if groups else None
        out.append((name, f"{sentence}: {sentences.listed(words)}" if words else sentence, first_of_all))
    return out


def warnings(state: State, playbook: Playbook) -> list[tuple[WarningGroup, str]]:
    """Return a sentence for each error that a policy tolerated, and for each undefined name that counted as empty."""
    groups = (group for group in warnings_of(state)["groups"] if group["code"] != "iteration_failed")
    return [(group, sentences.warning(group, _rules_that_did_not_fit(group, playbook))) for group in groups]


def _rules_that_did_not_fit(group: WarningGroup, playbook: Playbook) -> list[str]:
    """Return the conditions of the rules of a task whose error passed because none fits it; empty if one may have let it pass."""
    step = playbook.by_name.get(group.get("step", ""))
    task = None if step is None else next((each for each in step.tasks if each.name == group.get("task")), None)
    rules = () if task is None or task.policy is None else task.policy.rules
    if not all(rule.then.do in ("retry", "fail") for rule in rules):
        return []
    return [(rule.when or "").strip().removeprefix("{{").removesuffix("}}").strip() for rule in rules]


def _index(path: list[int]) -> str:
    return "@" + ".".join(map(str, path))


def status(state: State) -> str:
    """Return a sentence about the status; empty if there is nothing to add."""
    if state.status == "stuck":
        return f"the execution is stuck: {state.stuck}"
    if state.status == "paused":
        return "the execution is paused"
    if state.status in ("cancelled", "cancelling"):
        return "the execution was cancelled" + (f": {state.cancelled_for}" if state.cancelled_for else "")
    return ""
