"""Normal forms of the accepted forms (formal specification 2, canonical step spec 3, 5 and 7, resolutions 1-31)."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_core.dsl.dump import dump
from noetl_core.dsl.model import UNSET, Join, Playbook, Step, Task
from noetl_core.dsl.parse import MANY_OBJECTS, check, collection_paused, digest_of, parse_playbook
from tests.properties import examples
from tests.unit.dsl.broken_playbooks import HEAD, executor, flow, tasks
from tests.unit.dsl.models import MAPS, VALUES


def only(text: str) -> Step:
    return parse_playbook(text).steps[0]


def task(text: str) -> Task:
    return only(text).tasks[0]


def then_of(text: str) -> Any:
    policy = task(text).policy
    assert policy is not None
    return policy.rules[0].then


# --- task shapes


@examples(30)
@given(result=VALUES, spec=st.booleans(), set_ctx=MAPS)
def test_all_task_shapes_normalise_equal(result: Any, spec: bool, set_ctx: dict[str, Any]) -> None:
    tool: dict[str, Any] = {"kind": "noop", "result": result, "set_ctx": set_ctx}
    if spec:
        tool["spec"] = {"timeout_s": 5, "policy": {"rules": [{"else": {"then": {"do": "fail"}}}]}}
    shapes: list[Any] = [
        [{"name": "s_task", **tool}],
        [{"s_task": tool}],
        tool,
        {"name": "s_task", **tool},
        [{"x-note": 1, "s_task": tool}],
    ]
    found = [only(_document(shape)).tasks for shape in shapes]
    assert all(t == found[0] for t in found)


def _document(tool: Any) -> str:
    step = json.dumps({"step": "s", "tool": tool}, ensure_ascii=False)
    return HEAD + f"workflow: [{step}]\n"


def test_unnamed_tasks_are_called_by_their_place() -> None:
    step = only(tasks("- {kind: noop}", "- {name: b, kind: noop}", "- {kind: noop}"))
    assert [t.name for t in step.tasks] == ["task_0", "b", "task_2"]


# --- layering


def test_specs_overlay_from_the_outside_in() -> None:
    text = (
        HEAD
        + "executor: {spec: {retry: {attempts: 1, on: [500]}, timeout: 9, tracing: a, policy: {limits: {max_tokens: 7}}}}\n"
        + """workflow:
  - step: a
    spec: {tracing: b, retry: {attempts: 2}, join: all, pool: big, policy: {failure: {mode: best_effort}}}
    loop: {in: [1], iterator: x, spec: {mode: parallel, max_in_flight: 3, tracing: c, retry: {on: [429]}}}
    tool:
      - {name: t, kind: http, url: u, spec: {verify: false, timeout: {connect: 5}}}
      - {name: u, kind: http, url: u, spec: {tracing: d, timeout: 3}}
"""
    )
    step = only(text)
    assert step.tasks[0].spec == {
        "retry": {"attempts": 2, "on": [429]},
        "tracing": "c",
        "verify": False,
        "timeout": {"connect": 5},
    }
    assert step.tasks[0].timeout_s == 9
    assert step.tasks[1].spec == {"retry": {"attempts": 2, "on": [429]}, "tracing": "d"}
    assert step.tasks[1].timeout_s == 3
    assert step.loop is not None
    assert (step.loop.mode, step.loop.max_in_flight, step.loop.failure_mode) == ("parallel", 3, "best_effort")
    assert (step.pool, step.join) == ("big", Join("all"))


def test_default_task_policies_apply_where_a_task_has_none() -> None:
    text = (
        HEAD
        + "executor: {spec: {policy: {task: {rules: [{else: {then: {do: fail}}}]}, defaults: {on_unmatched: fail}}}}\n"
        + """workflow:
  - {step: a, tool: {kind: noop}}
  - step: b
    spec: {policy: {task: {rules: [{else: {then: {do: break}}}]}}}
    tool: [{kind: noop}, {kind: noop, spec: {policy: {rules: [{when: "{{ true }}", then: {do: continue}}]}}}]
