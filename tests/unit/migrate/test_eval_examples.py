"""The examples of the eval dialect's text, whole, rewritten and run: each comes out as the text says."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.dsl.parse import parse_playbook
from noetl_core.engine.outcome import Outcome
from tests.unit.migrate.legacy import HEAD, canonical, http_error, ok, page, run

ROOT = """\
apiVersion: noetl.io/v2
kind: Playbook

metadata:
  name: example
  path: examples/example
  version: "2.0"
  description: Example playbook

executor:
  kind: distributed
  spec:
    # server/worker/queue selection knobs (implementation-defined)
    pool: default

workload:
  # immutable merged execution input (defaults + request payload)
  api_url: "https://example.com"

workflow:
  - step: start
    tool:
      - say:
          kind: noop
          eval:
            - else: { do: continue, set_ctx: { url: "{{ workload.api_url }}" } }

workbook:
  # optional catalog of named tasks/tools (future/optional)
  tasks: {}
"""


def test_the_root_layout() -> None:
    text = canonical(ROOT)
    assert text.startswith(ROOT[: ROOT.index("    tool:")])
    assert text.endswith(ROOT[ROOT.index("\nworkbook:") :])
    ended = run(ROOT, {}, {"api_url": "https://other.example.com"})
    assert (ended.status, dict(ended.ctx)) == ("completed", {"url": "https://other.example.com"})


APPENDIX = (
    HEAD
    + """
keychain: [{ name: pg_k8s, kind: postgres_credential }]
workload: { api_url: "https://x", endpoints: [{ path: /a, page_size: 10 }, { path: /b, page_size: 5 }] }
workflow:
  - step: fetch_transform_store
    spec: { next_mode: exclusive }
    when: "{{ true }}"

    loop:
      spec: { mode: sequential }
      in: "{{ workload.endpoints }}"
      iterator: endpoint

    tool:
      - init:
          kind: noop
          eval:
            - else:
                do: continue
                set_iter: { page: 1, has_more: true }

      - fetch_page:
          kind: http
          spec: { timeout: { connect: 5, read: 15 } }
          method: GET
          url: "{{ workload.api_url }}{{ iter.endpoint.path }}"
          params:
            page: "{{ iter.page }}"
            pageSize: "{{ iter.endpoint.page_size }}"
          eval:
            - expr: "{{ outcome.status == 'error' and outcome.http.status in [429,500,502,503,504] }}"
              do: retry
              attempts: 10
              backoff: exponential
              delay: "{{ outcome.http.headers['retry-after'] | default(2) }}"
            - expr: "{{ outcome.status == 'error' }}"
              do: fail
            - else:
                do: continue
                set_iter:
                  has_more: "{{ outcome.result.data.paging.hasMore | default(false) }}"
                  page: "{{ outcome.result.data.paging.page | default(iter.page) }}"
                  items: "{{ outcome.result.data.data | default([]) }}"

      - save_page:
          kind: postgres
          auth: pg_k8s
          command: "INSERT INTO ..."
          eval:
            - expr: "{{ outcome.status == 'error' and outcome.pg.code in ['40001','40P01'] }}"
              do: retry
              attempts: 5
              backoff: exponential
              delay: 0.01
            - expr: "{{ outcome.status == 'error' }}"
              do: fail
            - else:
                do: continue

      - paginate:
          kind: noop
          eval:
            - expr: "{{ iter.has_more == true }}"
              do: jump
              to: fetch_page
              set_iter:
                page: "{{ (iter.page | int) + 1 }}"
            - else:
                do: break

    next:
      - step: validate_results
        when: "{{ event.name == 'loop.done' }}"
      - step: cleanup
        when: "{{ event.name == 'step.failed' }}"
  - { step: validate_results, tool: { kind: noop } }
  - { step: cleanup, tool: { kind: noop } }
"""
)
DEADLOCK = Outcome.failed("db_deadlock", "deadlock", pg={"code": "40P01"})


def test_the_appendix_pages_stores_and_retries() -> None:
    pages = [page(1, True), http_error(429, {"retry-after": "0.01"}), page(2, False), page(1, False)]
    ended = run(APPENDIX, {"http": pages, "postgres": [DEADLOCK, ok(), ok(), ok()]})
    assert (ended.status, ended.visits("validate_results"), ended.visits("cleanup")) == ("completed", 1, 0)
    asked = [(c.inputs["url"], c.inputs["params"]["page"]) for c in ended.tools["http"].calls]
    assert asked == [("https://x/a", 1), ("https://x/a", 2), ("https://x/a", 2), ("https://x/b", 1)]
    assert len(ended.tools["postgres"].calls) == 4


@pytest.mark.parametrize(
    "scripts",
    [{"http": [http_error(404)]}, {"http": [page(1, False)], "postgres": [DEADLOCK] * 5}],
    ids=["no such page", "five deadlocks"],
)
def test_the_appendix_routes_a_failure_to_cleanup(scripts: dict[str, Any]) -> None:
    ended = run(APPENDIX, scripts)
    assert (ended.status, ended.visits("validate_results"), ended.visits("cleanup")) == ("completed", 0, 1)


STEP_SHAPE = (
    HEAD
    + """
