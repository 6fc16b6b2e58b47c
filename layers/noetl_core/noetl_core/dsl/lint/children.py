"""Payloads of playbooks that tasks call, where these playbooks are known (W532)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from noetl_core.dsl.inputs import TRIGGER_KEYS
from noetl_core.dsl.lint.context import Lint
from noetl_core.dsl.model import Playbook
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.versions import BadVersion, Version, split_version, version_of
from noetl_core.expr import is_template, referenced
from noetl_core.values.json_schema import problems

Called = Callable[[str, Version], Playbook | None]
"""Returns a playbook by its path and version; None where it is not known."""


def children(lint: Lint, called: Called) -> None:
    """W532 for keys that a called playbook does not declare or misses, and for values that its schema refuses."""
    for task in lint.kinds("playbook"):
        path, version = (None if part is None else part.plain() for part in (task.get("path"), task.get("version")))
        child = child_of(path, version, called)
        if child is None:
            continue
        key = next((key for key in ("payload", "args", "workload") if key in task.value), None)
        payload = task.value[key] if key is not None else None
        if payload is None or isinstance(payload.value, dict):
            _payload(lint, task, payload, child)


def trigger_payloads(lint: Lint) -> None:
    """W532 for keys of the payload of a trigger that the workload does not declare."""
    for trigger in lint.playbook.executor.triggers:
        payload = lint.at(trigger.path).get("payload")
        if trigger.version is None and payload is not None and isinstance(payload.value, dict):
            _unknown(lint, payload, lint.playbook, "the workload")


def child_of(path: Any, version: Any, called: Called) -> Playbook | None:
    """Return the playbook that a task calls by a path and a version that are not templates; None where it is not known."""
    if not isinstance(path, str) or is_template(path) or is_template(version):
        return None
    try:
        name, pinned = split_version(path.lstrip("/"))
        return called(name, pinned if version is None else version_of(version))
    except BadVersion:
        return None


def _unknown(lint: Lint, payload: Node, playbook: Playbook, name: str) -> None:
    """Report the keys of a payload that the workload does not declare."""
    known = frozenset(playbook.workload) | frozenset((playbook.inputs or {}).get("properties") or {})
    for key in payload.value if playbook.workload else ():
        if key not in known | TRIGGER_KEYS:
            hint = suggest(key, known) or f"its workload has {', '.join(sorted(playbook.workload))}"
            lint.report("W532", (payload, key), f"{name} has no input {key}", hint)


def _payload(lint: Lint, task: Node, payload: Node | None, child: Playbook) -> None:
    schema: Mapping[str, Any] = child.inputs or {}
    properties: Mapping[str, Any] = schema.get("properties") or {}
    known = frozenset(child.workload) | frozenset(properties) | TRIGGER_KEYS
    entries: Mapping[str, Node] = payload.value if payload is not None else {}
    if payload is not None:
        _unknown(lint, payload, child, child.path)
    for key, value in entries.items():
        if key not in known:
            continue
        if key in properties and not referenced(plain := value.plain()) and not is_template(plain):
            for problem in problems(plain, properties[key], key)[:1]:
                lint.report("W532", value, f"{child.path} refuses this payload: {problem}", "its x-schema says what it takes")
    for key in schema.get("required") or ():
        if key not in entries and key not in child.workload:
            at = (task, "path") if payload is None else payload
            lint.report("W532", at, f"{child.path} needs the input {key}", f"payload: {{ {key}: ... }}")
