"""Legacy playbooks: rewriting them, and running what comes of it with scripted tools."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl_core.adapters.local.secrets import PREFIX, LocalSecrets
from noetl_core.control.admit import StartRequest
from noetl_core.dsl.parse import check
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.state import State
from noetl_core.log.stored_values import Values
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.base import ToolCall
from noetl_core.tools.registry import ToolRegistry
from noetl_migrate import migrate

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: demo, path: team/demo }\n"

Script = Iterable[Outcome] | Callable[[ToolCall], Outcome]


def page(number: int, more: bool, data: Any = None) -> Outcome:
    """Return an answer of the paginated API in the specification's documents."""
    body = {"data": data if data is not None else [number], "paging": {"hasMore": more, "page": number, "pageSize": 10}}
    return Outcome.ok({"status": 200, "headers": {}, "data": body}, http={"status": 200, "headers": {}})


def http_error(status: int, headers: Mapping[str, str] | None = None) -> Outcome:
    return Outcome.failed("server_error", f"HTTP {status}", http={"status": status, "headers": dict(headers or {})})


def ok(result: Any = None) -> Outcome:
    return Outcome.ok(result)


class Scripted:
    """A tool that answers with what it is given, call by call."""

    inline = True

    def __init__(self, kind: str, script: Script) -> None:
        self.kind = kind
        self.calls: list[ToolCall] = []
        self._script = script if callable(script) else iter(script)
        self._lock = threading.Lock()

    def run(self, call: ToolCall) -> Outcome:
        with self._lock:
            self.calls.append(call)
            return self._script(call) if callable(self._script) else next(self._script)


@dataclass
class Ended:
    """The end of a playbook: `steps` are the results of those that ran, `tools` the calls."""

    state: State
    result: Any
    steps: dict[str, Any]
    tools: dict[str, Scripted] = field(default_factory=dict)

    @property
    def status(self) -> str:
        return self.state.status

    @property
    def ctx(self) -> Mapping[str, Any]:
        return self.state.ctx

    def visits(self, step: str) -> int:
        return self.state.step(step).visits


CREDENTIALS = {f"{PREFIX}PG_K8S": '{"dsn": "postgresql://db/app"}'}
"""Credentials that keychains of the examples name. They are read before the first task."""


def canonical(text: str) -> str:
    """The playbook rewritten; it must have needed that, be valid, and be left alone a second time."""
    before = check(text)[0]
    migrated = migrate(text, "flow.yaml")
    assert not migrated.failed, "\n".join(map(str, migrated.diagnostics))
    playbook, found = check(migrated.text)
    assert playbook is not None, "\n".join(map(str, found))
    assert (before is None) == migrated.changed
    again = migrate(migrated.text, "flow.yaml")
    assert (again.changed, again.text, again.diagnostics) == (False, migrated.text, ())
    return migrated.text


def ended(source: str, scripts: Mapping[str, Script], payload: Mapping[str, Any] | None = None) -> Ended:
    """Run a canonical playbook on the local runner, its tools scripted by kind."""
    tools = {kind: Scripted(kind, script) for kind, script in scripts.items()}
    local = LocalWiring(secrets=LocalSecrets("no-such-file", CREDENTIALS), tools=ToolRegistry(dict(tools)))
    try:
        started = local.start(StartRequest(playbook=source, payload=payload or {}))
        assert local.run(started.execution_id, timeout_s=20), "it did not end"
        state = local.control.load(started.execution_id)
        values = Values(local.store, local.results, started.execution_id)
        steps = {name: values.at(step.at) for name, step in state.steps.items() if step.at is not None}
        return Ended(state, values.at(state.result), steps, tools)
    finally:
        local.close()


def run(legacy: str, scripts: Mapping[str, Script], payload: Mapping[str, Any] | None = None) -> Ended:
    """Rewrite and run."""
    return ended(canonical(legacy), scripts, payload)
