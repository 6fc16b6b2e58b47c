"""Templates rendered as a task of an iteration saw its names: with what each recorded of them when it ran."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.engine.records import Commit, StreamId
from noetl_core.log.decoded_commits import RecentCommits
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.worker.claiming.journal import MAX_BUFFERED
from tests.api_requests import Answer, ask
from tests.waiting import run_until_it_waits

SAW = {name: f"{{{{ {name} }}}}" for name in ("iter", "ctx", "args", "steps", "_prev", "_task", "_attempt", "workload")}
"""Names that a task records in its result, as it sees them."""
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"


def source(*steps: dict[str, Any]) -> str:
    """A playbook of `steps` in a row."""
    row: list[dict[str, Any]] = [
        {**step, "next": {"arcs": [{"step": after["step"], "args": {"given": step["step"]}}]}} for step, after in pairwise(steps)
    ]
    return HEAD + f"workload: {{unit: EUR}}\nworkflow: {json.dumps([*row, steps[-1]])}\n"


def body(name: str) -> list[dict[str, Any]]:
    """Tasks that record what they saw, and write to iter and ctx."""
    return [
        {"name": "look", "kind": "noop", "result": SAW, "set_iter": {"seen": f"{name} {{{{ iter.index }}}}"}},
        {"name": "add", "kind": "noop", "result": {"n": 1}, "set_ctx": {"sum": "{{ (ctx.sum or 0) + 1 }}"}},
        {"name": "again", "kind": "noop", "result": SAW},
    ]


def loop(mode: str, items: str, name: str, **more: Any) -> dict[str, Any]:
    policy = {"reducers": {"sum": "sum"}} if mode == "parallel" else {}
    return {"in": items, "iterator": name, "spec": {"mode": mode, "policy": {**policy, **more.pop("policy", {})}}, **more}


FIRST = {"step": "first", "tool": {"kind": "noop", "result": [10, 20, 30], "set_ctx": {"base": 7}}}


class Run:
    """An execution that has run on a local store, and requests about it."""

    def __init__(self, text: str, *, waits: bool = False, most_buffered: int = MAX_BUFFERED) -> None:
        self.local = LocalWiring()
        self.local.worker.most_buffered = most_buffered
        self.service = Service(lambda: self.local.control, lambda: b"key")
        self.id = self.local.start(StartRequest(playbook=text)).execution_id
        if waits:
            run_until_it_waits(self.local, self.id)
        else:
            assert self.local.run(self.id)

    def events(self, **filters: str) -> list[dict[str, Any]]:
        found = ask(self.service, "GET", f"/api/executions/{self.id}/events", {**filters, "limit": "1000"}).body
        events: list[dict[str, Any]] = found["events"]
        return events

    def ask(self, template: Any, **where: str) -> Answer:
        sent = {"execution_id": self.id, "template": template, **where}
        return ask(self.service, "POST", "/api/context/render", {}, body=json.dumps(sent))

    def value(self, template: Any, **where: str) -> Any:
        answer = self.ask(template, **where)
        assert answer.status == 200, answer.sent
        return answer.body["value"]

    def refusal(self, **where: str) -> str:
        answer = self.ask("{{ iter }}", **where)
        assert answer.status in (400, 404, 422), answer.sent
        return json.dumps(answer.body["error"])


@pytest.fixture
def closing() -> Iterator[list[Run]]:
    runs: list[Run] = []
    yield runs
    for run in runs:
        run.local.close()


def each(mode: str, where: str, inner: str | None) -> str:
    nested = {} if inner is None else {"loop": loop(inner, "{{ [1, 2] }}", "part")}
    outer = loop(mode, "{{ steps.first.result }}", "row", policy={"exec": where}, **nested)
    step = {"step": "each", "args": {"fee": "{{ row }} {{ workload.unit }}"}, "loop": outer, "tool": body("each")}
    return source(FIRST, step, {"step": "last", "tool": body("last")[:1]})


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("mode", "where", "inner"),
    [
        ("sequential", "local", None),
        ("parallel", "local", None),
        ("parallel", "distributed", None),
        ("sequential", "local", "parallel"),
        ("parallel", "local", "sequential"),
        ("sequential", "local", "sequential"),
        ("parallel", "distributed", "sequential"),
    ],
)
def test_a_rendered_template_sees_the_values_its_task_saw_in_its_iteration(
    mode: str, where: str, inner: str | None, closing: list[Run]
) -> None:
    run = Run(each(mode, where, inner))
    closing.append(run)
    looked = [e for e in run.events(name="TaskProcessed") if e["task"] in ("look", "again")]
    assert len(looked) == (3 if inner is None else 6) * 2 + 1
    for event in looked:
        saw = event["data"]["outcome"]["result"]
        path = event.get("iteration")
        at = {} if path is None else {"iteration": ".".join(map(str, path))}
        asked = {name: SAW[name] for name in SAW if name != "steps"}
        expected = {name: saw[name] for name in asked}
        assert run.value(asked, step=event["step"], task=event["task"], **at) == expected
        # steps are those that had ended then, whichever of them the step's own templates read
        named = run.value("{{ steps | list }}", step=event["step"], task=event["task"], **at)
        assert named == (["first"] if event["step"] == "each" else ["first", "each"])


RETRIED = {
    "name": "try",
    "kind": "noop",
    "result": "{{ 1 / (_attempt - 1) }}",
    "spec": {
        "policy": {
            "rules": [
                {
                    "when": "{{ outcome.status == 'error' }}",
                    "then": {"do": "retry", "attempts": 3, "delay": 0, "set_iter": {"tried": "{{ _attempt }}"}},
                },
                {"else": {"then": {"do": "continue"}}},
            ]
        }
    },
}


def test_a_template_at_an_attempts_event_sees_the_values_of_that_attempt(closing: list[Run]) -> None:
    run = Run(source(FIRST, {"step": "each", "loop": loop("sequential", "{{ [4, 5] }}", "n"), "tool": [RETRIED, *body("each")]}))
    closing.append(run)
    attempts = [e for e in run.events(name="TaskProcessed", task="try") if e["iteration"] == [1]]
    assert [e["attempt"] for e in attempts] == [1, 2]
    asked = ["{{ _attempt }}", "{{ outcome.status }}", "{{ iter.tried }}", "{{ iter.n }}", "{{ ctx.sum }}"]
    for event, saw in zip(attempts, ([1, "error", None, 5, 1], [2, "ok", 1, 5, 1]), strict=True):
        # the event of a task says which task, of which iteration, of which step
        assert run.value(asked, task="try", at=event["event_id"]) == saw
        assert run.value(asked, step="each", task="try", iteration="1", at=event["event_id"]) == saw
    assert run.value(asked, step="each", task="try", iteration="1") == [2, "ok", 1, 5, 1]
    # just after the first attempt the iteration is about to make its second
    assert run.value(asked[:3], step="each", iteration="1", at=attempts[0]["event_id"]) == [2, None, 1]
    assert run.value("{{ look.iter.seen }}", step="each", iteration="1") is None
    assert run.value("{{ iter.seen }}", step="each", iteration="1") == "each 1"
    assert "has not come to task look" in run.refusal(step="each", task="look", iteration="1", at=attempts[0]["event_id"])
    assert "had not run then" in run.refusal(step="each", task="try", iteration="1", at=f"{run.id}.control.1.0")
    assert "had not begun" in run.refusal(step="each", task="try", iteration="1", at=f"{run.id}.{attempts[0]['step_run_id']}.0.0")


def test_undefined_names_are_reported_with_suggestions(closing: list[Run]) -> None:
    run = Run(each("sequential", "local", None))
    closing.append(run)
    found = run.ask("{{ iter.rwo }} {{ outcom.status }}", step="each", task="add", iteration="2").body["undefined"]
    assert found == [
        {"name": "iter.rwo", "hint": 'did you mean "row"?'},
        {"name": "outcom.status", "hint": 'did you mean "outcome"?'},
    ]


def test_a_waiting_task_renders_with_the_values_of_its_coming_call(closing: list[Run]) -> None:
    run = Run(source(FIRST, {"step": "ask", "tool": [*body("ask"), {"name": "wait", "kind": "callback"}]}), waits=True)
    closing.append(run)
    asked = ["{{ again._task }}", "{{ _prev._task }}", "{{ _task }}", "{{ ctx }}", "{{ given }}"]
    assert run.value(asked, step="ask", task="wait") == ["again", "again", "wait", {"base": 7, "sum": 1}, "first"]
    for name in ("keychain.x", "callback.token"):
        answer = run.ask(f"{{{{ {name} }}}}", step="ask", task="wait")
        assert (answer.status, answer.body["error"]["code"]) == (422, "template")


def test_a_wrong_step_task_or_iteration_is_refused_with_the_available_ones(closing: list[Run]) -> None:
    run = Run(each("parallel", "local", "sequential"))
    closing.append(run)
    assert "did you mean 'add'?" in run.refusal(step="each", task="ad", iteration="1.0")
    assert "did you mean 'each'?" in run.refusal(step="eachh", task="add", iteration="1.0")
    assert "3.5" in run.refusal(step="each", task="add", iteration="1")
    assert "iteration is required" in run.refusal(step="each", task="add")
    assert "has no loop" in run.refusal(step="last", task="look", iteration="0")
    assert "has no iteration 7.0" in run.refusal(step="each", task="add", iteration="7.0")
    assert "is not an iteration" in run.refusal(step="each", task="add", iteration="x")
    assert "step is required" in run.refusal(task="add")
    assert "step is required" in run.refusal(iteration="1.0")


def test_an_iteration_that_a_redrive_kept_renders_only_before_the_redrive(closing: list[Run]) -> None:
    failing = {"name": "fail", "kind": "noop", "result": "{{ 1 / (iter.n - 5) if ctx.fixed is undefined else 1 }}"}
    tasks = [*body("each"), failing]
    text = source(FIRST, {"step": "each", "loop": loop("sequential", "{{ [4, 5] }}", "n"), "tool": tasks})
    run = Run(text)
    closing.append(run)
    before = run.events(tail="1")[-1]["event_id"]
    again = ask(
        run.service,
        "POST",
        f"/api/executions/{run.id}/redrive",
        {},
        body=json.dumps({"from": "each/fail@1", "ctx": {"fixed": 1}}),
    )
    assert again.status in (200, 202), again.sent
    assert run.local.run(run.id)
    asked = ["{{ iter }}", "{{ ctx }}", "{{ _prev._task }}", "{{ outcome.status }}"]
    saw = run.value(asked, step="each", task="fail", iteration="1")
    assert saw == [{"n": 5, "index": 1, "seen": "each 1"}, {"base": 7, "fixed": 1, "sum": 2}, "again", "ok"]
    assert "before the redrive" in run.refusal(step="each", task="fail", iteration="0")
    assert run.value(asked, step="each", task="fail", iteration="0", at=before)[3] == "ok"
    assert run.value(asked, step="each", task="fail", iteration="1", at=before)[1::2] == [{"base": 7, "sum": 2}, "error"]


@pytest.mark.nightly
def test_late_iterations_read_ctx_only_if_the_template_uses_it(closing: list[Run]) -> None:
    tasks = {"name": "n", "kind": "noop", "result": 1, "set_ctx": {"sum": "{{ (ctx.sum or 0) + 1 }}"}}
    run = Run(
        source(FIRST, {"step": "each", "loop": loop("sequential", "{{ range(3000) | list }}", "n"), "tool": tasks}),
        most_buffered=100,
    )
    closing.append(run)
    read = 0

    class Counting(RecentCommits):
        def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Sequence[Commit]:
            nonlocal read
            found = super().read(stream, after, limit)
            read += len(found)
            return found

    run.local.control.recent = Counting(run.local.store)
    assert run.value("{{ iter.n }}", step="each", task="n", iteration="2500") == 2500
    few = read
    assert run.value("{{ ctx.sum }}", step="each", task="n", iteration="2500") == 2500
    assert few < 40 < read - few