workload: { items: [1, 2, 3], go: true }
workflow:
  - step: first
    desc: <optional>

    spec:
      next_mode: inclusive   # default: exclusive

    when: "{{ workload.go }}"                 # default: true

    loop:
      spec:
        mode: parallel      # default: sequential
        max_in_flight: 2
      in: "{{ workload.items }}"
      iterator: item

    tool:
      - double: { kind: noop, result: "{{ iter.item * 2 }}" }
      - triple: { kind: noop, result: "{{ double + iter.item }}" }

    next:
      - step: second
        when: "{{ event.name == 'loop.done' }}"            # default: true
        args: { sum: "{{ steps.first.result | sum }}" }
      - step: third
  - { step: second, tool: { kind: noop, result: "{{ args.sum }}" } }
  - { step: third, tool: { kind: noop } }
"""
)


def test_the_step_shape_with_all_its_keys() -> None:
    ended = run(STEP_SHAPE, {})
    assert (ended.status, ended.steps["first"], ended.steps["second"], ended.visits("third")) == ("completed", [3, 6, 9], 18, 1)
    text = canonical(STEP_SHAPE)
    assert "# default: exclusive" in text
    assert 'when: "{{ workload.go }}"                 # default: true' in text


def test_a_step_that_is_not_enabled_waits_until_it_is() -> None:
    """`step.when` is the enable guard of a transition: the token stays."""
    source = HEAD + (
        "workflow:\n"
        "  - { step: start, tool: { kind: noop }, spec: { next_mode: inclusive }, next: [{ step: gate }, { step: opens }] }\n"
        "  - { step: gate, when: '{{ ctx.open }}', tool: { kind: noop, result: in } }\n"
        "  - step: opens\n"
        "    tool:\n"
        "      - open: { kind: noop, eval: [{ else: { do: continue, set_ctx: { open: true } } }] }\n"
    )
    ended = run(source, {})
    assert (ended.status, ended.visits("gate"), ended.steps["gate"]) == ("completed", 1, "in")


def test_the_first_matching_target_is_taken_unless_the_step_says_inclusive() -> None:
    source = HEAD + (
        "workflow:\n"
        "  - step: start\n    tool: { kind: noop }\n    next:\n"
        "      - { step: a, when: '{{ false }}' }\n      - { step: b, when: '{{ true }}' }\n      - { step: c }\n"
        "  - { step: a, tool: { kind: noop } }\n  - { step: b, tool: { kind: noop } }\n  - { step: c, tool: { kind: noop } }\n"
    )
    ended = run(source, {})
    assert [ended.visits(s) for s in "abc"] == [0, 1, 0]


DIRECTIVES = (
    HEAD
    + """
workflow:
  - step: work
    tool:
      - first:
          kind: python
          code: "result = 1"
          eval:
            - expr: "{{ outcome.status == 'error' and 'success' != outcome.status }}"
              do: retry
              attempts: 3
              backoff: fixed
              delay: 0.01
              set_ctx: { tried: "{{ _attempt }}" }
            - expr: "{{ outcome.status in ['success'] }}"
              do: jump
              to: last
              set_vars: { said: "{{ outcome.status }}", note: "{{ outcome.result }}" }
              set_prev: "{{ outcome.result + 41 }}"
      - never: { kind: noop, eval: [{ else: { do: fail } }] }
      - last:
          kind: noop
          result: ["{{ _prev }}", "{{ vars.said }}", "{{ vars['note'] }}"]
          eval:
            - else:
              do: break
              set_shared: { shared: 1 }
      - unreached: { kind: noop, eval: [{ else: { do: fail } }] }
    next: []
