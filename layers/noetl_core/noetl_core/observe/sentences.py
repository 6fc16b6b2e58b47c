"""Facts about an execution in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from noetl_core.dsl.model import Join
from noetl_core.observe.account import UNREAD
from noetl_core.values.instants import to_rfc3339

if TYPE_CHECKING:
    from noetl_core.api.shapes import why as why_shapes

NOT_READ: Final = "decided in a part of the log that is not read"


def listed(names: Sequence[str]) -> str:
    """Return `a, b and c`, each once."""
    once = list(dict.fromkeys(names))
    return " and ".join(part for part in (", ".join(once[:-1]), *once[-1:]) if part)


def reads(guard: why_shapes.Guard) -> str:
    """Return what a condition read."""
    words = []
    for read in guard["reads"]:
        hint = f", {read['hint']}" if read.get("hint") else ""
        words.append(f"{read['name']} is {read['value']}{hint}")
    return f" ({'; '.join(words)})" if words else ""


def judged(guard: why_shapes.Guard) -> str:
    """Return `` `ctx.n > 5` is false (ctx.n is 1)``."""
    if guard["holds"] is None:
        return f"`{guard['when']}` failed: {guard.get('error', 'what it reads is not there any more')}{reads(guard)}"
    return f"`{guard['when']}` is {str(guard['holds']).lower()}{reads(guard)}"


def arc(said: why_shapes.Arc, *, failed: bool) -> str:
    """Return what became of an arc."""
    to = f"the arc to {said['target']}"
    if said.get("not_looked_at"):
        return f"{to} was not looked at: one arc is chosen, and another one before it fired"
    if "guard" in said:
        return f"{to} {'fired' if said['fired'] else 'did not fire'}: {judged(said['guard'])}"
    if said["fired"]:
        return f"{to} fired: it has no condition"
    return f"{to} did not fire: " + (
        "an arc without a condition fires only where the step ended well" if failed else "the arcs could not be evaluated"
    )


def decided(step: str, targets: Sequence[str]) -> str:
    """Return which arcs fired, without what was judged."""
    return f"of the arcs of {step}, the one to {listed(targets)} fired" if targets else f"no arc of {step} fired"


def no_arc(step: str, arcs: Sequence[why_shapes.Arc], *, failed: bool) -> str:
    """Return why no arc of a step fired."""
    if len(arcs) == 1 and "guard" in arcs[0]:
        return f"no arc of {step} fired: {judged(arcs[0]['guard'])}"
    return f"no arc of {step} fired: " + "; ".join(arc(each, failed=failed) for each in arcs)


def wait(said: Mapping[str, Any]) -> str:
    """Return for what a run waits."""
    task = f"task {said['task']} " if said.get("task") else ""
    of = f"of iteration {said['iteration']} " if said.get("iteration") else ""
    until = f" until {to_rfc3339(said['at'])}" if said.get("at") else ""
    match said["kind"]:
        case "timer" if said.get("outside"):
            return f"{task}{of}works outside, and is looked at again{until.replace(' until', ' at')}"
        case "timer":
            return f"{task}{of}waits{until}"
        case "callback":
            about = f" ({said['description']})" if said.get("description") else ""
            return f"{task}{of}waits{until} for an answer to its callback{about}"
        case "signal":
            about = f" ({said['description']})" if said.get("description") else ""
            return f"{task}{of}waits{until} for the signal {said.get('signal')}{about}"
        case "child":
            return f"{task}{of}waits{until} for the execution {said.get('child')}" + (
                f" of {said['path']}" if said.get("path") else ""
            )
        case "deadline":
            return f"{task}{of}goes on in another invocation"
        case _:
            return f"{task}{of}stopped between two tasks, because the execution is paused"


def limit(said: Mapping[str, Any]) -> str:
    """Return `waits for limit orders 5/5 since ..., 12th of those that wait; held by 1, 2, ...`."""
    places = f" {said['held']}/{said['max']}" if "held" in said else ""
    place = f", {nth(said['position'])} of those that wait" if "position" in said else ""
    more = ", ..." if said.get("held", 0) > len(said.get("held_by", ())) else ""
    held = f"; held by {', '.join(said['held_by'])}{more}" if said.get("held_by") else ""
    return f"waits for limit {said['limit']}{places} since {said['since']}{place}{held}"


def warning(group: Mapping[str, Any]) -> str:
    """Return `load/fetch failed, and its policy went on: auth: 401` or `load/b: x is undefined in /orders/{{ x }}`."""
    where = "/".join(group[key] for key in ("step", "task") if key in group)
    first = f" @{'.'.join(map(str, group['iteration']))}" if group.get("iteration") else ""
    times = f" ({group['count']:,} times{f', first:{first}' if first else ''})" if group["count"] > 1 else ""
    place = where if times else f"{where}{first}"
    if group["code"] == "undefined":
        return f"{place + ': ' if place else ''}{group['message']}: it counted as empty{times}"
    said = f"{group['kind']}: {group['message']}"
    if group["code"] == "iteration_failed":
        return f"an iteration of {place} failed, and its loop went on: {said}{times}"
    return f"{place} failed, and its policy let it pass: {said}{times}"


def nth(number: int) -> str:
    """`1st`, `2nd`, `12th`."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def join(rule: Join) -> str:
    """Return a join in words."""
    return {"all": "join all", "any": "join any"}.get(rule.mode, f"join of {rule.count} tokens")


def run(step: str, status: str) -> str:
    """Return what a run came to."""
    came_to = {"ok": "ran and ended well", "error": "ran and failed", UNREAD: f"ran; its end was {NOT_READ}"}
    return f"{step} {came_to.get(status, 'is under way')}"
