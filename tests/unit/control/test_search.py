"""Search attributes: recorded from the start, brought up to date with ctx, and how executions are listed by them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.control.lifecycle.operate import signal
from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.engine.records import StreamId, control_events
from noetl_core.log.history import commits_of
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from tests.unit.control.local_api import Asker
from tests.waiting import run_until_it_waits

ORDER = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: order, path: shop/order }
workload: { customer: nobody }
executor:
  spec:
    search:
      customer: "{{ workload.customer }}"
      total: "{{ ctx.total }}"
      paid: "{{ ctx.paid | default(false) }}"
      kind: order
workflow:
  - step: price
    tool: { kind: noop, result: 12, set_ctx: { total: "{{ outcome.result }}" } }
    next: { arcs: [{ step: pay }] }
  - step: pay
    tool: { kind: callback, signal: paid, set_ctx: { paid: true, total: "{{ outcome.result.total }}" } }
"""


@pytest.fixture
def local() -> Iterator[LocalWiring]:
    with closing(LocalWiring()) as local:
        yield local


def listed(local: LocalWiring, **where: str) -> list[str]:
    return [head.execution_id for head in local.control.index.heads(where=where)]


def test_an_execution_is_found_by_its_current_search_attributes(local: LocalWiring) -> None:
    started = local.start(StartRequest(playbook=ORDER, payload={"customer": "acme"}))
    id = started.execution_id
    head = local.control.index.head(id)
    assert head is not None
    assert head.search == {"customer": "acme", "paid": False, "kind": "order"}, "from the first commit on"
    run_until_it_waits(local, id)
    assert listed(local, customer="acme", total="12", paid="false") == [id], "while it waits"
    signal(local.control, id, "paid", {"total": 20})
    assert local.run(id, timeout_s=30)
    assert listed(local, customer="acme") == [id] == listed(local, total="20", paid="true")
    assert listed(local, total="12") == []
    assert executions.summary(local.control, id)["search"] == {"customer": "acme", "total": 20, "paid": True, "kind": "order"}
    events = [e for c in commits_of(local.store, StreamId(id)) for e in control_events(c)]
    assert [e.name for e in events].count("SearchAttributesSet") == 3, "only where they change"
    assert events[-1].name == "PlaybookProcessed"


def test_invalid_search_attributes_are_omitted_and_reported_without_failing_the_execution(local: LocalWiring) -> None:
    text = ORDER.replace(
        "kind: order\nworkflow",
        'rows: "{{ workload.rows }}"\n      long: "{{ workload.long }}"\n'
        '      bad: "{{ workload.customer / 2 }}"\n      empty: "{{ workload.empty }}"\n      odd: "a\\tb"\nworkflow',
    )
    payload = {"customer": "acme", "rows": [1], "long": "x" * 129, "empty": ""}
    started = local.start(StartRequest(playbook=text, payload=payload))
    summary = executions.summary(local.control, started.execution_id)
    assert summary["search"] == {"customer": "acme", "paid": False}
    assert set(summary["search_left_out"]) == {"rows", "long", "bad", "empty", "odd"}
    assert summary["search_left_out"]["rows"].startswith("it is a list")
    run_until_it_waits(local, started.execution_id)
    signal(local.control, started.execution_id, "paid", {"total": 1})
    assert local.run(started.execution_id, timeout_s=30)
    assert local.control.load(started.execution_id).status == "completed", "no attribute fails an execution"


def test_an_attribute_reads_into_a_large_value(local: LocalWiring) -> None:
    text = ORDER.replace("workload.customer }}", "workload.big.name }}").replace("{ customer: nobody }", "{ big: {} }")
    started = local.start(StartRequest(playbook=text, payload={"big": {"name": "acme", "rows": ["y" * 100] * 1000}}))
    assert listed(local, customer="acme") == [started.execution_id]


def test_playbooks_without_attributes_record_nothing(local: LocalWiring) -> None:
    text = "\n".join(line for line in ORDER.splitlines() if not line.startswith(("executor", "  spec:", "    search", "      ")))
    started = local.start(StartRequest(playbook=text))
    run_until_it_waits(local, started.execution_id)
    events = [e.name for c in commits_of(local.store, StreamId(started.execution_id)) for e in c.events]
    assert "SearchAttributesSet" not in events
    assert "search" not in executions.summary(local.control, started.execution_id)


@pytest.mark.parametrize(
    ("search", "code", "says"),
    [
        ("{ Customer: x }", "E115", 'cannot be a search attribute'),
        ("{ a b: x }", "E115", "cannot be a search attribute"),
        ("{ rows: [1] }", "E112", "must be a value or a template"),
        ("{ x: null }", "E112", "must be a value or a template"),
        ("[x]", "E112", "search"),
        ("{ x: '{{ steps.price.result }}' }", "E208", "steps in search of executor"),
        ("{ x: '{{ keychain.pg.password }}' }", "E205", "a search attribute: the control plane holds no secrets"),
        ("{ a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1 }", "E124", "at most 8"),
    ],
)  # fmt: skip
def test_invalid_search_declarations_are_refused_with_code_and_message(search: str, code: str, says: str) -> None:
    text = ORDER[: ORDER.index("    search:")] + f"    search: {search}\n" + ORDER[ORDER.index("workflow:") :]
    with pytest.raises(InvalidPlaybook) as refused:
        parse_playbook(text)
    assert next((d.code, says in f"{d.message} {d.hint}") for d in refused.value.diagnostics) == (code, True)


def test_lint_checks_the_templates_of_search_attributes() -> None:
    playbook, found = check(ORDER.replace("workload.customer", "workload.custmer"))
    assert playbook is not None
    assert {"W515"} <= {d.code for d in found}
    assert [d.code for d in check(ORDER)[1]] == []


def test_over_the_api(tmp_path: Path) -> None:
    ask = Asker(tmp_path)
    ids = [
        ask.local.start(StartRequest(playbook=ORDER, payload={"customer": name})).execution_id
        for name in ("acme", "a&b=c", "acme")
    ]

    def found(**where: Any) -> list[str]:
        return [e["execution_id"] for e in ask("GET", "executions", search=urlencode(where)).body["executions"]]

    assert sorted(found(customer="acme", kind="order")) == sorted([ids[0], ids[2]])
    assert found(customer="a&b=c") == [ids[1]]
    page = ask("GET", "executions", search="customer=acme", limit="1").body
    assert (len(page["executions"]), page["executions"][0]["search"]["customer"]) == (1, "acme")
    rest = ask("GET", "executions", search="customer=acme", limit="1", cursor=page["cursor"]).body["executions"]
    assert {page["executions"][0]["execution_id"], rest[0]["execution_id"]} == {ids[0], ids[2]}
    oldest = ask("GET", "executions", order="oldest", limit="2").body
    rest = ask("GET", "executions", order="oldest", cursor=oldest["cursor"]).body["executions"]
    assert [e["execution_id"] for e in oldest["executions"] + rest] == ids
    assert ask("GET", "executions", order="longest").status == 400
    for wrong in ("acme", "A=1", "=1", "&".join(f"a{n}=1" for n in range(9)), "a=" + "x" * 129):
        assert ask("GET", "executions", search=wrong).status == 400, wrong
