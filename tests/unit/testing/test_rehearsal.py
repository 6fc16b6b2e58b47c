"""`noetl rehearse` and `noetl bisect`: recorded executions played again, with nothing called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from noetl_cli.backends.opening import backend
from noetl_cli.commands.authoring.record import recorded_execution
from noetl_cli.errors import Exit
from noetl_core.control.admit import StartRequest
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.redrive.plan import Redrive
from noetl_core.runtime.local import LocalWiring
from noetl_core.testing.recording import Recorded
from noetl_core.testing.rehearsal import NoDifference, bisect, rehearse
from noetl_core.tools.base import ToolCall
from noetl_core.tools.registry import ToolRegistry
from tests.commands import in_process

TEXT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: orders, path: tests/orders }
executor: { spec: { strict: true } }
workload: { order: null }
workflow:
  - step: check
    tool: { kind: http, url: "http://shop.example/orders/{{ workload.order }}" }
    next:
      spec: { mode: exclusive }
      arcs:
        - { step: ship, when: "{{ event.result.data.total > 100 }}" }
        - { step: refuse }
  - step: ship
    tool: { kind: http, method: POST, url: http://shop.example/ship, json: { order: "{{ workload.order }}" } }
    next: { arcs: [{ step: told, args: { how: shipped } }] }
  - step: refuse
    tool: { kind: noop }
    next: { arcs: [{ step: told, args: { how: refused } }] }
  - step: told
    tool: { kind: noop, result: "{{ args.how }}" }
"""
CHAIN = (
    """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: chain, path: tests/chain }
workload: { seed: 0 }
workflow:
"""
    + "".join(
        f"  - step: s{n}\n    tool: {{ kind: http, url: 'http://x.example/{n}' }}\n"
        + (f"    next: {{ arcs: [{{ step: s{n + 1} }}] }}\n" if n < 39 else "    next: { arcs: [{ step: last }] }\n")
        for n in range(40)
    )
    + """  - step: last
    tool: { kind: noop, result: "{{ 10 // steps.s23.result.data.n }}", spec: { policy: { rules: [{ when: "{{ outcome.status == 'error' }}", then: { do: fail } }] } } }
"""
)


class Shop:
    """A tool in place of `http`: orders have a total of ten times their number."""

    kind, inline = "http", True

    def __init__(self) -> None:
        self.calls = 0
        self.zero = self.down = False

    def run(self, call: ToolCall) -> Outcome:
        self.calls += 1
        if self.down and call.inputs["url"].endswith("/30"):
            return Outcome.failed("connection", "nobody answers")
        path = call.inputs["url"].rpartition("/")[2]
        data = {"total": 10 * int(path)} if "orders" in call.inputs["url"] else {"n": 0 if self.zero and path == "23" else 2}
        body = {"status": 200, "headers": {}, "data": data, "url": call.inputs["url"], "elapsed_ms": 1}
        return Outcome.ok(body, http={"status": 200, "headers": {}})


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Shop, Any]]:
    monkeypatch.chdir(tmp_path)
    tool = Shop()
    wiring = LocalWiring(tmp_path / ".noetl" / "runs.db", tools=ToolRegistry({"http": tool}))

    def run(text: str, **payload: Any) -> str:
        started = wiring.start(StartRequest(playbook=text, payload=payload))
        assert wiring.run(started.execution_id, timeout_s=60)
        return started.execution_id

    run.wiring = wiring  # type: ignore[attr-defined]  # for tests that operate an execution
    yield tool, run
    wiring.close()


def recorded(execution_id: str) -> Recorded:
    where = backend("local", None)
    try:
        return recorded_execution(where, execution_id)
    finally:
        where.close()


def test_a_changed_guard_is_rehearsed_over_recorded_executions(shop: Any, tmp_path: Path) -> None:
    tool, run = shop
    for order in (5, 9, 11, 12, 50):
        run(TEXT, order=order)
    called = tool.calls
    file = tmp_path / "orders.yaml"
    file.write_text(TEXT)
    assert "5 executions: 5 as before, 0 not" in in_process("rehearse", str(file)).stdout
    file.write_text(TEXT.replace("> 100", "> 110"))
    done = in_process("rehearse", str(file))
    assert isinstance(done.exception, Exit) and done.exception.code == 1
    assert "5 executions: 4 as before, 1 not" in done.stdout
    assert "another way: check -> ship -> told becomes check -> refuse -> told" in done.stdout
    assert 'result is "refused", was "shipped"' in done.stdout
    file.write_text(TEXT.replace("> 100", "> 60"))
    assert "calls ship.ship_task, which it had not called: its answer is unknown" in in_process("rehearse", str(file)).stdout
    assert tool.calls == called, "nothing outside is called"


