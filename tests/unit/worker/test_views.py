"""Views of results, where playbooks read them: in tasks, policies, arcs, later steps, loops, sub-playbooks and the result; of values
in the log and of values behind references; with real services."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import HTTPServer
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest, register
from noetl_core.dsl.parse import check
from noetl_core.log.stored_values import Values
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.registry import ToolRegistry
from noetl_core.views.executions import executions
from tests.databases import postgres
from tests.running import events_of
from tests.servers import Handler, serving, url_of

LIMITS = [8192, 64]
"""Inline limits: what fits stays in the log; with the other nearly everything is behind references."""


class Service(Handler):
    def do_GET(self) -> None:
        if self.path == "/no":
            self.say(404, b'{"why": "gone"}', Content_Type="application/json")
        else:
            body = {"items": [1, 2, 3], "text": "x" * 100}
            self.say(201, json.dumps(body).encode(), Content_Type="application/json", X_Page="7")


@pytest.fixture(scope="module")
def api() -> Iterator[str]:
    with serving(HTTPServer(("127.0.0.1", 0), Service)) as server:
        yield url_of(server)


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with postgres() as found:
        yield found


def head(limit: int, path: str = "tests/views") -> str:
    limits = f"{{ spec: {{ policy: {{ limits: {{ max_payload_bytes: {limit} }} }} }} }}"
    return f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: views, path: {path} }}\nexecutor: {limits}\n"


def ran(text: str, payload: dict[str, Any], monkeypatch: pytest.MonkeyPatch, *others: str) -> tuple[dict[str, Any], str]:
    """Return the outcome of an execution, with references as values; and its visible log."""
    monkeypatch.setenv("NOETL_HTTP_ALLOW_PRIVATE", "1")
    assert [str(d) for d in check(text)[1] if d.severity == "error" or d.code == "W515"] == []
    local = LocalWiring(tools=ToolRegistry())
    try:
        for other in others:
            register(local.control, other)
        started = local.start(StartRequest(playbook=text, payload=payload))
        assert local.run(started.execution_id, timeout_s=60)
        out = executions.summary(local.control, started.execution_id)
        assert out["error"] is None, out["error"]
        values = Values(local.store, local.results, started.execution_id, limit=None)
        shown = json.dumps(events_of(local.control, started.execution_id)[0])
        return {name: values.whole(out[name]) for name in ("result", "ctx")}, shown
    finally:
        local.close()


SQL = """
workload: { dsn: null }
workflow:
  - step: query
    tool:
      - name: rows
        kind: %(kind)s
        %(auth)s
        command: SELECT n AS id, n * 10 AS ten FROM generate_series(1, 9) AS g(n) ORDER BY n
        spec:
          policy:
            rules:
              - when: "{{ outcome.result.command_0.row_count == 9 and output.data[0].id == 1 and outcome.result | length == 9 }}"
                then: { do: continue, set_ctx: { policy: "{{ output.data.command_0.rows[-1].ten }}", whole: "{{ outcome.result }}" } }
              - else: { then: { do: fail } }
      - name: read
        kind: noop
        result:
          length: "{{ rows | length }}"
          sum: "{{ rows | map(attribute='ten') | sum }}"
          first: "{{ rows[0].id }}"
          text: "{%% for row in rows %%}{{ row.id }}{%% endfor %%}"
          slice: "{{ rows[7:] }}"
          prev: "{{ _prev.command_0.rows[1].ten }}"
        set_ctx: { read: "{{ outcome.result }}" }
      - name: again
        kind: noop
        result: "{{ rows }}"
    next:
      arcs:
        - step: never
          when: "{{ event.result | length != 9 or event.result.command_0.rows[3].id != 4 }}"
        - step: each
          when: "{{ output.data[8].ten == 90 and output.status == 'ok' }}"
          args: { whole: "{{ event.result }}", six: "{{ event.result.command_0.rows[5] }}" }
  - step: never
    tool: { kind: noop }
  - step: each
    spec:
      policy:
        admit:
          rules:
            - when: "{{ steps.query.result | length == 9 and event.result[1].id == 2 }}"
              then: { allow: true }
            - else: { then: { allow: false } }
    loop: { in: "{{ query }}", iterator: row }
    tool: { kind: noop, result: "{{ [iter.row.id, args.six.ten, args.whole.command_0.rows[iter.index].ten, ctx.whole[0].id] }}" }
    next: { arcs: [{ step: child, when: "{{ event.result.stats.total == 9 and event.result.results[0][0] == 1 }}" }] }
  - step: child
    tool: { kind: playbook, path: tests/child, payload: { table: "{{ steps.query.result }}" } }
    next: { arcs: [{ step: last }] }
  - step: last
    tool:
      kind: noop
      result:
        policy: "{{ ctx.policy }}"
        read: "{{ ctx.read }}"
        ctx: "{{ ctx.whole.command_0.rows | length }}"
        later: "{{ steps.query.result[2].ten }}/{{ query | length }}"
        plain: "{{ steps.query.result.keys() | sort }}"
        child: "{{ steps.child.result }}"
        loop: "{{ [each.results | length, each.stats, each.stats.success, steps.each.result.results[8]] }}"
        job: "{{ job.execution_id == execution_id and job.uuid == job.id }}"
"""
CHILD = """
workload: { table: null }
workflow:
  - step: start
    tool:
      kind: noop
      result: "{{ [workload.table | length, workload.table[0].id, table.command_0.row_count, job.uuid == execution_id] }}"
