"""A test of a playbook runs it in virtual time, with scripted tools, and touches nothing outside."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from noetl_core.testing.acts import Act
from noetl_core.testing.play import Scene, play
from noetl_core.values.instants import SECOND
from tests.unit.testing.scenes import FETCH, HEAD, LONG, RACE, played


class TestTime:
    def test_a_year_of_waiting_takes_no_time(self) -> None:
        cpu = time.process_time()
        year = played(LONG + "workflow:\n  - step: start\n    tool: { kind: wait, duration: 365d }\n")
        assert (year.status, year.seconds) == ("completed", 365 * 86_400)
        assert len(year.events()) < 20 and time.process_time() - cpu < 30

    @pytest.mark.parametrize(("seconds", "winner"), [(2, "b"), (4, "a")])
    def test_branches_wait_beside_each_other(self, seconds: int, winner: str) -> None:
        retried = [{"error": {}, "http": {"status": 503}}, {"ok": {}}]
        race = played(RACE, {"a": retried, "b": {"ok": {}, "seconds": seconds}})
        assert (race.ctx, race.seconds) == ({"winner": winner}, max(seconds, 3))

    def test_the_same_test_gives_the_same_events(self) -> None:
        tools = {"a": [{"error": {"kind": "timeout"}}, {"ok": {}}], "b": {"ok": {}, "seconds": 1}}
        one, other = played(RACE, tools), played(RACE, tools)
        assert one.events() == other.events()

    def test_a_task_that_takes_too_long_times_out(self) -> None:
        slow = played(FETCH.replace("orders }", "orders, spec: { timeout: 30 } }"), {"fetch.page": {"ok": {}, "seconds": 600}})
        assert slow.error is not None
        assert (slow.error["kind"], slow.seconds) == ("timeout", 30)

    def test_a_step_ends_at_its_timeout(self) -> None:
        text = FETCH + "    spec: { policy: { lifecycle: { timeout_s: 30 } } }\n"
        slow = played(text, {"fetch.page": {"ok": {}, "seconds": 600}})
        assert slow.error is not None
        assert (slow.error["kind"], slow.error["message"], slow.seconds) == ("timeout", "step fetch took longer than 30 s", 30)

    def test_a_test_begins_when_it_says(self) -> None:
        assert played(FETCH, {"fetch": {"ok": {}}}, now=1_000 * SECOND).events()[0]["timestamp"].startswith("1970-01-01T00:16:40")


class TestActs:
    SIGNAL = "workflow:\n  - step: ask\n    tool: { kind: callback, signal: go }\n"
    TOKEN = "workflow:\n  - step: ask\n    tool: { name: answer, kind: callback, timeout: 1h }\n"

    def test_a_signal_comes_when_a_task_waits_for_it(self) -> None:
        told = played(self.SIGNAL, None, Act("signal", {"name": "go", "data": {"n": 1}}, after_s=90))
        assert (told.status, told.result, told.seconds) == ("completed", {"n": 1}, 90)

    @pytest.mark.parametrize(("minutes", "status"), [(59, "completed"), (61, "failed")])
    def test_an_answer_comes_before_the_timeout_or_too_late(self, minutes: int, status: str) -> None:
        asked = played(self.TOKEN, None, Act("callback", {"task": "ask.answer", "data": 1}, after_s=minutes * 60))
        assert (asked.status, len(asked.acts.left)) == (status, int(status == "failed"))

    def test_an_operator_pauses_and_resumes(self) -> None:
        acts = (Act("pause"), Act("resume", after_s=100), Act("signal", {"name": "go", "data": {}}))
        assert played(self.SIGNAL, None, *acts).seconds == 100

    def test_a_test_may_end_while_its_execution_waits(self) -> None:
        assert played(self.SIGNAL, until="waiting").status == "waiting"

    def test_an_execution_that_nobody_answers_ends_by_its_lifetime(self) -> None:
        assert played(self.SIGNAL).status == "failed"


class TestTools:
    def test_a_task_that_touches_the_world_must_be_scripted(self) -> None:
        missing = played(FETCH)
        assert [(each.task, each.remedy) for each in missing.unanswered] == [
            ("fetch.page", "tools:\n  fetch.page: {ok: {data: {}}}")
        ]

    @pytest.mark.parametrize(
        ("tool", "result"),
        [
            ("kind: python, args: { n: 20 }, code: 'result = n + 1'", 21),
            ("kind: noop, result: 3", 3),
            ("kind: kv, action: get, key: n, default: 4", {"value": 4}),
        ],
    )
    def test_a_task_that_touches_nothing_runs(self, tool: str, result: Any) -> None:
        ran = played(f"workflow:\n  - step: start\n    tool: {{ {tool} }}\n")
        assert (ran.status, ran.unanswered) == ("completed", [])
        assert ran.result == result or ran.result["value"] == 4

    @pytest.mark.parametrize(
        "tool",
        [
            "kind: python, code: 'result = 1', spec: { network: true }",
            "kind: duckdb, sources: { t: 's3://bucket/key' }, command: FROM t",
            "kind: shell, command: [ls]",
        ],
    )
    def test_a_task_that_may_reach_outside_does_not_run(self, tool: str) -> None:
        assert len(played(f"workflow:\n  - step: start\n    tool: {{ {tool} }}\n").unanswered) == 1

    def test_iterations_attempts_and_conditions_choose_an_outcome(self) -> None:
        text = """workflow:
  - step: each
    loop: { in: [5, 6, 7], iterator: n }
    tool:
      name: page
      kind: http
      url: "http://shop.example/{{ iter.n }}"
      spec: { policy: { rules: [{ when: "{{ outcome.status == 'error' }}", then: { do: retry, delay: 60 } }, { else: { then: { do: continue } } }] } }
