"""`retry` beside a task -> a rule of its policy (formal specification 6; canonical step spec 9)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from noetl_core.dsl.dialect.conditions import FAILED, STATUS, Subject, all_of, any_of, braced, expression_of, literal, negated
from noetl_core.dsl.dialect.edits import Edits
from noetl_core.dsl.dialect.policies import add_rules, has_rules
from noetl_core.dsl.dialect.scalars import number, seconds
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.expr import is_template

SPELLINGS: Final[Mapping[str, str]] = {
    "attempts": "attempts", "max_attempts": "attempts", "tries": "attempts", "max_tries": "attempts", "count": "attempts",
    "retries": "retries", "max_retries": "retries",
    "delay": "delay", "initial_delay": "delay", "delay_seconds": "delay", "interval": "delay", "retry_delay": "delay",
    "initial_delay_seconds": "delay", "wait": "delay", "backoff_seconds": "delay",
    "max_delay": "max_delay", "max_delay_seconds": "max_delay", "max_backoff": "max_delay", "max_interval": "max_delay",
    "backoff": "backoff", "strategy": "backoff", "backoff_type": "backoff",
    "backoff_multiplier": "backoff_multiplier", "multiplier": "backoff_multiplier", "backoff_factor": "backoff_multiplier",
    "backoff_rate": "backoff_multiplier", "factor": "backoff_multiplier",
    "jitter": "jitter",
    "retry_when": "when", "when": "when", "condition": "when", "retry_if": "when", "if": "when",
    "stop_when": "until", "until": "until", "stop_if": "until",
    "statuses": "statuses", "status_codes": "statuses", "on_status": "statuses", "retry_on_status": "statuses",
    "retry_on_status_codes": "statuses", "http_statuses": "statuses",
    "on": "on", "retry_on": "on", "on_errors": "on", "error_kinds": "on", "errors": "on",
    "enabled": "enabled",
}  # fmt: skip
"""Spellings that authors use for the parts of a retry -> the parts."""
_BACKOFFS: Final[Mapping[str, str]] = {
    **{word: word for word in ("none", "linear", "exponential")},
    "fixed": "none", "constant": "none", "exp": "exponential", "expo": "exponential", "exponential_jitter": "exponential",
}  # fmt: skip
_PAGES: Final = frozenset({"on_success", "on_error", "next_call", "while", "collect", "then"})
_KIND: Final = re.compile(r"[a-z_]+\Z")
_RETRY_AFTER: Final = 'delay: "{{ outcome.http.retry_after | default(2) }}" waits as long as the service says'
_HINT: Final = "spec: { policy: { rules: [{ when: ..., then: { do: retry, attempts: 3 } }] } }"


def rewrite_retry(e: Edits, task: Node, subject: Subject, what: str) -> None:
    """Replace `retry` by a rule in front of the task's own rules."""
    r = e.r
    node = task.value["retry"]
    parts = _parts(r, node, what)
    if parts is None:
        e.remove(task, "retry")
        return
    own = has_rules(task)
    rule = _rule(r, parts, node, subject, what, own=own)
    near = (task, "retry")
    if rule is not None:
        add_rules(e, task, [rule], near, subject.policy)
    e.remove(task, "retry")


def _parts(r: Reader, node: Node, what: str) -> dict[str, Node] | None:
    """Return the parts of a retry by their meaning; None for a retry that is disabled, or was reported."""
    value = node.value
    if value is None or value is False or number(value) == 0:
        return None
    if value is True:
        return {}
    if isinstance(value, int | float) or (isinstance(value, str) and (is_template(value) or number(value) is not None)):
        return {"attempts": node}
    if not isinstance(value, dict):
        r.report("E112", node, f"retry of {what} must be a number of attempts or a mapping, not {r.word(node)}", _HINT)
        return None
    out: dict[str, Node] = {}
    for key, child in value.items():
        if key in _PAGES:
            message = f'"{key}" in retry of {what} asks for another call: retrying repeats the same one'
            r.report("E114", (node, key), message, "request the next page with a rule that jumps back: do: jump")
            return None
        meaning = SPELLINGS.get(key)
        if meaning is None:
            if not key.startswith("x-"):
                r.report(
                    "E110",
                    (node, key),
                    f'unknown key "{key}" in retry of {what}',
                    suggest(key, SPELLINGS) if "after" not in key else _RETRY_AFTER,
                )
        elif meaning in out:
            r.report("E114", (node, key), f"retry of {what} says {meaning} twice", "keep one")
        else:
            out[meaning] = child
    enabled = out.pop("enabled", None)
    none = "attempts" in out and number(out["attempts"].value) == 0
    return None if none or (enabled is not None and enabled.value is False) else out