"""
SQL_RESULT = {
    "policy": 90,
    "read": {"length": 9, "sum": 450, "first": 1, "text": "123456789", "slice": [{"id": 8, "ten": 80}, {"id": 9, "ten": 90}], "prev": 20},
    "ctx": 9,
    "later": "30/9",
    "plain": ["columns", "row_count", "rows"],
    "child": [9, 1, 9, True],
    "loop": [9, {"total": 9, "succeeded": 9, "failed": 0}, 9, [9, 60, 90, 1]],
    "job": True,
}  # fmt: skip


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_a_table_reads_as_its_rows_and_by_command_wherever_it_goes(
    kind: str, limit: int, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = head(limit) + SQL % {"kind": kind, "auth": "" if kind == "duckdb" else 'auth: { dsn: "{{ workload.dsn }}" }'}
    out, log = ran(text, {"dsn": dsn}, monkeypatch, head(limit, "tests/child") + CHILD)
    assert out["result"] == SQL_RESULT
    assert ('"result_ref"' in log) == (limit == 64)
    assert "command_0" not in log, "views are read, not stored"


SEVERAL = """
workload: { dsn: null }
workflow:
  - step: work
    tool:
      kind: %(kind)s
      %(auth)s
      command: [CREATE TEMPORARY TABLE t (n int), INSERT INTO t VALUES (1); INSERT INTO t VALUES (2), SELECT n FROM t ORDER BY n, DELETE FROM t WHERE n = 1]
    next: { arcs: [{ step: last }] }
  - step: last
    tool:
      kind: noop
      result:
        counts: "{{ %(reads)s }}"
        rows: "{{ work | map(attribute='n') | list }}"
"""


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_each_of_several_statements_is_kept_where_a_template_reads_it(
    kind: str, limit: int, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    auth = "" if kind == "duckdb" else 'auth: { dsn: "{{ workload.dsn }}" }'
    reads = "[work.command_1.row_count, work.command_2.row_count, work.command_3.rows[1].n, work.command_4.row_count, work.command_5 is defined]"
    parts = {"kind": kind, "auth": auth, "reads": reads}
    out, _ = ran(head(limit) + SEVERAL % parts, {"dsn": dsn}, monkeypatch)
    assert out["result"] == {"counts": [1, 1, 2, 1, False], "rows": [1, 2]}


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_nothing_more_is_kept_where_no_template_reads_it(kind: str, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    auth = "" if kind == "duckdb" else 'auth: { dsn: "{{ workload.dsn }}" }'
    parts = {"kind": kind, "auth": auth, "reads": "steps.work.result"}
    out, _ = ran(head(8192) + SEVERAL % parts, {"dsn": dsn}, monkeypatch)
    assert out["result"]["counts"] == {"rows": [{"n": 1}, {"n": 2}], "columns": ["n"], "row_count": 2}


HTTP = """
workload: { api: null }
workflow:
  - step: fetch
    tool:
      - name: get
        kind: http
        url: "{{ workload.api }}/items"
        spec:
          policy:
            rules:
              - when: "{{ outcome.result.status_code == 201 and output.data['items'][0] == 1 and output.http.status == 201 }}"
                then: { do: continue, set_ctx: { body: "{{ outcome.result.body['items'] }}", whole: "{{ outcome.result }}" } }
              - else: { then: { do: fail } }
      - name: again
        kind: http
        url: "{{ workload.api }}/{{ get.body.text[0] }}/{{ get.status_code }}"
    next:
      arcs:
        - step: never
          when: "{{ event.result.status_code != 201 or output.http.status != 201 or output.data.text[0] != 'x' }}"
        - step: missing
          when: "{{ event.result.body['items'] | length == 3 }}"
          args: { all: "{{ output }}", whole: "{{ event.result }}" }
  - step: never
    tool: { kind: noop }
  - step: missing
    tool: { name: ask, kind: http, url: "{{ workload.api }}/no" }
    next:
      arcs:
        - step: last
          when: "{{ output.status == 'error' and output.error.kind == 'not_found' and output.http.status == 404 and not output.data }}"
          args: { after: "{{ output }}", before: "{{ args.all }}", whole: "{{ args.whole }}" }
  - step: last
    tool:
      kind: noop
      result:
        after: "{{ [after.status, after.error.code, after.result, after.data] }}"
        before: "{{ [before.status, before.data['items'], before.result.status_code, before.error] }}"
        whole: "{{ [args.whole.status_code, whole.body['items'] | last, ctx.whole.body['items'], ctx.body] }}"
        later: "{{ [fetch.status_code, steps.fetch.result.body['items'][1], fetch.headers['x-page']] }}"
        plain: "{{ steps.fetch.result.keys() | sort }}"
"""


@pytest.mark.parametrize("limit", LIMITS)
def test_a_response_reads_as_status_code_and_body_and_output_is_there_after_errors(
    limit: int, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, log = ran(head(limit) + HTTP, {"api": api}, monkeypatch)
    assert out["result"] == {
        "after": ["error", 404, None, None],
        "before": ["ok", [1, 2, 3], 201, None],
        "whole": [201, 3, [1, 2, 3], [1, 2, 3]],
        "later": [201, 2, "7"],
        "plain": ["data", "elapsed_ms", "headers", "status", "url"],
    }
    assert '"status_code"' not in log