def test_an_edited_task_is_run_if_it_touches_nothing_outside(shop: Any) -> None:
    _, run = shop
    execution_id = run(TEXT, order=5)
    found = rehearse(recorded(execution_id), TEXT.replace('result: "{{ args.how }}"', 'result: "{{ args.how }}!"'))
    assert found.changes == ('result is "refused!", was "refused"',) and found.calls == (3, 3)


def test_the_one_answer_that_makes_the_difference_is_named(shop: Any) -> None:
    tool, run = shop
    good = run(CHAIN)
    tool.zero = True
    bad = run(CHAIN)
    called = tool.calls
    found = bisect(recorded(good), recorded(bad))
    assert found.what == "answer of s23.s23_task" and found.tried <= 8
    assert (found.good["ok"]["data"], found.bad["ok"]["data"]) == ({"n": 2}, {"n": 0})
    assert tool.calls == called
    with pytest.raises(NoDifference, match="both executions end alike"):
        bisect(recorded(good), recorded(good))


def test_an_input_may_be_the_difference(shop: Any) -> None:
    _, run = shop
    found = bisect(recorded(run(TEXT, order=50)), recorded(run(TEXT, order=5)))
    assert found.what == "answer of check.check_task", "the order alone changes no guard"


def test_a_redriven_execution_is_recorded_as_it_ended(shop: Any, tmp_path: Path) -> None:
    tool, run = shop
    tool.down = True
    execution_id = run(CHAIN)
    tool.down = False
    redrive(run.wiring.control, execution_id, Redrive())
    assert run.wiring.run(execution_id, timeout_s=60)
    (tmp_path / "chain.yaml").write_text(CHAIN)
    done = in_process("record", execution_id)
    assert done.exit_code == 0 and "replays the execution" in done.stdout, done.exception
    text = (tmp_path / "chain.test.yaml").read_text()
    assert "status: completed" in text and "connection" not in text, "the answer of the redrive counts"
    assert in_process("test", "chain.test.yaml").exit_code == 0


BOTH = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: both, path: tests/both }
workload: { a: 0, b: 0 }
workflow:
  - step: weigh
    tool: { kind: noop, result: "{{ 'bad' if workload.a and workload.b else 'good' }}" }
"""


def test_a_value_that_makes_the_difference_only_with_others_says_so(shop: Any) -> None:
    _, run = shop
    good = run(BOTH, a=0, b=0)
    found = bisect(recorded(good), recorded(run(BOTH, a=1, b=1)))
    assert (found.what, found.with_others) == ("payload.b", 1)
    shown = in_process("bisect", good, "@last")
    assert "only together with 1 other value of the bad execution" in shown.stdout
    assert bisect(recorded(run(BOTH, a=1, b=0)), recorded(run(BOTH, a=1, b=1))).with_others == 0


def test_executions_of_two_playbooks_are_not_compared(shop: Any) -> None:
    _, run = shop
    done = in_process("bisect", run(BOTH), run(TEXT, order=5))
    assert isinstance(done.exception, Exit) and done.exception.code == 2
    assert "executions of two playbooks, tests/both and tests/orders" in str(done.exception)


def test_an_execution_that_cannot_be_played_is_counted_as_such(shop: Any, tmp_path: Path) -> None:
    _, run = shop
    text = BOTH.replace("workflow:", 'executor: { spec: { result: "{{ execution_id }}" } }\nworkflow:')
    run(text)
    (tmp_path / "both.yaml").write_text(text)
    done = in_process("rehearse", str(tmp_path / "both.yaml"))
    assert done.exception is None and "1 execution: 0 as before, 0 not, 1 not played" in done.stdout


def test_no_execution_is_an_error(shop: Any, tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(TEXT)
    with closing(backend("local", None)):
        done = in_process("rehearse", str(tmp_path / "orders.yaml"))
    assert isinstance(done.exception, Exit) and "no execution of tests/orders has ended" in str(done.exception)
