"""Limits on the size of errors: an error is copied to the step, the execution, its head and its parent."""

from __future__ import annotations

import json

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.engine.records import Commit
from noetl_core.expr import TemplateError, render
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions.executions import summary
from tests.running import run_text

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: sim/errors}\n"
FAILS = (
    HEAD
    + """
workflow:
  - step: start
    tool:
      kind: python
      code: result = 'q' * 300000
      spec:
        policy:
          rules:
            - else: {then: {do: fail, error: {kind: schema, message: "bad {{ outcome.result }}", details: {all: "{{ outcome.result }}"}}}}
    next:
      arcs:
        - step: seen
          when: "{{ event.name == 'step.failed' }}"
          args: {details: "{{ event.error.details }}", kind: "{{ event.error.kind }}"}
  - step: seen
    tool:
      kind: python
      args: {details: "{{ args.details }}", message: "{{ args.kind }}"}
      code: result = [len(details["all"]), message]
"""
)


def test_an_error_of_a_rule_keeps_the_log_small_and_its_details_complete() -> None:
    local = LocalWiring()
    commits: list[Commit] = []
    local.observe(commits.append)
    execution_id = local.start(StartRequest(playbook=FAILS)).execution_id
    local.run(execution_id)

    ended = summary(local.control, execution_id)
    assert (ended["status"], ended["result"]) == ("completed", [300000, "schema"])
    assert max(len(json.dumps([event.data for event in commit.events])) for commit in commits) < 50_000


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{{ none }}", "not null"),
        ("{{ 5 }}", "not number (5)"),
        ("{{ 'abc' }}", 'not text ("abc")'),
        ("{{ true }}", "not boolean (true)"),
    ],
)
def test_an_invalid_collection_is_named_by_its_type_in_playbooks(value: str, message: str) -> None:
    text = HEAD + f'workflow:\n  - step: start\n    loop: {{in: "{value}", iterator: n}}\n    tool: {{kind: noop}}\n'
    local, state = run_text(text)
    error = summary(local.control, state.execution_id)["error"]
    assert error["message"] == f"loop.in must give a list or a mapping, {message}"


@pytest.mark.parametrize("called", ["range(3)", "'abc'.upper()", "now()"])
def test_a_call_block_of_something_other_than_a_macro_is_refused(called: str) -> None:
    with pytest.raises(TemplateError, match="calls a macro of the template"):
        render("{% call " + called + " %}{% endcall %}", {})
