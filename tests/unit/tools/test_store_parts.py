"""What `store` wrote is read in part, in every form that templates read, as all of it is."""

from __future__ import annotations

import pytest

import noetl_core
from noetl_core.outlines import building

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parts, path: tests/parts}
executor: {spec: {result: "{{ steps.look.result }}"}}
workflow:
  - step: make
    tool:
      - {name: rows, kind: noop, result: "{{ range(4000) | list }}"}
      - {name: kept, kind: store, data: "{{ rows }}", MORE}
    next: {arcs: [{step: look, args: {n: "{{ event.result | length }}", five: "{{ event.result[5] }}"}}]}
  - step: look
    tool:
      kind: noop
      result: "{{ [args.n, args.five, steps.make.result[-1], steps.make.result[10:12], steps.make.result | sum, steps.make.result.rows is defined] }}"
"""
FORMS = {
    "json": "format: json",
    "jsonl": "format: jsonl",
    "jsonl by its key": "key: a/b.jsonl",
    "json with a hint": "format: json, schema_hint: anything",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("outlined", [True, False], ids=["parts", "whole"])
def test_what_is_stored_is_read_in_parts(form: str, outlined: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if outlined:
        monkeypatch.setattr(building, "OUTLINED", 2_000)
        monkeypatch.setattr(building, "BLOCK", 500)
    done = noetl_core.run(PLAYBOOK.replace("MORE", FORMS[form]))
    assert (done.status, done.error) == ("completed", None)
    assert done.result == [4000, 5, 3999, [10, 11], sum(range(4000)), False]
    assert ('"outline"' in str(done.events()).replace("'", '"')) is outlined


@pytest.mark.parametrize("outlined", [True, False], ids=["parts", "whole"])
def test_what_is_read_as_something_else_than_it_was_written_as_is_read_as_before(
    outlined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON under a key that ends like JSON lines is read line by line: the list has one line."""
    if outlined:
        monkeypatch.setattr(building, "OUTLINED", 2_000)
        monkeypatch.setattr(building, "BLOCK", 500)
    playbook = PLAYBOOK.replace("MORE", "key: a.jsonl, format: json").replace(
        "{{ [args.n, args.five,", "{{ [args.n, steps.make.result[0] | length,"
    )
    playbook = (
        playbook.replace(', five: "{{ event.result[5] }}"', "")
        .replace(" steps.make.result | sum,", "")
        .replace("[-1]", "[0][-1]")
    )
    done = noetl_core.run(playbook)
    assert (done.status, done.error) == ("completed", None)
    assert done.result == [1, 4000, 3999, [], False]
