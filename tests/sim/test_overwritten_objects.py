"""One object written twice: each reference stands for what was stored when it was made, or says that this is gone."""

from __future__ import annotations

from typing import Any

from noetl_core.views.executions.executions import summary
from tests.running import run_text

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: sim/twice}\n"
TWICE = (
    HEAD
    + """
workflow:
  - step: start
    tool:
      - {name: first, kind: store, key: latest.json, data: [1]}
      - {name: read_first, kind: python, args: {rows: "{{ first }}"}, code: "result = rows"}
      - {name: second, kind: store, key: latest.json, data: [2]}
      - {name: read_second, kind: python, args: {rows: "{{ second }}", n: "{{ second[0] }}"}, code: "result = [rows, n]"}
      - {name: both, kind: noop, result: ["{{ read_first }}", "{{ read_second }}"]}
"""
)
STALE = (
    HEAD
    + """
workflow:
  - step: start
    tool: {kind: store, key: latest.json, data: [1]}
    next: {arcs: [{step: again, args: {first: "{{ event.result }}"}}]}
  - step: again
    tool:
      - {name: second, kind: store, key: latest.json, data: [2]}
      - {name: read, kind: python, args: {rows: "{{ args.first }}"}, code: "result = rows"}
"""
)


def ended(text: str) -> dict[str, Any]:
    local, state = run_text(text)
    return summary(local.control, state.execution_id)


def test_a_task_reads_the_newly_stored_object_and_not_a_cached_one() -> None:
    assert ended(TWICE)["result"] == [[1], [[2], 2]]


def test_reading_a_reference_to_an_overwritten_object_is_an_error() -> None:
    error = ended(STALE)["error"]
    assert error is not None
    assert error["kind"] == "schema"
    assert "latest.json is not what was stored when the reference was made" in error["message"]
