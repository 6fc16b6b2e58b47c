"""Playbooks that are run to their end in memory, and their histories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core.control.admit import StartRequest
from noetl_core.control.cached_states import RULE, SnapshotRule
from noetl_core.control.core import Control
from noetl_core.engine.state import State
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.history import pages
from noetl_core.worker.claiming.journal import MAX_BUFFERED


def run_text(
    source: str,
    payload: Mapping[str, Any] | None = None,
    most_buffered: int = MAX_BUFFERED,
    snapshots: SnapshotRule = RULE,
    **wiring: Any,
) -> tuple[LocalWiring, State]:
    """Run the text of a playbook to its end; return the wiring, from which results can be read, and the final state."""
    local = LocalWiring(**wiring)
    local.worker.most_buffered, local.control.states.rule = most_buffered, snapshots
    started = local.start(StartRequest(playbook=source, payload=payload or {}))
    local.run(started.execution_id)
    return local, local.control.load(started.execution_id)


def events_of(control: Control, execution_id: str, **wanted: Any) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of envelopes and the cursor after it (see `page_of_events`)."""
    found, cursor, _ = page_of_events(control, execution_id, **wanted)
    return found, cursor


def page_of_events(
    control: Control,
    execution_id: str,
    *,
    name: str | None = None,
    after: str | None = None,
    limit: int | None = None,
    key: bytes = b"",
) -> tuple[list[dict[str, Any]], str | None, bool]:
    """Return envelopes in causal order, the cursor after the last one (None at the end of a finished execution), and whether
    there are more now. `name` is either form of an event's name, `after` a cursor or an event id; without `limit` all are
    returned."""
    reading = pages.since(
        control, execution_id, after, key, names=pages.event_names(name), bounded=limit is not None, examined=pages.MAX_EXAMINED
    )
    found, over = pages.page_of(reading.envelopes, limit)
    cursor, more = pages.onward(control, execution_id, reading, over, key)
    return found, cursor, more