"""
)


def test_every_directive_and_write() -> None:
    ended = run(DIRECTIVES, {"python": [Outcome.failed("python", "no"), ok(1)]})
    assert (ended.status, ended.steps["work"]) == ("completed", [42, "success", 1])
    assert dict(ended.ctx) == {"tried": 1, "shared": 1}
    policy = parse_playbook(canonical(DIRECTIVES)).steps[0].tasks[0].policy
    assert policy is not None
    retry = policy.rules[0].then
    assert (retry.do, retry.attempts, retry.backoff, retry.delay) == ("retry", 3, "none", 0.01)


def variables(text: str, **scripts: Any) -> Any:
    return run(HEAD + "workflow:\n" + text, scripts)


def test_variables_that_arcs_read_are_kept_in_ctx() -> None:
    ended = variables(
        "  - step: a\n    tool:\n      - t: { kind: noop, eval: [{ else: { do: continue, set_vars: { go: b, own: 1 } } }] }\n"
        "      - u: { kind: noop, result: '{{ vars.own }}' }\n"
        "    next:\n      - { step: b, when: \"{{ vars.go == 'b' }}\", args: { go: '{{ vars.go }}' } }\n      - { step: c }\n"
        "  - { step: b, tool: { kind: noop, result: '{{ args.go }}' } }\n  - { step: c, tool: { kind: noop } }\n"
    )
    assert (ended.steps["a"], ended.steps["b"], ended.visits("c"), dict(ended.ctx)) == (1, "b", 0, {"go": "b"})


def test_variables_of_a_sequential_loop_are_seen_by_the_next_iteration() -> None:
    ended = variables(
        "  - step: a\n    loop: { in: [1, 2, 3], iterator: n }\n    tool:\n"
        "      - t: { kind: noop, eval: [{ else: { do: continue, set_vars: { sum: '{{ (vars.sum | default(0)) + iter.n }}' } } }] }\n"
        "      - u: { kind: noop, result: '{{ vars.sum }}' }\n"
    )
    assert ended.steps["a"] == [1, 3, 6]


def test_variables_of_a_parallel_loop_are_each_iterations_own() -> None:
    ended = variables(
        "  - step: a\n    loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel } }\n    tool:\n"
        "      - t: { kind: noop, eval: [{ else: { do: continue, set_vars: { own: '{{ iter.n }}' } } }] }\n"
        "      - u: { kind: noop, result: '{{ vars.own }}' }\n"
    )
    assert ended.steps["a"] == [1, 2, 3]


def test_variables_of_one_run_are_not_those_of_the_next() -> None:
    ended = variables(
        "  - step: a\n    tool:\n"
        "      - t: { kind: noop, eval: [{ expr: '{{ not ctx.again }}', do: continue, set_vars: { go: true }, set_ctx: { again: true } }] }\n"
        "    next: [{ step: b, when: '{{ vars.go }}' }, { step: c }]\n"
        "  - { step: b, tool: { kind: noop }, next: [{ step: a }] }\n  - { step: c, tool: { kind: noop } }\n"
    )
    assert (ended.status, ended.visits("a"), ended.visits("b"), ended.visits("c")) == ("completed", 2, 1, 1)


def test_variables_at_the_root_begin_in_ctx() -> None:
    source = HEAD + (
        "vars: { n: '{{ workload.first }}', taken: 2 }   # what changes\nworkload: { first: 5, taken: 1 }\nworkflow:\n"
        "  - { step: a, tool: { kind: noop, result: ['{{ vars.n }}', '{{ vars.taken }}', '{{ taken }}'] }, next: b }\n"
        "  - { step: b, tool: { kind: noop, result: '{{ vars.n }}', eval: [{ else: { set_ctx: { done: true } } }] } }\n"
    )
    ended = run(source, {})
    assert (ended.status, ended.steps["a"], ended.steps["b"]) == ("completed", [5, 2, 1], 5)
    assert "# what changes" in canonical(source)


def test_pipe_is_tool_and_loose_policies_stand_under_spec() -> None:
    ended = variables(
        "  - step: a\n    pipe:\n"
        "      - { name: t, kind: noop, policy: { rules: [{ else: { then: { do: continue, set_ctx: { x: 1 } } } }] } }\n"
        "      - name: u\n        kind: noop\n        spec:\n          policy:\n            rules:\n"
        "              - expr: \"{{ outcome.status == 'success' }}\"\n                do: break\n"
    )
    assert (ended.status, dict(ended.ctx)) == ("completed", {"x": 1})


def test_tasks_of_the_workbook() -> None:
    source = HEAD + (
        "workbook:\n  tasks:\n    t:\n      kind: python\n      code: 'result = 1'\n"
        "      eval:\n        - expr: \"{{ outcome.status == 'success' }}\"\n          do: break\n          set_ctx: { x: 1 }\n"
        "workflow: [{ step: a, tool: [{ kind: workbook, name: t }, { kind: noop, eval: [{ else: { do: fail } }] }] }]\n"
    )
    ended = run(source, {"python": [ok(1)]})
    assert (ended.status, dict(ended.ctx)) == ("completed", {"x": 1})
