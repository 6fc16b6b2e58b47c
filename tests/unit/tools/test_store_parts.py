"""Partial reads of values that `store` wrote, in every form that templates read, equal reads of the whole."""

from __future__ import annotations

import json

import pytest

import noetl_core
from noetl_core.adapters.local.results import LazyTempResultStore
from noetl_core.log.stored_values import stored_outline
from noetl_core.tools.base import ToolCall
from noetl_core.tools.masking.results import ScrubbedResults
from noetl_core.tools.masking.scrub import Scrubber
from noetl_core.tools.rows.outlined import outlined as outlining
from noetl_core.tools.store import StoreTool
from tests.small_outlines import outline_small_values

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


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("outlined", [True, False], ids=["parts", "whole"])
def test_a_stored_result_is_read_in_parts(form: str, outlined: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if outlined:
        outline_small_values(monkeypatch, 2_000, 500)
    done = noetl_core.run(PLAYBOOK.replace("MORE", FORMS[form]))
    assert (done.status, done.error) == ("completed", None)
    assert done.result == [4000, 5, 3999, [10, 11], sum(range(4000)), False]
    assert ('"outline"' in str(done.events()).replace("'", '"')) is outlined


@pytest.mark.parametrize("outlined", [True, False], ids=["parts", "whole"])
def test_json_under_a_key_for_json_lines_is_read_line_by_line(outlined: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON under a key that ends like JSON lines is read line by line: the list has one line."""
    if outlined:
        outline_small_values(monkeypatch, 2_000, 500)
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


ROWS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: rows, path: tests/rows}
executor: {spec: {result: "{{ [make | length, make[7].n, make[-1].s, make[100:300:100] | map(attribute='n') | list] }}"}}
workflow:
  - step: make
    tool: {kind: duckdb, to: jsonl, command: "SELECT range AS n, 'row ' || range AS s FROM range(50000) ORDER BY n"}
"""


def test_files_of_json_lines_are_read_in_parts_as_they_were_written() -> None:
    done = noetl_core.run(ROWS)
    assert (done.status, done.error) == ("completed", None)
    assert done.result == [50000, 7, "row 49999", [100, 200]]
    assert "'outline'" in str(done.events())


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_data_that_is_masked_while_stored_has_no_outline(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outline would describe the bytes before masking, so there is none and the whole result is loaded."""
    outline_small_values(monkeypatch, 1_000, 500)
    scrubber = Scrubber()
    scrubber.learn("hunter22")
    results = LazyTempResultStore()
    data = ["hunter22", *range(1000)]
    call = ToolCall(
        kind="store", inputs={"data": data, "format": form}, spec={}, execution_id="1", task_run_id="t",
        results=ScrubbedResults(results, scrubber),
    )  # fmt: skip
    outcome = StoreTool().run(call)
    assert outcome.error is None and "outline" not in outcome.result
    with outlining(ScrubbedResults(results, scrubber).writer(f"1/store/x.{form}"), results, form) as out:
        out.write(b'"hunter22"\n' * 500 if form == "jsonl" else json.dumps(data).encode())
        assert not {"outline", "schema_hint"} & set(out.finish())
    results.close()


TEXT = json.dumps({"total": 50_000, "rows": [{"n": n, "name": f"row {n}"} for n in range(50_000)]}, indent=1)


def test_json_that_others_wrote_is_read_in_parts_as_it_came() -> None:
    """A block of 256 KB is loaded, of 2 MB."""
    results = LazyTempResultStore()
    with outlining(results.writer("1/http/x.json"), results, "json") as out:
        for at in range(0, len(TEXT), 7_777):
            out.write(TEXT[at : at + 7_777].encode())
        reference = out.finish()
    container = stored_outline(results, reference)
    assert container is not None and reference["schema_hint"] == {"type": "object", "keys": ["total", "rows"]}
    rows = next(block.inner for block in container.blocks if block.inner is not None)
    assert rows.length == 50_000
    span = rows.span(rows.block_at(49_999))
    assert span.size < 300_000 < len(TEXT) / 5
    assert span.value(results.get("1/http/x.json", span.start, span.stop))[-1] == {"n": 49_999, "name": "row 49999"}
    results.close()
