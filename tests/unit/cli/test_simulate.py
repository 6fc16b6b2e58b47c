"""`noetl simulate`: its output, its exit codes, and the choice of cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noetl_cli.errors import Exit
from tests.commands import in_process

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: pay, path: tests/pay }
workflow:
  - step: pay
    loop: { in: [1, 2], iterator: n }
    tool:
      - { name: ask, kind: http, url: "http://x/{{ iter.n }}" }
      - { name: charge, kind: http, method: POST, url: http://x, json: { amount: "{{ ask.data.amount }}" } }
"""
TESTS = """
test: two are paid
tools:
  pay.ask: { ok: { data: { amount: 5 } } }
  pay.charge: { ok: { data: {} } }
expect: { status: completed }
"""
BRANCHES = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: race, path: tests/race }
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: fast }, { step: slow }] }
  - step: fast
    tool: { kind: noop, result: 1, set: { winner: fast } }
    next: { arcs: [{ step: both }] }
  - step: slow
    tool: { kind: noop, result: 2, set: { winner: slow } }
    next: { arcs: [{ step: both }] }
  - step: both
    spec: { join: all }
    tool: { kind: noop, result: "{{ ctx.winner }}" }
"""


def write(folder: Path, playbook: str, tests: str) -> str:
    (folder / "flow.yaml").write_text(playbook)
    (folder / "flow.test.yaml").write_text(tests)
    return str(folder / "flow.yaml")


def test_a_call_that_may_be_made_twice_has_a_remedy(tmp_path: Path) -> None:
    done = in_process("simulate", write(tmp_path, PLAYBOOK, TESTS), "--orders", "2")
    assert done.exit_code == 0, done.output
    first, *rest = done.output.splitlines()
    assert first == "4 kills, everything twice, 2 orders in 1 case"
    assert rest[0].startswith("pay.charge (http) may be called twice, for example with the key ")
    assert "may be called twice without harm: pay.ask" in rest
    assert rest[-1] == "every execution ends as without faults"


def test_the_findings_are_data_too(tmp_path: Path) -> None:
    done = in_process("simulate", write(tmp_path, PLAYBOOK, TESTS), "--orders", "1", "--no-twice", "--output", "json")
    (case,) = json.loads(done.output)
    assert (case["test"], case["kills"], case["orders"]) == ("two are paid", 4, 1)
    assert [repeat["task"] for repeat in case["repeats"]] == ["pay.ask", "pay.charge"]


def test_an_end_that_depends_on_the_order_fails(tmp_path: Path) -> None:
    tests = "test: both write\nexpect: { status: completed }\n"
    done = in_process("simulate", write(tmp_path, BRANCHES, tests), "--kills", "0", "--no-twice")
    assert done.exit_code == 1, done.output
    assert "both write: ends differently in " in done.output and " of 10 orders (--seed " in done.output
    assert "steps fast, slow write ctx.winner, and the last one wins" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("flow.yaml", "-k", "three"), "-k three: none of 1 cases has such a name"),
        (("none.yaml",), "none.test.yaml: there is no such file"),
    ],
)
def test_a_case_that_does_not_exist_is_a_mistake_of_use(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    write(tmp_path, PLAYBOOK, TESTS)
    done = in_process("simulate", str(tmp_path / arguments[0]), *arguments[1:])
    assert isinstance(done.exception, Exit) and message in str(done.exception)