"""
        script = [
            {"index": 1, "attempt": 1, "error": {}, "http": {"status": 500}},
            {"when": "{{ '7' in inputs.url }}", "ok": {"data": "last"}},
            {"ok": {"data": "{{ inputs.url }}"}},
        ]
        loop = played(text, {"each.page": script})
        assert [r["data"] for r in loop.result] == ["http://shop.example/5", "http://shop.example/6", "last"]
        assert ([call.path for call in loop.calls], loop.seconds) == ([(0,), (1,), (1,), (2,)], 60)

    def test_secrets_are_masked_in_calls(self) -> None:
        text = "keychain: [{ name: shop, kind: bearer, credential: shop }]\n" + FETCH.replace(
            "orders }", "orders, headers: { key: 'Bearer {{ keychain.shop.token }}' } }"
        )
        seen = played(text, {"fetch": {"ok": {}}}, secrets={"shop": {"token": "very-secret-key"}})
        assert (seen.error, seen.calls_of("fetch.page")[0]["headers"]) == (None, {"key": "Bearer ***"})

    def test_a_credential_that_the_test_lacks_is_named(self) -> None:
        text = FETCH.replace("orders }", "orders, headers: { key: '{{ keychain.shop.token }}' } }")
        missing = played("keychain: [{ name: shop, kind: bearer, credential: shop }]\n" + text, {"fetch": {"ok": {}}})
        assert missing.error is not None and "add it under secrets" in missing.error["message"]

    def test_tasks_of_the_workbook_and_of_children_are_scripted(self, tmp_path: Path) -> None:
        (tmp_path / "child.yaml").write_text(HEAD.replace("here", "child") + FETCH)
        (tmp_path / "parent.yaml").write_text(
            HEAD + "workbook: { get: { kind: http, url: http://book.example } }\n"
            "workflow:\n  - step: book\n    tool: { kind: workbook, task: get }\n    next: { arcs: [{ step: call }] }\n"
            "  - step: call\n    tool: { kind: playbook, path: mine/child }\n"
        )
        tools = {"workbook.get": {"ok": {"data": 1}}, "mine/child#fetch.page": {"ok": {"data": 2}}}
        parent = play(Scene(tmp_path / "parent.yaml", tools=tools))
        assert (parent.status, parent.result["data"], parent.unanswered) == ("completed", 2, [])
        assert [call.task for call in parent.calls] == ["book.book_task", "fetch.page"]
