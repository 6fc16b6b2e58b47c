"""Texts in the dialect of the field, what is made of them, and runs of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator

from noetl_core.control.admit import StartRequest, register
from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.dsl.reading.load import load
from noetl_core.dsl.schema import playbook_schema
from noetl_core.engine.outcome import Outcome
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.base import ToolCall
from noetl_core.tools.registry import ToolRegistry
from noetl_core.views.executions import executions
from noetl_migrate import migrate
from tests.running import events_of
from tests.unit.dsl.broken_playbooks import flow

SCHEMA = Draft202012Validator(playbook_schema())


def one(task: str) -> str:
    """A playbook of one step with one task."""
    return flow(f"step: a\ntool:\n  {task}")


def same(accepted: str, canonical: str, *, editors: bool = True) -> None:
    """Both texts are one playbook; the schema takes both; and `noetl migrate` makes the one of the other, once."""
    for text in (accepted, canonical) if editors else (canonical,):
        root = load(text).root
        assert root is not None
        SCHEMA.validate(root.plain())
    assert parse_playbook(accepted) == parse_playbook(canonical)
    migrated = migrate(accepted)
    assert not migrated.failed, migrated.diagnostics
    assert migrated.changed
    assert parse_playbook(migrated.text) == parse_playbook(canonical)
    assert not migrate(migrated.text).changed


def found(text: str, severity: str = "error") -> list[str]:
    return [f"{d.code} {d.message}" for d in check(text)[1] if d.severity == severity]


class Service:
    """`kind: http`: answers with what it was told to, one after the other, and then with the last; keeps the calls."""

    kind = "http"
    inline = True

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.answers, self.calls = list(answers), list[ToolCall]()

    def run(self, call: ToolCall) -> Outcome:
        self.calls.append(call)
        status, data = self.answers[min(len(self.calls), len(self.answers)) - 1]
        helper: Mapping[str, Any] = {"status": status, "headers": {}}
        if status == 200:
            return Outcome.ok({"status": status, "headers": {}, "data": data}, http=helper)
        return Outcome.failed("server_error" if status >= 500 else "not_found", f"the service answered {status}", http=helper)


def ran(text: str, service: Service | None = None, *, others: tuple[str, ...] = (), payload: Any = None) -> dict[str, Any]:
    """The summary of a run, with the steps in `order`."""
    local = LocalWiring(tools=ToolRegistry({"http": service}) if service is not None else ToolRegistry())
    try:
        for other in others:
            register(local.control, other)
        started = local.start(StartRequest(playbook=text, payload=payload or {}))
        assert local.run(started.execution_id, timeout_s=30)
        out = executions.summary(local.control, started.execution_id)
        log = events_of(local.control, started.execution_id)[0]
        out["order"] = [e["step"] for e in log if e["name"] == "StepScheduled"]
        return out
    finally:
        local.close()


LIKE_NONE = "{when: \"{{ outcome.status == 'error' }}\", then: {do: fail}}, {else: {then: {do: continue}}}"


def again(attempts: int, more: str = "", when: str = "outcome.status == 'error'") -> str:
    return f'{{when: "{{{{ {when} }}}}", then: {{do: retry, attempts: {attempts}{more}}}}}'


def fails(when: str, message: str) -> str:
    when = f"outcome.status == 'ok' and not ({when})"
    return f'{{when: "{{{{ {when} }}}}", then: {{do: fail, error: {{kind: schema, message: "{message}"}}}}}}'


def ruled(task: str, *rules: str) -> str:
    listed = ", ".join((*rules, LIKE_NONE))
    return f"{{{task}, spec: {{policy: {{rules: [{listed}]}}}}}}"


PLAIN = "tool: {kind: noop, result: 1}"
