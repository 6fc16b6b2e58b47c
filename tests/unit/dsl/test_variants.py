"""Accepted spellings normalise to one model with the canonical ones (resolutions 14 and 20; the older texts' words)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.dsl.model import Step
from noetl_core.dsl.parse import check, parse_playbook
from tests.running import run_text
from tests.unit.dsl.broken_playbooks import HEAD, flow

ARC = "next: {arcs: [{step: b, when: %s}]}"


def same(accepted: str, canonical: str) -> None:
    """Both texts are one playbook."""
    assert parse_playbook(accepted) == parse_playbook(canonical)


def two(step: str, other: str = "step: b\ntool: {kind: noop}") -> str:
    return flow(step, other)


@pytest.mark.parametrize(
    ("accepted", "canonical"),
    [
        pytest.param("step: a\ninput: {x: 1}\ntool: {kind: noop}", "step: a\nargs: {x: 1}\ntool: {kind: noop}", id="step"),
        pytest.param(
            "step: a\ntool: {kind: python, input: {x: 1}, code: pass}",
            "step: a\ntool: {kind: python, args: {x: 1}, code: pass}",
            id="task",
        ),
        pytest.param(
            "step: a\ntool: {kind: noop}\nnext: {arcs: [{step: b, input: {x: '{{ ctx.x }}'}}]}",
            "step: a\ntool: {kind: noop}\nnext: {arcs: [{step: b, args: {x: '{{ ctx.x }}'}}]}",
            id="token",
        ),
    ],
)
def test_input_for_args(accepted: str, canonical: str) -> None:
    same(two(accepted), two(canonical))


SET = "set: {ctx.a: 1, ctx.b: '{{ ctx.a }}'}"
SET_CTX = "set_ctx: {a: 1, b: '{{ ctx.a }}'}"


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("step: a\n%s\ntool: {kind: noop}", id="step"),
        pytest.param("step: a\ntool: {kind: noop, %s}", id="task"),
        pytest.param("step: a\ntool: {kind: noop, spec: {policy: {rules: [{else: {then: {%s}}}]}}}", id="rule"),
        pytest.param("step: a\ntool: {kind: noop}\nnext: {arcs: [{step: b, %s}]}", id="arc"),
    ],
)
def test_set_for_set_ctx(place: str) -> None:
    same(two(place % SET), two(place % SET_CTX))


@pytest.mark.parametrize(
    "place", ["step: a\ntool: {kind: noop, %s}", "step: a\ntool: {kind: noop, spec: {policy: {rules: [{else: {then: {%s}}}]}}}"]
)
def test_set_for_set_iter(place: str) -> None:
    same(two(place % "set: {iter.page: 2, ctx.c: 3}"), two(place % "set_iter: {page: 2}, set_ctx: {c: 3}"))


@pytest.mark.parametrize(
    "place",
    ["step: a\nset: {iter.x: 1}\ntool: {kind: noop}", "step: a\ntool: {kind: noop}\nnext: {arcs: [{step: b, set: {iter.x: 1}}]}"],
)
def test_no_iteration_is_left_to_write_where_a_step_ends(place: str) -> None:
    assert [d.code for d in check(two(place))[1] if d.severity == "error"] == ["E114"]


@pytest.mark.parametrize(
    ("kind", "accepted", "canonical"),
    [
        ("http, url: u", "output.data.n", "outcome.result.data.n"),
        ("noop", "output.data.n", "outcome.result.n"),
        ("noop", "output['data']", "outcome.result"),
        ("noop", "output.status", "outcome.status"),
        ("noop", "output.error.kind", "outcome.error.kind"),
        ("http, url: u", "output.http.status", "outcome.http.status"),
    ],
)
def test_output_for_outcome_in_policies(kind: str, accepted: str, canonical: str) -> None:
    place = 'step: a\ntool: {kind: %s, spec: {policy: {rules: [{when: "{{ %s == 1 }}", then: {do: fail}}, {else: {then: {do: continue}}}]}}}'
    same(two(place % (kind, accepted)), two(place % (kind, canonical)))


@pytest.mark.parametrize(
    ("kind", "accepted", "canonical"),
    [
        ("http, url: u", "output.data.n", "event.result.data.n"),
        ("noop", "output.data.n", "event.result.n"),
        ("noop", "output.result", "event.result"),
        ("noop", "output['error'].kind", "event.error.kind"),
        ("noop", "output.status == 'ok'", "('ok' if event.status == 'success' else event.status) == 'ok'"),
    ],
)
def test_output_reads_the_outcome_of_the_step_in_arcs_and_admission(kind: str, accepted: str, canonical: str) -> None:
    step = "step: a\ntool: {kind: %s}\nnext: {arcs: [{step: b, when: \"{{ %s }}\", args: {x: '{{ 1 }}'}}]}"
    same(two(step % (kind, accepted)), two(step % (kind, canonical)))
    admitted = 'step: b\nspec: {policy: {admit: {rules: [{when: "{{ %s }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}\ntool: {kind: noop}'
    leads = f"step: a\ntool: {{kind: {kind}}}\nnext: {{arcs: [{{step: b}}]}}"
    same(two(leads, admitted % accepted), two(leads, admitted % canonical))


def test_output_is_an_argument_where_one_has_that_name() -> None:
    source = two("step: a\nargs: {output: 1}\ntool: {kind: noop}\nnext: {arcs: [{step: b, when: '{{ output.data }}'}]}")
    (step, _) = parse_playbook(source).steps
    assert step.router is not None
    assert step.router.arcs[0].when == "{{ output.data }}"


PLAIN, LOOP = "tool: {kind: noop}", "loop: {in: [1], iterator: x}\ntool: {kind: noop}"


@pytest.mark.parametrize(
    ("body", "accepted", "canonical"),
    [
        (PLAIN, "event.name == 'call.done'", "event.name == 'step.done'"),
        (PLAIN, "event.name == 'step.exit'", "event.name == 'step.done'"),
        (PLAIN, "event.name in ['call.done', 'call.error']", "event.name in ['step.done', 'step.failed']"),
        (LOOP, "event.name == 'step.exit'", "event.name == 'loop.done'"),
        (LOOP, 'event.name != \\"call.error\\"', 'event.name != \\"step.failed\\"'),
    ],
)
def test_older_event_names_in_arcs_and_in_admission(body: str, accepted: str, canonical: str) -> None:
    arcs = f'step: a\n{body}\nnext: {{arcs: [{{step: b, when: "{{{{ %s }}}}"}}]}}'
    same(two(arcs % accepted), two(arcs % canonical))
    leads = f"step: a\n{body}\nnext: {{arcs: [{{step: b}}]}}"
    guarded = (
        'step: b\nspec: {policy: {admit: {rules: [{when: "{{ %s }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}\n'
        + PLAIN
    )
    same(two(leads, guarded % accepted), two(leads, guarded % canonical))


@pytest.mark.parametrize(
    ("accepted", "canonical"),
    [
        ("event.name == 'call.done'", "event.name in ['step.done', 'loop.done']"),
        ("'step.exit' != event.name", "event.name not in ['step.done', 'loop.done']"),
        ("event.name in ['call.done', 'call.error']", "event.name in ['step.done', 'loop.done', 'step.failed']"),
    ],
)
def test_admission_after_steps_with_and_without_a_loop(accepted: str, canonical: str) -> None:
    def source(guard: str) -> str:
        admit = f'spec: {{policy: {{admit: {{rules: [{{when: "{{{{ {guard} }}}}", then: {{allow: true}}}}, {{else: {{then: {{allow: false}}}}}}]}}}}}}'
        return flow(
            f"step: a\n{PLAIN}\nnext: {{arcs: [{{step: c}}]}}",
            f"step: b\n{LOOP}\nnext: {{arcs: [{{step: c}}]}}",
            f"step: c\n{admit}\n{PLAIN}",
        )

    same(source(accepted), source(canonical))


def test_a_bare_step_name_is_its_result() -> None:
    def source(read: str) -> str:
        return flow(
            f"step: fetch\ntool: {{kind: noop}}\nnext: {{arcs: [{{step: b, args: {{x: '{{{{ {read}.n }}}}'}}}}]}}",
            f"step: b\ntool: {{kind: noop, result: '{{{{ {read} | length }}}}'}}",
        )

    same(source("fetch"), source("steps.fetch.result"))


def test_backoff_fixed_is_none() -> None:
    place = (
        "step: a\ntool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: retry, attempts: 2, backoff: %s, delay: 1}}}]}}}"
    )
    same(two(place % "fixed"), two(place % "none"))


def test_api_version_10() -> None:
    text = two("step: a\ntool: {kind: noop}")
    assert [d for d in check(text.replace("noetl.io/v2", "noetl.io/v10"))[1] if d.severity == "error"] == []
    same(text.replace("noetl.io/v2", "noetl.io/v10"), text)


def test_accepted_spellings_run_as_the_canonical_ones() -> None:
    """One execution with all of them."""
    source = HEAD.replace("noetl.io/v2", "noetl.io/v10") + (
        "workflow:\n"
        "  - step: start\n    input: { n: 2 }\n    set: { ctx.seen: '{{ event.result }}' }\n"
        "    tool:\n      - { name: one, kind: noop, input: { v: '{{ args.n }}' }, set: { iter.k: 5 } }\n"
        "      - name: two\n        kind: noop\n        result: '{{ iter.k + one.v }}'\n        spec:\n          policy:\n            rules:\n"
        "              - when: \"{{ output.status == 'ok' and output.data == 7 }}\"\n                then: { do: break, set: { ctx.hit: true } }\n"
        "              - else: { then: { do: fail } }\n"
        "    next:\n      arcs:\n"
        "        - step: end\n          when: \"{{ event.name == 'call.done' and output.data == 7 }}\"\n          input: { got: '{{ start }}' }\n          set: { ctx.arc: 1 }\n"
        "  - step: end\n    spec: { policy: { admit: { rules: [{ when: \"{{ event.name == 'step.exit' and output.data == 7 }}\", then: { allow: true } }, { else: { then: { allow: false } } }] } } }\n"
        "    tool: { kind: noop, result: '{{ args.got }}' }\n"
    )
    local, state = run_text(source)
    try:
        ended: dict[str, Any] = {"status": state.status, "ctx": dict(state.ctx)}
        assert ended == {"status": "completed", "ctx": {"hit": True, "seen": 7, "arc": 1}}
        assert isinstance(parse_playbook(source).steps[0], Step)
        assert state.step("end").status == "ok"
    finally:
        local.close()


def test_a_result_field_called_results_is_not_read_as_tasks() -> None:
    text = flow(
        "step: a\ntool: {kind: noop, result: {results: {rows: [1], a_task: 1}}}\nnext: {arcs: [{step: b, when: '{{ a.results.rows }}'}]}",
        "step: b\ntool: {kind: noop, result: '{{ steps.a.result.results.a_task }}'}",
    )
    playbook, found = check(text)
    assert playbook is not None
    assert found == []
    assert playbook.by_name["a"].router.arcs[0].when == "{{ steps.a.result.results.rows }}"  # type: ignore[union-attr]


STATUS = "('ok' if event.status == 'success' else event.status)"
WHOLE = f"({{'data': event.result, 'result': event.result, 'error': event.error, 'status': {STATUS}}})"
ASKED = "event.result.status if event.status == 'success' else event.error.code"
ANSWER = f"({{'status': {ASKED}, 'headers': event.result.headers}})"
RULES = 'policy: {task: {rules: [{when: "{{ %s.n }}", then: {do: fail}}, {else: {then: {do: continue}}}]}}'


@pytest.mark.parametrize(
    ("kind", "accepted", "canonical"),
    [
        (
            "noop",
            "output",
            WHOLE,
        ),
        (
            "http, url: u",
            "output.http.status",
            ANSWER + ".status",
        ),
        ("noop", "output.statsu", "output.statsu"),
    ],
)
def test_output_whole_and_the_section_of_its_kind_in_arcs(kind: str, accepted: str, canonical: str) -> None:
    step = 'step: a\ntool: {kind: %s}\nnext: {arcs: [{step: b, when: "{{ %s }}"}]}'
    same(two(step % (kind, accepted)), two(step % (kind, canonical)))


@pytest.mark.parametrize("place", ["workflow", "executor"])
def test_output_in_policies_for_tasks_of_any_kind(place: str) -> None:
    def text(word: str) -> str:
        rules = RULES % word
        if place == "executor":
            return two("step: a\ntool: {kind: noop}") + f"executor: {{spec: {{{rules}}}}}\n"
        return two(f"step: a\nspec: {{{rules}}}\ntool: {{kind: noop}}")

    same(text("output.data"), text("(outcome.result.data if outcome.http is defined else outcome.result)"))


LOOPED = "step: a\nloop: {in: [1, 2], iterator: n}\ntool: {kind: noop, result: '{{ iter.n }}'}\n"


@pytest.mark.parametrize(
    ("accepted", "canonical"),
    [
        ("steps.a.result.results[0]", "steps.a.result[0]"),
        ("steps.a.result.stats.total", "steps.a.loop.total"),
        ("steps['a']['result']['stats']['failed']", "steps.a.loop['failed']"),
        ("a.stats.success", "steps.a.loop.succeeded"),
        ("a.results | length", "steps.a.result | length"),
    ],
)
def test_results_and_stats_of_a_loop(accepted: str, canonical: str) -> None:
    later = 'step: b\ntool: {kind: noop, result: "{{ %s }}"}'
    leads = LOOPED + "next: {arcs: [{step: b}]}"
    same(two(leads, later % accepted), two(leads, later % canonical))


@pytest.mark.parametrize(
    ("accepted", "canonical"),
    [
        ("event.result.results", "event.result"),
        ("event.result.stats.failed", "event.loop.failed"),
        ("output.data.stats", "event.loop"),
    ],
)
def test_results_and_stats_of_a_loop_in_arcs_and_beyond(accepted: str, canonical: str) -> None:
    arcs = LOOPED + 'next: {arcs: [{step: b, args: {x: "{{ %s }}"}}]}'
    same(two(arcs % accepted), two(arcs % canonical))
    enters = 'step: b\nargs: {x: "{{ %s }}"}\ntool: {kind: noop}'
    leads = LOOPED + "next: {arcs: [{step: b}]}"
    same(two(leads, enters % accepted), two(leads, enters % canonical))


def test_results_of_a_step_without_a_loop_are_a_field() -> None:
    text = two("step: a\ntool: {kind: noop}\nnext: {arcs: [{step: b, when: '{{ event.result.stats }}'}]}")
    (step, _) = parse_playbook(text).steps
    assert step.router is not None
    assert step.router.arcs[0].when == "{{ event.result.stats }}"


def test_respect_retry_after_is_reported_with_a_hint_to_use_delay() -> None:
    _, found = check(flow('{step: a, tool: {kind: http, url: "http://x", retry: {attempts: 2, respect_retry_after: true}}}'))
    hint = 'delay: "{{ outcome.http.retry_after | default(2) }}" waits as long as the service says'
    assert [(d.code, d.hint) for d in found] == [("E110", hint)]
