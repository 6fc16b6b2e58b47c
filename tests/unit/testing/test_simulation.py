"""`noetl simulate`: which calls a killed worker makes twice, and what differs at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl_core.testing.files import read
from noetl_core.testing.registry import Call
from noetl_core.testing.simulation import remedy_for, simulate

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: s, path: tests/s }\n"
PLAYBOOK = (
    HEAD
    + """
workflow:
  - step: pay
    loop: { in: [1, 2], iterator: n }
    tool:
      - { name: ask, kind: http, url: "http://x/{{ iter.n }}" }
      - { name: charge, kind: http, method: POST, url: http://x, json: { amount: "{{ ask.data.amount }}" } }
    next: { arcs: [{ step: count }] }
  - step: count
    tool: { kind: noop, result: "{{ steps.pay.result | length }}" }
"""
)
TESTS = """
test: two are paid
tools:
  pay.ask: { ok: { data: { amount: 5 } } }
  pay.charge: { ok: { data: {} } }
expect: { result: 2 }
"""


def simulated(tmp_path: Path, playbook: str, tests: str) -> Any:
    (tmp_path / "playbook.yaml").write_text(playbook)
    (tmp_path / "playbook.test.yaml").write_text(tests)
    (case,) = read(tmp_path / "playbook.test.yaml")
    return simulate(case)


def test_each_call_may_be_made_twice_with_its_key(tmp_path: Path) -> None:
    found = simulated(tmp_path, PLAYBOOK, TESTS)
    assert found.kills == 5, "two calls in each iteration, and the noop"
    assert [(repeat.task, repeat.calls, bool(repeat.remedy)) for repeat in found.repeats] == [
        ("pay.ask", 2, False),
        ("pay.charge", 2, True),
    ]
    assert found.differs == [] and found.broken == ""


def test_an_end_that_differs_is_named(tmp_path: Path) -> None:
    playbook = (
        HEAD
        + """
workflow:
  - step: roll
    tool: { kind: python, code: "import secrets\\nresult = secrets.token_hex(8)" }
"""
    )
    found = simulated(tmp_path, playbook, "test: a dice\nexpect: { result: '*' }\n")
    assert found.kills == 1 and found.differs[0].startswith("killed after roll.roll_task: result is ")


def test_a_call_that_nothing_answers_is_said(tmp_path: Path) -> None:
    found = simulated(tmp_path, PLAYBOOK, "test: nothing is scripted\ntools: { pay.charge: { ok: {} } }\nexpect: { result: 2 }\n")
    assert "task pay.ask" in found.broken and found.kills == 0


@pytest.mark.parametrize(
    ("kind", "inputs", "word"),
    [
        ("http", {"url": "u"}, ""),
        ("http", {"url": "u", "method": "put"}, ""),
        ("http", {"url": "u", "json": {}}, "POST sends the same Idempotency-Key"),
        ("postgres", {"command": "SELECT 1"}, ""),
        ("postgres", {"command": "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING"}, ""),
        ("postgres", {"command": "INSERT INTO t VALUES (1)"}, "inserted twice"),
        ("postgres", {"commands": ["SELECT 1", {"command": "UPDATE t SET n = n + 1"}]}, "runs twice"),
        ("postgres", {"copy": {"from": [], "into": "t"}}, "appended twice"),
        ("postgres", {"copy": {"from": [], "into": "t", "mode": "upsert"}}, ""),
        ("sqs", {"queue": "orders"}, "sent twice"),
        ("sqs", {"queue": "orders.fifo"}, ""),
        ("transfer", {}, ""),
        ("llm", {}, "billed"),
        ("mcp", {}, "called twice"),
    ],
)
def test_the_remedy_fits_the_call(kind: str, inputs: dict[str, Any], word: str) -> None:
    remedy = remedy_for(Call("a.b", kind, inputs))
    assert word in remedy and bool(remedy) == bool(word)
