"""Each action of the case dialect keeps its effect after the migration."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl_core.engine.outcome import Outcome
from tests.unit.migrate.legacy import HEAD, Ended, Script, canonical, http_error, ok, page, run

HTTP = "{ kind: http, url: 'https://x' }"


def step(*entries: str, tool: str = HTTP, more: str = "next: after", after: str = "{{ args }}") -> str:
    """A playbook of a step `work` with these `case` entries (`when: then`, both in flow style), and one that follows."""
    case = "".join(
        f'      - {{ when: "{{{{ {when} }}}}", then: {then} }}\n' for when, then in (e.split(" => ", 1) for e in entries)
    )
    return HEAD + (
        "workload: { n: 3 }\nworkflow:\n  - step: work\n"
        + (f"    tool: {tool}\n" if tool else "")
        + (f"    case:\n{case}" if entries else "")
        + "".join(f"    {line}\n" for line in more.splitlines())
        + f"  - {{ step: after, tool: {{ kind: noop, result: {json.dumps(after)} }} }}\n"
        + "  - { step: rescue, tool: { kind: noop, result: '{{ args }}' } }\n"
    )


DONE = "event.name == 'call.done'"


def body(**values: Any) -> Outcome:
    return Outcome.ok({"status": 200, "headers": {}, "data": values}, http={"status": 200})


def work(*entries: str, http: Script = (), **options: Any) -> Ended:
    return run(step(*entries, **options), {"http": http, "python": http, "postgres": [ok(), ok(), ok()]})


def test_an_error_that_an_entry_answers_does_not_fail_the_step() -> None:
    ended = work(
        f"{DONE} and error is defined and error.status == 404 => {{ set: {{ ctx: {{ missing: true, why: '{{{{ error.message }}}}' }} }} }}",
        f"{DONE} and response is defined => {{ set: {{ found: '{{{{ response.x }}}}' }} }}",
        http=[http_error(404)],
    )
    assert (ended.status, dict(ended.ctx)) == ("completed", {"missing": True, "why": "HTTP 404"})
    found = work(
        f"{DONE} and error is defined and error.status == 404 => {{ set: {{ ctx: {{ missing: true }} }} }}",
        f"{DONE} and response is defined => {{ set: {{ found: '{{{{ response.x }}}}' }} }}",
        http=[body(x=5)],
    )
    assert dict(found.ctx) == {"found": 5}
    assert found.steps["work"]["data"] == {"x": 5}


def test_an_error_that_no_entry_matches_fails_the_step_with_its_own_kind() -> None:
    ended = work(f"{DONE} and error.status == 404 => {{ set: {{ ctx: {{ missing: true }} }} }}", http=[http_error(500)])
    failure = ended.state.failure
    assert failure is not None
    assert (ended.status, failure["kind"], failure["message"]) == ("failed", "server_error", "HTTP 500")
    assert ended.visits("after") == 0


def test_call_error_is_the_error_side_of_call_done() -> None:
    ended = work(
        "event.name == 'call.error' => { next: [{ step: rescue, args: { why: '{{ error.message }}' } }] }", http=[http_error(500)]
    )
    assert (ended.status, ended.steps["rescue"], ended.visits("after")) == ("completed", {"why": "HTTP 500"}, 0)


def test_the_entry_beside_retry_acts_when_the_tries_are_used_up() -> None:
    retry = f"{DONE} and error.status == 503 => {{ retry: {{ max_attempts: 3, initial_delay: 0 }} }}"
    rescue = f"{DONE} and error is defined => {{ next: [{{ step: rescue }}] }}"
    ended = work(retry, rescue, http=[http_error(503)] * 3)
    assert (ended.status, len(ended.tools["http"].calls), ended.visits("rescue"), ended.visits("after")) == ("completed", 3, 1, 0)
    assert work(retry, rescue, http=[http_error(503), body(x=1)]).visits("after") == 1
    assert len(work(retry, rescue, http=[http_error(400)]).tools["http"].calls) == 1


def test_a_retry_of_a_successful_call_continues_after_its_last_attempt() -> None:
    ended = work(
        f"{DONE} and response.state == 'busy' => {{ retry: {{ max_attempts: 2, initial_delay: 0 }}, set: {{ busy: true }} }}",
        http=[body(state="busy"), body(state="busy")],
    )
    assert (ended.status, len(ended.tools["http"].calls), dict(ended.ctx)) == ("completed", 2, {"busy": True})


def test_entries_after_a_call_act_before_the_call_is_made_again() -> None:
    ended = work(
        "event.name == 'step.enter' => { set: { ctx: { seen: [] } } }",
        f"{DONE} and response.n < 3 => {{ call: {{ params: {{ n: '{{{{ response.n + 1 }}}}' }} }} }}",
        f"{DONE} => {{ collect: {{ from: response.n, into: seen }} }}",
        tool="{ kind: http, url: 'https://x', params: { n: 1, keep: yes please } }",
        more='next: [{ step: after, args: { seen: "{{ ctx.seen }}" } }]',
        http=lambda call: body(n=call.inputs["params"]["n"]),
    )
    assert ended.steps["after"] == {"seen": [1, 2, 3]}
    assert [c.inputs["params"] for c in ended.tools["http"].calls] == [{"n": n, "keep": "yes please"} for n in (1, 2, 3)]


def test_every_call_begins_with_the_inputs_as_written() -> None:
    """An input that one call overrides and the next does not is as written again."""
    ended = work(
        f"{DONE} and response.turn == 1 => {{ call: {{ endpoint: 'https://x/{{{{ response.turn }}}}', headers: {{ A: b }} }} }}",
        f"{DONE} and response.turn == 2 => {{ call: {{ params: {{ late: 1 }} }} }}",
        tool="{ kind: http, endpoint: '{{ workload.base | default(\"https://x\") }}/0', headers: { A: a } }",
        http=[body(turn=1), body(turn=2), body(turn=3)],
    )
    sent = [(c.inputs["url"], c.inputs["headers"], c.inputs.get("params")) for c in ended.tools["http"].calls]
    assert sent == [
        ("https://x/0", {"A": "a"}, None),
        ("https://x/1", {"A": "b"}, None),
        ("https://x/0", {"A": "a"}, {"late": 1}),
    ]


def test_the_result_of_an_entry_is_the_steps_result() -> None:
    ended = work(f"{DONE} => {{ result: {{ from: response.rows }} }}", http=[body(rows=[1, 2])], after="{{ work }}")
    assert (ended.steps["work"], ended.steps["after"]) == ([1, 2], [1, 2])
    built = work(f"{DONE} => {{ result: {{ first: '{{{{ response.rows[0] }}}}' }} }}", http=[body(rows=[1, 2])])
    assert built.steps["work"] == {"first": 1}


def test_result_of_a_loop_is_read_downstream_as_the_step_and_at_its_exit() -> None:
    source = step(
        f"{DONE} and response.last => {{ result: {{ from: response.n }} }}",
        "event.name == 'step.exit' => { next: [{ step: after, args: { got: '{{ result }}' } }] }",
        more="loop: { in: [1, 2], iterator: i }",
        after="{{ [args.got, steps.work.result, work] }}",
    )
    ended = run(source, {"http": [body(n=1, last=False), body(n=2, last=True)]})
    assert ended.steps["after"] == [2, 2, 2]


def test_fail_fails_with_its_message_and_skip_ends_the_step() -> None:
    ended = work(f"{DONE} and response.bad => {{ fail: 'bad: {{{{ response.bad }}}}' }}", http=[body(bad="x")])
    assert ended.state.failure is not None
    assert (ended.status, ended.state.failure["message"]) == ("failed", "bad: x")
    skipped = work("event.name == 'step.enter' and workload.n == 3 => { skip: true }", http=[])
    assert (skipped.status, len(skipped.tools["http"].calls), skipped.visits("after")) == ("completed", 0, 1)
    bare = work(f"{DONE} => fail", http=[body()])
    assert bare.status == "failed"
    looped = work(
        f"{DONE} and i == 2 => {{ skip: true }}", more="loop: { in: [1, 2, 3], iterator: i }\nnext: after", http=lambda _: body()
    )
    assert (looped.status, len(looped.tools["http"].calls)) == ("completed", 2)


def test_a_step_that_is_skipped_exits_too() -> None:
    leaving = "event.name == 'step.exit' => { set: { left: true }, skip: true }"
    ended = work(
        f"{DONE} => {{ skip: true }}",
        leaving,
        "event.name == 'step.exit' and left => { next: [{ step: rescue }] }",
        http=[body()],
    )
    assert (ended.status, dict(ended.ctx)["left"], ended.visits("rescue"), ended.visits("after")) == ("completed", True, 1, 0)


def test_a_next_that_was_taken_counts_for_nothing_once_the_step_fails() -> None:
    entries = (
        f"{DONE} and response is defined => {{ next: [{{ step: rescue }}], call: {{ params: {{ n: 2 }} }} }}",
        f"{DONE} and error.status == 404 => {{ set: {{ missing: true }} }}",
    )
    tool = "{ kind: http, url: 'https://x', params: { n: 1 } }"
    ended = work(*entries, tool=tool, http=[body(), http_error(500)])
    assert (ended.status, ended.visits("rescue"), ended.visits("after")) == ("failed", 0, 0)
    ended = work(*entries, tool=tool, http=[body(), http_error(404)])
    assert (ended.status, ended.visits("rescue"), ended.visits("after")) == ("completed", 1, 0)


def test_next_at_step_enter_goes_there_without_the_call() -> None:
    ended = work(
        "event.name == 'step.enter' and workload.n == 3 => { next: [{ step: rescue, args: { n: '{{ workload.n }}' } }] }"
    )
    assert (ended.status, ended.steps["rescue"], ended.visits("after"), ended.tools["http"].calls) == (
        "completed",
        {"n": 3},
        0,
        [],
    )


def test_next_at_call_done_reaches_all_its_targets_with_the_response() -> None:
    ended = work(
        f"{DONE} and response.x => {{ next: [{{ step: after, args: {{ x: '{{{{ response.x }}}}' }} }}, rescue] }}",
        http=[body(x=9)],
        more="next: rescue",
    )
    assert (ended.steps["after"], ended.visits("rescue")) == ({"x": 9}, 1)


def test_a_later_run_of_the_step_begins_afresh() -> None:
    """Collected values of one run, and their target, do not affect the next."""
    source = step(
        f"{DONE} => {{ collect: {{ from: response.n, into: seen }} }}",
        f"{DONE} and response.n == 1 => {{ next: [{{ step: rescue }}] }}",
        "event.name == 'step.exit' => { set: { count: '{{ (ctx.count | default(0)) + 1 }}' } }",
        more='next: [{ step: after, args: { seen: "{{ seen }}" } }]',
    ).replace(
        "{ step: rescue, tool: { kind: noop, result: '{{ args }}' } }", "{ step: rescue, tool: { kind: noop }, next: work }"
    )
    source = source.replace("{{ seen }}", "{{ ctx.seen }}")
    ended = run(source, {"http": [body(n=1), body(n=2)]})
    assert (ended.status, ended.visits("work"), ended.steps["after"], ended.ctx["count"]) == ("completed", 2, {"seen": [2]}, 2)


def test_step_exit_acts_at_the_end_of_a_plain_step() -> None:
    ended = work(
        "event.name == 'step.exit' and result.x => { sink: { tool: { kind: postgres, auth: a, command: 'INSERT', params: ['{{ result.x }}'] } }, set: { ctx: { x: '{{ result.x }}' } } }",
        "event.name == 'step.exit' and result.x > 1 => { result: { from: result.x }, next: [{ step: rescue }] }",
        http=[body(x=2)],
    )
    assert (ended.status, dict(ended.ctx), ended.steps["work"], ended.visits("rescue"), ended.visits("after")) == (
        "completed",
        {"x": 2, "work_next": ["case_2"]},
        2,
        1,
        0,
    )
    assert [c.inputs["params"] for c in ended.tools["postgres"].calls] == [[2]]


def test_set_and_result_at_step_exit_of_a_loop_are_written_at_its_boundary() -> None:
    ended = work(
        "event.name == 'step.exit' => { set: { ctx: { all: '{{ result | length }}' } } }",
        "event.name == 'step.exit' and workload.n > 5 => { set: { many: true } }",
        more="loop: { in: [1, 2], iterator: i }\nnext: after",
        http=lambda _: body(x=1),
    )
    assert (ended.status, dict(ended.ctx)) == ("completed", {"all": 2, "many": None})


def test_a_list_of_actions_is_taken_in_order() -> None:
    ended = work(
        f"{DONE} => [{{ set: {{ ctx: {{ a: '{{{{ response.x }}}}' }} }} }}, {{ set: {{ b: '{{{{ ctx.a + 1 }}}}' }} }}, {{ set: {{ ctx.c: '{{{{ b + 1 }}}}' }} }}]",
        http=[body(x=1)],
    )
    assert dict(ended.ctx) == {"a": 1, "b": 2, "c": 3}


def test_conditions_may_join_events() -> None:
    ended = work(
        "(event.name == 'call.done' and response.x) or (event.name == 'step.exit' and workload.n == 3) => { set: { n: '{{ (ctx.n | default(0)) + 1 }}' } }",
        "event.name in ['call.done', 'call.error'] and event.name != 'step.exit' => { set: { m: 1 } }",
        "response.x == 1 => { set: { bare: true } }",
        http=[body(x=1)],
    )
    assert dict(ended.ctx) == {"n": 2, "m": 1, "bare": True}


def test_a_step_without_a_tool_may_set_and_route() -> None:
    ended = work("event.name == 'step.enter' => { set: { ctx: { a: 1 } } }", tool="")
    assert (ended.status, dict(ended.ctx), ended.visits("after")) == ("completed", {"a": 1}, 1)


def test_names_that_the_pipeline_needs_give_way() -> None:
    """An iterator called `again`, and a ctx key called like the one for transitions."""
    ended = work(
        f"{DONE} and again == 1 and response.first => {{ call: {{ params: {{ n: 2 }} }}, set: {{ ctx: {{ work_next: 5 }} }} }}",
        f"{DONE} and again == 2 => {{ next: [{{ step: rescue, args: {{ n: '{{{{ ctx.work_next }}}}' }} }}] }}",
        tool="{ kind: http, url: 'https://x', params: { n: 1 } }",
        more="loop: { in: [1, 2, 3], iterator: again }\nnext: after",
        http=lambda call: body(first=call.inputs["params"]["n"] == 1),
    )
    assert (ended.status, ended.steps["rescue"], ended.visits("after")) == ("completed", {"n": 5}, 0)
    assert [c.inputs["params"]["n"] for c in ended.tools["http"].calls] == [1, 2, 1]


@pytest.mark.parametrize("rows", ["result[0].id", "response[0].id", "result.rows[0].id"])
def test_rows_of_a_query_are_read_as_the_list_they_were(rows: str) -> None:
    source = step(
        f"{DONE} => {{ set: {{ ctx: {{ id: '{{{{ {rows} }}}}' }} }} }}", tool="{ kind: pg, auth: a, command: 'SELECT 1' }"
    )
    ended = run(source, {"postgres": [ok({"rows": [{"id": 4}], "columns": ["id"], "row_count": 1})]})
    assert dict(ended.ctx) == {"id": 4}


def test_a_sink_of_a_step_without_case_is_its_last_task() -> None:
    source = step(
        more="sink: { tool: { kind: postgres, auth: a, command: 'INSERT' }, args: { x: '{{ result.x }}' } }\nnext: after",
        after="{{ work.data }}",
    )
    source = source.replace("}, args: { x: '{{ result.x }}' } }", ", args: { x: '{{ result.x }}' } } }")
    ended = run(source, {"http": [body(x=3)], "postgres": [ok()]})
    assert ([c.inputs["params"] for c in ended.tools["postgres"].calls], ended.steps["after"]) == ([{"x": 3}], {"x": 3})


def test_older_words_for_tool_keys_are_translated() -> None:
    text = canonical(step(tool="{ kind: py, with: { a: 1 }, timeout: 5, code: 'result = a' }"))
    assert "tool: { kind: python, args: { a: 1 }, code: 'result = a', spec: { timeout: 5 } }" in text
    assert page(1, False).status == "ok"


def test_a_workbook_task_answers_as_the_kind_it_is() -> None:
    source = step(f"{DONE} => {{ set: {{ ctx: {{ x: '{{{{ response.x }}}}' }} }} }}", tool="{ kind: workbook, name: fetch }")
    source = source.replace("workflow:\n", "workbook: { fetch: { kind: http, url: 'https://x' } }\nworkflow:\n", 1)
    ended = run(source, {"http": [body(x=6)]})
    assert (ended.status, dict(ended.ctx)) == ("completed", {"x": 6})
