"""Compares two outcomes of a case."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from noetl_import.errors import SERVICES
from tests.asl.cases import Case, Outcome, task_states
from tests.asl.imported import plain

OWN: Final = frozenset(
    {"SdkHttpMetadata", "SdkResponseMetadata", "ExecutedVersion", "StatusCode", "FailedEntryCount", "StartDate"}
)
"""Members of results that services add."""
UNNAMED: Final = frozenset({"States.Fail", "States.TaskFailed", "States.Runtime", "States.NoChoiceMatched", ""})
"""Errors of which only the failure is compared. A Fail state without Error has none; the emulator calls it States.Fail."""
TYPES: Final = frozenset({"S", "N", "BOOL", "M", "L", "NULL", "SS", "NS"})
SCRUBBED: Final = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uuid>"),
    (
        re.compile(r"arn:aws:states:[\w:-]+:execution:[\w:-]+<uuid>|arn:aws:states:[\w:-]+:execution:\S+|\b\d{17,19}\b"),
        "<execution>",
    ),
    (re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|\+00:00)"), "<time>"),
)


def differences(case: Case, theirs: Outcome, ours: Outcome) -> list[str]:
    """Return what differs."""
    found = list[str]()
    if theirs.status != ours.status:
        found.append(f"status: {theirs.status} {theirs.error} {theirs.note}, imported {ours.status} {ours.error} {ours.note}")
    elif theirs.status == "FAILED":
        if _code(theirs.error) == _code(ours.error):
            return _all_calls(case, theirs, ours)
        found.append(f"error: {theirs.error}, imported {ours.error} ({ours.note})")
    elif (left := scrubbed(theirs.output)) != (right := scrubbed(ours.output)):
        found.append(f"output: {json.dumps(left)}\n           imported {json.dumps(right)}")
    return found + _all_calls(case, theirs, ours)


def _all_calls(case: Case, theirs: Outcome, ours: Outcome) -> list[str]:
    states = task_states(case.definition)
    return [
        each for _, name, state in states for each in _calls(name, state, theirs.calls.get(name, []), ours.calls.get(name, []))
    ]


def _code(error: str) -> str:
    if error in UNNAMED:
        return ""
    service, _, code = error.partition(".")
    return code if service.lower() in SERVICES else error


def _calls(name: str, state: Mapping[str, Any], theirs: list[Any], ours: list[Any]) -> list[str]:
    if len(theirs) != len(ours):
        return [f"calls of {name}: {len(theirs)}, imported {len(ours)}"]
    if ("lambda" not in state["Resource"] and not state["Resource"].startswith("${")) or "waitFor" in state["Resource"]:
        return []
    direct = not state["Resource"].endswith(":invoke")
    left = sorted(json.dumps(scrubbed(each if direct else each.get("Payload", {})), sort_keys=True) for each in theirs)
    right = sorted(json.dumps(scrubbed(each["payload"]), sort_keys=True) for each in ours)
    return [] if left == right else [f"inputs of {name}: {left}\n           imported {right}"]


def scrubbed(value: Any) -> Any:
    """Return a value without what is not the machine's own."""
    match value:
        case dict() if len(value) == 1 and (next(iter(value)) in TYPES) and _typed(value):
            return scrubbed(plain(value))
        case dict():
            return {key: scrubbed(each) for key, each in value.items() if key not in OWN}
        case list():
            return [scrubbed(each) for each in value]
        case str():
            return _text(value)
    return value


def _typed(value: Mapping[str, Any]) -> bool:
    try:
        plain(value)
    except (AttributeError, TypeError, ValueError):
        return False
    return True


def _text(text: str) -> str:
    if text[:1] in ("{", "["):
        try:
            found = json.loads(text)
        except ValueError:
            return text
        if isinstance(found, dict) and "errorMessage" in found:
            return str(found["errorMessage"])
        return json.dumps(scrubbed(found), sort_keys=True)
    for pattern, name in SCRUBBED:
        text = pattern.sub(name, text)
    return text