"""
    )
    a, b = parse_playbook(text).steps
    policies = [t.policy for s in (a, b) for t in s.tasks]
    assert [p.rules[0].then.do for p in policies if p] == ["fail", "break", "continue"]
    assert [p.on_unmatched for p in policies if p] == ["fail", "fail", "fail"]


# --- rules


@pytest.mark.parametrize(
    "text",
    [
        "{else: {then: {do: break}}}",
        "{else: {do: break}}",
        "{else: , then: {do: break}}",
    ],
)
def test_else_in_its_shapes(text: str) -> None:
    policy = task(tasks("- {name: a, kind: noop, spec: {policy: {rules: [" + text + "]}}}")).policy
    assert policy is not None
    assert [(r.when, r.then.do) for r in policy.rules] == [(None, "break")]


def test_accepted_spellings_of_rules() -> None:
    rules = "{when: true, then: {do: retry, backoff: fixed, set: {ctx.a: 1, iter.b: 2}, set_prev: null}}"
    then = then_of(tasks("- {name: a, kind: noop, spec: {policy: {on_unmatched: fail, rules: [" + rules + "]}}}"))
    assert (then.backoff, then.set_ctx, then.set_iter, then.set_prev) == ("none", {"a": 1}, {"b": 2}, None)
    assert then_of(tasks("- {name: a, kind: noop, spec: {policy: {rules: [{else: {}}]}}}")).set_prev is UNSET


def test_input_is_args_everywhere() -> None:
    text = flow(
        "step: a\ninput: {x: 1}\ntool: {kind: python, input: {y: 2}, code: pass}\nnext: {arcs: [{step: a, input: {z: 3}}]}",
    )
    step = only(text)
    assert step.router is not None
    assert (step.args, step.tasks[0].inputs["args"], step.router.arcs[0].args) == ({"x": 1}, {"y": 2}, {"z": 3})


def test_output_means_outcome_in_policies_only() -> None:
    text = tasks(
        "- name: a",
        "  kind: http",
        "  url: '{{ output }}'",
        "  spec: {policy: {rules: [{when: \"{{ output.status == 'ok' and output['data'].n and x.output.y }}\", then: {do: break}},"
        " {else: {then: {set: {ctx.e: '{{ output.error.kind }} output.data'}}}}]}}",
        "- {name: b, kind: noop, spec: {policy: {rules: [{else: {then: {set_ctx: {v: '{{ output.data }}'}}}}]}}}",
    )
    a, b = only(text).tasks
    assert a.policy is not None
    assert b.policy is not None
    assert a.inputs["url"] == "{{ output }}"
    assert a.policy.rules[0].when == "{{ outcome.status == 'ok' and outcome.result.data.n and x.output.y }}"
    assert a.policy.rules[1].then.set_ctx == {"e": "{{ outcome.error.kind }} output.data"}
    assert b.policy.rules[0].then.set_ctx == {"v": "{{ outcome.result }}"}


@pytest.mark.parametrize(
    ("loop", "name", "canonical"),
    [
        ("", "call.done", "step.done"),
        ("", "step.exit", "step.done"),
        ("", "call.error", "step.failed"),
        ("loop: {in: [1], iterator: x}\n", "step.exit", "loop.done"),
    ],
)
def test_older_event_names_in_guards(loop: str, name: str, canonical: str) -> None:
    step = only(
        flow(f"step: a\n{loop}tool: {{kind: noop}}\nnext: {{arcs: [{{step: a, when: \"{{{{ event.name == '{name}' }}}}\"}}]}}")
    )
    assert step.router is not None
    assert step.router.arcs[0].when == f"{{{{ event.name == '{canonical}' }}}}"


def test_a_bare_step_name_is_its_result_unless_something_else_has_the_name() -> None:
    text = HEAD + (
        "workload: {taken: 1}\nworkflow:\n"
        "  - {step: fetch, tool: {kind: noop}}\n"
        "  - {step: taken, tool: {kind: noop}}\n"
        "  - {step: use, tool: {kind: noop, result: '{{ fetch.rows + fetch.x|length }} {{ taken }} fetch'}}\n"
        "  - {step: own, tool: [{name: fetch, kind: noop}, {kind: noop, result: '{{ fetch }}'}]}\n"
    )
    steps = parse_playbook(text).by_name
    used = steps["use"].tasks[0].inputs["result"]
    assert used == "{{ steps.fetch.result.rows + steps.fetch.result.x|length }} {{ taken }} fetch"
    assert steps["own"].tasks[1].inputs["result"] == "{{ fetch }}"


# --- workbook, executor, sections


@pytest.mark.parametrize(
    "book",
    [
        "{tasks: {w: {kind: python, code: c, args: {a: 1, b: 2}, spec: {timeout_s: 4}}}}",
        "{w: {kind: python, code: c, args: {a: 1, b: 2}, spec: {timeout_s: 4}}}",
        "[{name: w, tool: {kind: python, code: c, args: {a: 1, b: 2}, spec: {timeout_s: 4}}}]",
        "[{name: w, kind: python, code: c, args: {a: 1, b: 2}, spec: {timeout_s: 4}}]",
    ],
)
@pytest.mark.parametrize(
    "use",
    [
        "{name: w, kind: workbook, args: {b: 3}}",
        "[{name: w, kind: workbook, task: w, args: {b: 3}}]",
        "[{w: {kind: workbook, args: {b: 3}}}]",
    ],
)
def test_the_workbook_in_its_forms_is_resolved(book: str, use: str) -> None:
    found = task(HEAD + f"workbook: {book}\nworkflow: [{{step: s, tool: {use}}}]\n")
    assert (found.name, found.kind, found.timeout_s) == ("w", "python", 4)
    assert found.inputs == {"code": "c", "args": {"a": 1, "b": 3}}


def test_the_executor_is_typed() -> None:
    text = executor(
        "{kind: local, spec: {entry_step: a, result: '{{ ctx.x }}', pool: p, policy: {failure: {mode: best_effort}, "
        "unconditional_on_failure: true, results: {reference_first: true}, limits: {max_payload_bytes: 100}, "
        "lifecycle: {timeout_s: 60, lifetime_s: 3600}, defaults: {timeouts: {task_s: 7, step_s: 8}}}}}"
    )
    playbook = parse_playbook(text)
    e = playbook.executor
    assert (e.kind, e.entry_step, e.result, e.pool, e.failure_mode) == ("local", "a", "{{ ctx.x }}", "p", "best_effort")
    assert (e.unconditional_on_failure, e.reference_first, e.limits.max_payload_bytes) == (True, True, 100)
    assert (e.timeout_s, e.lifetime_s) == (60, 3600)
    assert (playbook.steps[0].pool, playbook.steps[0].timeout_s, playbook.steps[0].tasks[0].timeout_s) == ("p", 8, 7)


@pytest.mark.parametrize(("steps", "entry"), [(["b", "start"], "start"), (["b", "c"], "b")])
def test_the_entry_step(steps: list[str], entry: str) -> None:
    assert parse_playbook(flow(*(f"{{step: {s}, tool: {{kind: noop}}}}" for s in steps))).entry_step == entry


def test_unknown_kinds_pass_with_extensions() -> None:
    text = HEAD + "executor: {spec: {extensions: true}}\nworkflow: [{step: s, tool: {kind: mine, depth: 3, spec: {odd: 1}}}]\n"
    found = task(text)
    assert (found.kind, found.inputs, found.spec) == ("mine", {"depth": 3}, {"odd": 1})


def test_api_version_10_and_free_keys_are_accepted() -> None:
    text = (
        flow("step: a\nx-note: {any: thing}\ntool: {kind: noop, x-y: 1}").replace("noetl.io/v2", "noetl.io/v10") + "x-root: 1\n"
    )
    playbook, found = check(text)
    assert playbook is not None
    assert found == []
    assert playbook.steps[0].tasks[0].inputs == {}


def test_the_digest_is_of_the_text() -> None:
    text = flow("{step: a, tool: {kind: noop}}")
    assert parse_playbook(text).digest == digest_of(text)
    assert digest_of("") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


# --- sugar


def _jumps(playbook: Playbook) -> list[tuple[str, list[tuple[str | None, str | None]]]]:
    return [(t.name, [(r.when, r.then.to) for r in t.policy.rules] if t.policy else []) for t in playbook.steps[0].tasks]


def test_choose_becomes_jumps_that_meet_at_one_point() -> None:
    text = tasks(
        "- name: pick",
        "  choose:",
        "    - {when: '{{ ctx.a }}', then: [{name: one, kind: noop}, {kind: noop}]}",
        "    - {when: '{{ ctx.b }}', then: {kind: noop}}",
        "    - {else: [{name: three, kind: noop}]}",
        "- {name: after, kind: noop}",
    )
    assert _jumps(parse_playbook(text)) == [
        ("pick", [("{{ ctx.a }}", "one"), ("{{ ctx.b }}", "pick_then_1_task_0"), (None, "three")]),
        ("one", []),
        ("pick_then_0_task_1", []),
        ("pick_0_end", [(None, "pick_end")]),
        ("pick_then_1_task_0", []),
        ("pick_1_end", [(None, "pick_end")]),
        ("three", []),
        ("pick_end", [(None, None)]),
        ("after", []),
    ]


def test_while_asks_before_and_until_after_each_round() -> None:
    text = tasks(
        "- while: '{{ iter.n < 3 }}'",
        "  do: [{name: body, kind: noop}]",
        "- until: '{{ iter.n > 9 }}'",
        "  do: [{name: again, kind: noop}]",
    )
    assert _jumps(parse_playbook(text)) == [
        ("while_0", [("{{ iter.n < 3 }}", None), (None, "while_0_end")]),
        ("body", []),
        ("while_0_again", [(None, "while_0")]),
        ("while_0_end", [(None, None)]),
        ("until_1", [(None, None)]),
        ("again", []),
        ("until_1_check", [("{{ iter.n > 9 }}", None), (None, "until_1")]),
        ("until_1_end", [(None, None)]),
    ]


def test_sugar_keeps_prev_speaks_the_authors_terms_and_survives_a_dump() -> None:
    text = tasks("- choose:", "    - when: '{{ ctx.a }}'", "      then: [{while: '{{ ctx.b }}', do: [{kind: noop}]}]")
    playbook = parse_playbook(text)
    made = [t for t in playbook.steps[0].tasks if t.label]
    assert [t.label for t in made][:2] == ["choose[0]", "while[0] in entry 0 of choose[0]"]
    assert all(r.then.set_prev == "{{ _prev }}" for t in made if t.policy for r in t.policy.rules)
    assert made[0].path == ("workflow", 0, "tool", 0)
    assert parse_playbook(dump(playbook)) == playbook


def test_very_many_objects_of_a_pause_of_the_collector_are_not_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 0)  # the suite has frozen its modules
    scans: list[int] = []

    def scanned(phase: str, info: dict[str, int]) -> None:
        scans.append(info["generation"])

    def after(objects: int) -> list[int]:
        with collection_paused():
            kept: list[list[None]] = [[] for _ in range(objects)]
            scans.clear()
        kept.append([])  # the collector runs where an object is created
        return [*scans]

    gc.callbacks.append(scanned)
    try:
        assert after(MANY_OBJECTS // 2), "some are"
        assert after(MANY_OBJECTS * 2) == []
    finally:
        gc.callbacks.remove(scanned)
        gc.freeze()
