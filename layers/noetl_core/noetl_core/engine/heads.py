"""The head of an execution: its summary in lists, computed from its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from noetl_core.engine.state import State
from noetl_core.engine.warnings import count_of
from noetl_core.values.frozen import frozen


@frozen
class Head:
    """The summary of an execution for lists. It can be rebuilt from the log."""

    execution_id: str
    status: str
    path: str
    version: int
    digest: str
    started_at: int
    updated_at: int
    finished_at: int | None = None
    error: Mapping[str, Any] | None = None
    parent: Mapping[str, Any] | None = None
    expires_at: int = 0
    trigger: Mapping[str, str] | None = None
    """The trigger that started it, `{kind, name}`; None if a caller started it."""
    search: Mapping[str, Any] | None = None
    """Search attributes by name; None: the playbook has none."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels that the caller of its start set."""
    warnings: int = 0
    """The number of its warnings."""
    redriven_at: int = 0
    """The instant of its newest redrive; 0: it was never redriven."""


def search_text(value: Any) -> str:
    """Return the text by which the value of a search attribute is found."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_found(head: Head, where: Mapping[str, str]) -> bool:
    """Return whether a head has these search attributes."""
    known = head.search or {}
    return all(name in known and search_text(known[name]) == value for name, value in where.items())


def head_of(state: State) -> Head:
    """Return the head at the position of the state."""
    return Head(
        execution_id=state.execution_id,
        status=state.status,
        path=state.path,
        version=state.version,
        digest=state.digest,
        started_at=state.started_at,
        updated_at=state.updated_at,
        finished_at=state.finished_at,
        error={k: v for k, v in state.failure.items() if k != "fatal"} if state.failure else None,
        parent=state.parent,
        expires_at=state.expires_at,
        trigger=None if state.trigger is None else {"kind": state.trigger["kind"], "name": state.trigger["name"]},
        search=state.search["attributes"] if state.search is not None else None,
        labels=state.labels,
        warnings=count_of(state),
        redriven_at=state.redriven_at,
    )
