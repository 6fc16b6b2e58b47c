"""Writes facts about an execution as sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from noetl_core.dsl.model import Join
from noetl_core.observe.account import UNREAD
from noetl_core.values.instants import to_rfc3339

if TYPE_CHECKING:
    from noetl_core.api.shapes import why as why_shapes

MOST_VALUES: Final = 2
"""Maximum number of values or conditions that a sentence lists."""
NOT_READ: Final = "decided in a part of the log that is not read"


def listed(names: Sequence[str]) -> str:
    """Return `a, b and c`, each once."""
    once = list(dict.fromkeys(names))
    return " and ".join(part for part in (", ".join(once[:-1]), *once[-1:]) if part)


def reads(guard: why_shapes.Guard) -> str:
    """Return the values that a condition read."""
    words = []
    for read in guard["reads"]:
        hint = f", {read['hint']}" if read.get("hint") else ""
        words.append(f"{read['name']} is {read['value']}{hint}")
    return f" ({'; '.join(words)})" if words else ""


def judged(guard: why_shapes.Guard) -> str:
    """Return `` `ctx.n > 5` is false (ctx.n is 1)``."""
    if guard["holds"] is None:
        return f"`{guard['when']}` failed: {guard.get('error', 'its values are no longer available')}{reads(guard)}"
    return f"`{guard['when']}` is {str(guard['holds']).lower()}{reads(guard)}"


def arc(fact: why_shapes.Arc, *, failed: bool) -> str:
    """Return a sentence about the evaluation of an arc."""
    to = f"the arc to {fact['target']}"
    if fact.get("not_looked_at"):
        return f"{to} was not evaluated: one arc is chosen, and an earlier one fired"
    if "guard" in fact:
        return f"{to} {'fired' if fact['fired'] else 'did not fire'}: {judged(fact['guard'])}"
    if fact["fired"]:
        return f"{to} fired: it has no condition"
    return f"{to} did not fire: " + (
        "an arc without a condition fires only where the step ended well" if failed else "the arcs could not be evaluated"
    )


def decided(step: str, targets: Sequence[str]) -> str:
    """Return which arcs fired, without the evaluations."""
    return f"of the arcs of {step}, the one to {listed(targets)} fired" if targets else f"no arc of {step} fired"


def no_arc(step: str, arcs: Sequence[why_shapes.Arc], *, failed: bool) -> str:
    """Return why no arc of a step fired."""
    read = {each["name"]: each["value"] for one in arcs for each in one.get("guard", {}).get("reads", ())}
    values = listed([f"{name} {value}" for name, value in read.items()][:MOST_VALUES])
    why = f"no condition of its arcs fits {values}" if values else "none of its arcs fired"
    if len(arcs) == 1 and "guard" in arcs[0]:
        return f"nothing ran after {step}, because {why}: {judged(arcs[0]['guard'])}"
    return f"nothing ran after {step}, because {why}: " + "; ".join(arc(each, failed=failed) for each in arcs)


def wait(fact: Mapping[str, Any]) -> str:
    """Return the wait of a run."""
    task = f"task {fact['task']} " if fact.get("task") else ""
    of = f"of iteration {fact['iteration']} " if fact.get("iteration") else ""
    until = f" until {to_rfc3339(fact['at'])}" if fact.get("at") else ""
    match fact["kind"]:
        case "timer" if fact.get("outside"):
            return f"{task}{of}runs outside the engine, and is checked again{until.replace(' until', ' at')}"
        case "timer":
            return f"{task}{of}waits{until}"
        case "callback":
            about = f" ({fact['description']})" if fact.get("description") else ""
            return f"{task}{of}waits{until} for an answer to its callback{about}"
        case "signal":
            about = f" ({fact['description']})" if fact.get("description") else ""
            return f"{task}{of}waits{until} for the signal {fact.get('signal')}{about}"
        case "child":
            return f"{task}{of}waits{until} for the execution {fact.get('child')}" + (
                f" of {fact['path']}" if fact.get("path") else ""
            )
        case "deadline":
            return f"{task}{of}continues in another invocation"
        case _:
            return f"{task}{of}stopped between two tasks, because the execution is paused"


def limit(fact: Mapping[str, Any]) -> str:
    """Return `waits for limit orders 5/5 since ..., 12th in line; held by 1, 2, ...`."""
    places = f" {fact['held']}/{fact['max']}" if "held" in fact else ""
    place = f", {nth(fact['position'])} in line" if "position" in fact else ""
    more = ", ..." if fact.get("held", 0) > len(fact.get("held_by", ())) else ""
    held = f"; held by {', '.join(fact['held_by'])}{more}" if fact.get("held_by") else ""
    return f"waits for limit {fact['limit']}{places} since {fact['since']}{place}{held}"


def warning(group: Mapping[str, Any], rules: Sequence[str] = ()) -> str:
    """Return `load/fetch failed, and its policy let it pass: auth: 401` or `load/b: x is undefined in /orders/{{ x }}`.
    `rules`: the conditions of the policy's rules, if the error passed because none fits it."""
    where = "/".join(group[key] for key in ("step", "task") if key in group)
    first = f" @{'.'.join(map(str, group['iteration']))}" if group.get("iteration") else ""
    times = f" ({group['count']:,} times{f', first:{first}' if first else ''})" if group["count"] > 1 else ""
    place = where if times else f"{where}{first}"
    if group["code"] == "undefined":
        return f"{place + ': ' if place else ''}{group['message']}: it counted as empty{times}"
    error = f"{group['kind']}: {group['message']}"
    if group["code"] == "iteration_failed":
        return f"an iteration of {place} failed, and its loop continued: {error}{times}"
    if rules:
        only = listed([*rules[:MOST_VALUES], *(["others"] if len(rules) > MOST_VALUES else [])])
        why = f"its policy has no rule for this, only for {only}"
        return f"{place} failed: {group['message']}{times}; the run went on, because {why}"
    return f"{place} failed, and its policy let it pass: {error}{times}"


def nth(number: int) -> str:
    """Return `1st`, `2nd`, `12th`."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def join(rule: Join) -> str:
    """Return a join in words."""
    return {"all": "join all", "any": "join any"}.get(rule.mode, f"join of {rule.count} tokens")


def run(step: str, status: str) -> str:
    """Return the outcome of a run."""
    came_to = {"ok": "ran and ended well", "error": "ran and failed", UNREAD: f"ran; its end was {NOT_READ}"}
    return f"{step} {came_to.get(status, 'is in progress')}"
