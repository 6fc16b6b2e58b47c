"""`assert` beside a task or a step -> rules that fail the task when a condition does not hold.

`expects` is checked before the
tool runs, by a task of its own; everything else after it has succeeded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from noetl_core.dsl.dialect.conditions import Subject, all_of, braced, expression_of, negated
from noetl_core.dsl.dialect.edits import Edits
from noetl_core.dsl.dialect.policies import add_rules
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.expr import is_template

_SLIPS: Final = {"expect": 'did you mean "expects"?', "return": 'did you mean "returns"?'}
_CONDITION: Final = ("that", "condition", "when", "expr", "expression", "check", "if")
_MESSAGE: Final = ("message", "error", "msg", "fail_msg", "desc", "name")
_LISTS: Final = ("conditions", "all", "that", "rules", "checks")
_PATH: Final = re.compile(r"[A-Za-z_]\w*(\.\w+|\[\d+\])*\Z")
_OK: Final = "outcome.status == 'ok'"
_HINT: Final = 'assert: [{ that: "{{ ... }}", message: ... }]'
Check = tuple[str, str]
"""A condition, and the message if it does not hold."""


def rewrite_assert(e: Edits, holder: Node, task: Node, subject: Subject, what: str) -> list[Check]:
    """Replace `assert` of a task, or of the step whose last task it is, by rules of the task. Returns the values that must exist
    before the tool runs."""
    node = holder.value["assert"]
    after, before = _checks(e.r, node, subject, f"assert of {what}")
    rules = [
        {"when": braced(all_of(_OK, negated(condition))), "then": {"do": "fail", "error": {"kind": "schema", "message": message}}}
        for condition, message in after
    ]
    if rules:
        add_rules(e, task, rules, (holder, "assert"), subject.policy)
    e.remove(holder, "assert")
    return before


def expecting(name: str, checks: list[Check]) -> dict[str, Any]:
    """Return the task that fails when an expected value is missing."""
    rules: list[dict[str, Any]] = [
        {"when": braced(negated(condition)), "then": {"do": "fail", "error": {"kind": "schema", "message": message}}}
        for condition, message in checks
    ]
    go_on = {"else": {"then": {"do": "continue", "set_prev": "{{ _prev }}"}}}
    return {"name": name, "kind": "noop", "spec": {"policy": {"rules": [*rules, go_on]}}}


def _checks(r: Reader, node: Node, subject: Subject, place: str) -> tuple[list[Check], list[Check]]:
    """Return the conditions on the result, and the values that must exist before the tool runs."""
    value = node.value
    if isinstance(value, dict) and ("expects" in value or "returns" in value):
        known = r.keys(node, ("expects", "returns", *_LISTS, *_MESSAGE), place)
        before = list(_present(r, known.get("expects"), f"expects of {place}", subject, ""))
        after = list(_present(r, known.get("returns"), f"returns of {place}", subject, "outcome.result."))
        after += [check for key in _LISTS if key in known for check in _listed(r, known[key], subject, place, _message(node))]
        return after, before
    if isinstance(value, dict):
        listed = next((key for key in _LISTS if key in value and isinstance(value[key].value, list)), None)
        if listed is not None:
            r.keys(node, (listed, *_MESSAGE), place)
            return list(_listed(r, value[listed], subject, place, _message(node))), []
        if value and not value.keys() & {*_CONDITION, *_LISTS, *_MESSAGE} and all(is_template(v.value) for v in value.values()):
            groups = ((_one(r, child, subject, place, f"assertion failed: {key}")) for key, child in value.items())
            return [check for checks in groups for check in checks], []
        return list(_one(r, node, subject, place, None)), []
    if isinstance(value, list):
        return list(_listed(r, node, subject, place, None)), []
    return list(_one(r, node, subject, place, None)), []


def _listed(r: Reader, node: Node, subject: Subject, place: str, message: str | None) -> Iterator[Check]:
    for item in node.value if isinstance(node.value, list) else [node]:
        yield from _one(r, item, subject, place, message)


def _one(r: Reader, node: Node, subject: Subject, place: str, message: str | None) -> Iterator[Check]:
    if isinstance(node.value, dict):
        fields = r.keys(node, (*_CONDITION, *_MESSAGE), place, None, _SLIPS)
        text = next((fields[key] for key in _CONDITION if key in fields), None)
        if text is None:
            if len(fields) == len(node.value):
                r.report("E111", node, f"{place} has no condition", _HINT)
            return
        message = _message(node) or message
        node = text
    condition = expression_of(r, node, place, subject)
    if condition is not None:
        yield condition, message or f"assertion failed: {_excerpt(node)}"


def _present(r: Reader, node: Node | None, place: str, subject: Subject, base: str) -> Iterator[Check]:
    """Yield a condition that each named value exists; a template is itself a condition."""
    if node is None:
        return
    for item in node.value if isinstance(node.value, list) else [node]:
        text = item.value
        if is_template(text):
            yield from _one(r, item, subject, place, None)
        elif isinstance(text, str) and _PATH.match(text):
            own = f"{base}{text.removeprefix('result.').removeprefix('output.') if base else text}"
            yield f"{own} is defined", f"{'the result has' if base else 'there is'} no {text}"
        else:
            r.report("E112", item, f"{place} must name values, or hold conditions", "returns: [id, data.rows]")


def _message(node: Node) -> str | None:
    found = next((node.value[key].value for key in _MESSAGE if key in node.value), None)
    return found if isinstance(found, str) and found.strip() else None


def _excerpt(node: Node) -> str:
    text = " ".join(str(node.value).split())
    return text.removeprefix("{{").removesuffix("}}").strip()[:200]