def _rule(r: Reader, parts: Mapping[str, Node], node: Node, subject: Subject, what: str, *, own: bool) -> dict[str, Any] | None:
    place = f"retry of {what}"
    attempts = _attempts(r, parts, place)
    when = _when(r, parts, place, subject)
    if when is None:
        return None
    then: dict[str, Any] = {"do": "retry", "attempts": attempts}
    custom = "when" in parts or "until" in parts
    if own or custom:
        guard = (
            f"_attempt < {attempts}" if not isinstance(attempts, str) else f"_attempt < ({attempts.strip()[2:-2].strip()}) | int"
        )
        when = all_of(when, guard)
    backoff, multiplier = _backoff(r, parts, place)
    if backoff != "none":
        then["backoff"] = backoff
    for key in ("delay", "max_delay"):
        if key in parts:
            then[key] = seconds(parts[key].value)
    if multiplier is not None:
        then["backoff_multiplier"] = multiplier
    if "jitter" in parts:
        then["jitter"] = parts["jitter"].value
    return {"when": braced(when), "then": then}


def _attempts(r: Reader, parts: Mapping[str, Node], place: str) -> Any:
    node = parts.get("attempts")
    if node is not None:
        count = number(node.value)
        return node.value if count is None else count
    node = parts.get("retries")
    if node is None:
        return 3
    count = number(node.value)
    if count is not None:
        return count + 1
    if is_template(node.value):
        return f"{{{{ ({node.value.strip()[2:-2].strip()}) | int + 1 }}}}"
    r.report("E112", node, f"retries of {place} must be a number, not {r.word(node)}")
    return 3


def _backoff(r: Reader, parts: Mapping[str, Node], place: str) -> tuple[str, Any]:
    """Return the form in which the delay grows, and its factor."""
    node, factor = parts.get("backoff"), parts.get("backoff_multiplier")
    multiplier = None if factor is None else number(factor.value)
    if factor is not None and multiplier is None:
        r.report("E112", factor, f"backoff_multiplier of {place} must be a number, not {r.word(factor)}")
    if multiplier is not None and multiplier <= 1:
        return ("none" if node is None else _BACKOFFS.get(str(node.value), "none")), None
    if node is None:
        return ("none" if multiplier is None else "exponential"), multiplier
    if isinstance(node.value, bool):
        return ("exponential" if node.value else "none"), multiplier if node.value else None
    growth = number(node.value)
    if growth is not None:  # `backoff: 2.0` is a factor
        return ("exponential", growth) if growth > 1 else ("none", None)
    form = _BACKOFFS.get(str(node.value).lower())
    if form is None:
        r.choice(node, sorted(_BACKOFFS), f"backoff of {place}")
        return "none", None
    return form, multiplier if form == "exponential" else None


def _when(r: Reader, parts: Mapping[str, Node], place: str, subject: Subject) -> str | None:
    """Return the condition under which the task is tried again; None when it is reported."""
    when = expression_of(r, parts["when"], f"when of {place}", subject) if "when" in parts else None
    until = expression_of(r, parts["until"], f"stop_when of {place}", subject) if "until" in parts else None
    if ("when" in parts and when is None) or ("until" in parts and until is None):
        return None
    kinds = _kinds(r, parts, place)
    if when is None and kinds is None:
        return FAILED if until is None else any_of(FAILED, negated(until))
    condition = any_of(when, None if kinds is None else all_of(FAILED, kinds))
    return condition if until is None else all_of(condition, negated(until))


def _kinds(r: Reader, parts: Mapping[str, Node], place: str) -> str | None:
    """Return the condition on statuses and kinds of errors, if one is written."""
    statuses: list[Any] = []
    words: list[str] = []
    for key in ("statuses", "on"):
        node = parts.get(key)
        if node is None:
            continue
        if is_template(node.value):
            return f"{STATUS} in {node.value.strip()[2:-2].strip()}"
        for item in node.value if isinstance(node.value, list) else [node]:
            status = number(item.value)
            if status is not None:
                statuses.append(status)
            elif item.value in ("error", "exception", "all", "any"):
                return None
            elif item.value == "5xx":
                words.append("server_error")
            elif isinstance(item.value, str) and _KIND.match(item.value):
                words.append(item.value)
            else:
                message = f"each entry in {key} of {place} must be a status or a kind of error"
                r.report("E112", item, message, "on: [503, timeout, connection]")
    return (
        any_of(
            f"{STATUS} in {literal(statuses)}" if statuses else None,
            f"outcome.error.kind in {literal(words)}" if words else None,
        )
        if statuses or words
        else None
    )
