"""The examples of the specification texts, completed to whole playbooks: canonical ones validate, legacy ones name the way out."""

from __future__ import annotations

from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import check
from tests.unit.dsl.broken import HEAD, MIGRATE


def valid(text: str) -> Playbook:
    playbook, found = check(HEAD + text)
    assert [str(d) for d in found if d.severity == "error"] == []
    assert playbook is not None
    return playbook


STREAMING = """
keychain:
  - name: openai_token
    kind: secret_manager
  - name: pg_k8s
    kind: postgres_credential
workload: {api_url: "https://x", endpoints: [{path: /a, page_size: 10}]}
workflow:
  - step: fetch_all_endpoints
    spec:
      policy:
        admit:
          rules:
            - else:
                then: { allow: true }
        lifecycle: { timeout_s: 600 }
        failure: { mode: best_effort }
    loop:
      in: "{{ workload.endpoints }}"
      iterator: endpoint
      spec:
        mode: parallel
        max_in_flight: 10
        policy:
          exec: distributed # optional intent
    tool:
      - name: init_iter
        kind: noop
        spec:
          policy:
            rules:
              - else:
                  then:
                    do: continue
                    set_iter: { page: 1, has_more: true }
      - name: fetch_page
        kind: http
        method: GET
        url: "{{ workload.api_url }}{{ iter.endpoint.path }}"
        params:
          page: "{{ iter.page }}"
          pageSize: "{{ iter.endpoint.page_size }}"
        spec:
          timeout: { connect: 5, read: 15 }
          policy:
            rules:
              - when: "{{ outcome.status == 'error' and outcome.http.status in [429,500,502,503,504] }}"
                then: { do: retry, attempts: 10, backoff: exponential, delay: 2.0 }
              - when: "{{ outcome.status == 'error' and outcome.http.status in [401,403] }}"
                then: { do: fail }
              - else:
                  then:
                    do: continue
                    set_iter:
                      http_status: "{{ outcome.http.status | default(200) }}"
                      has_more: "{{ outcome.result.data.paging.hasMore | default(false) }}"
                      page: "{{ outcome.result.data.paging.page | default(iter.page) }}"
                      items: "{{ outcome.result.data.data | default([]) }}"
      - name: route_by_status
        kind: noop
        spec:
          policy:
            rules:
              - when: "{{ iter.http_status == 404 }}"
                then: { do: jump, to: store_404 }
              - else:
                  then: { do: jump, to: store_200 }
      - name: store_200
        kind: postgres
        auth: pg_k8s
        command: "INSERT INTO results_ok (...)"
        spec:
          policy:
            rules:
              - when: "{{ outcome.status == 'error' and outcome.pg.code in ['40001','40P01'] }}"
                then: { do: retry, attempts: 5, backoff: exponential, delay: 2.0 }
              - when: "{{ outcome.status == 'error' }}"
                then: { do: fail }
              - else:
                  then: { do: jump, to: paginate }
      - name: store_404
        kind: postgres
        auth: pg_k8s
        command: "INSERT INTO results_not_found (...)"
        spec:
          policy:
            rules:
              - when: "{{ outcome.status == 'error' }}"
                then: { do: fail }
              - else:
                  then: { do: jump, to: paginate }
      - name: paginate
        kind: noop
        spec:
          policy:
            rules:
              - when: "{{ iter.has_more == true }}"
                then:
                  do: jump
                  to: fetch_page
                  set_iter:
                    page: "{{ (iter.page | int) + 1 }}"
              - else:
                  then: { do: break }
    next:
      spec:
        mode: exclusive
      arcs:
        - step: validate_results
          when: "{{ event.name == 'loop.done' }}"
        - step: cleanup
          when: "{{ event.name == 'step.failed' }}"
  - { step: validate_results, tool: { kind: noop } }
  - { step: cleanup, tool: { kind: noop } }
"""

PIPELINE = """
keychain: [{name: pg_k8s, kind: postgres_credential}]
workflow:
  - step: fetch_transform_store
    spec: { policy: { admit: { rules: [{ else: { then: { allow: true } } }] } } }
    tool:
      - fetch:
          kind: http
          method: GET
          url: "{{ workload.api_url }}/data"
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' and outcome.http.status in [429,500,502,503,504] }}"
                  then: { do: retry, attempts: 5, backoff: exponential, delay: 2 }
                - when: "{{ outcome.status == 'error' }}"
                  then: { do: fail }
                - else:
                    then: { do: continue }
      - transform:
          kind: python
          args: { data: "{{ _prev }}" }
          code: |
            result = transform(data)
      - store:
          kind: postgres
          auth: pg_k8s
          command: "INSERT INTO ..."
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' }}"
                  then: { do: fail }
                - else:
                    then:
                      do: break
                      set_ctx: { store_ok: true }
    next:
      spec: { mode: exclusive }
      arcs:
        - step: continue
          when: "{{ event.name == 'step.done' and ctx.store_ok == true }}"
        - step: failed
          when: "{{ event.name == 'step.done' and ctx.store_ok != true }}"
        - step: failed
          when: "{{ event.name == 'step.failed' }}"
  - { step: continue, tool: { kind: noop } }
  - { step: failed, tool: { kind: noop } }
"""

EVAL_DIALECT = """
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
    next:
      - step: validate_results
        when: "{{ event.name == 'loop.done' }}"
  - { step: validate_results, tool: { kind: noop } }
"""


def test_the_streaming_pagination_example() -> None:
    step = valid(STREAMING).steps[0]
    assert step.loop is not None
    assert (step.loop.exec, step.loop.max_in_flight, step.loop.failure_mode) == ("distributed", 10, "best_effort")
    assert [t.name for t in step.tasks] == ["init_iter", "fetch_page", "route_by_status", "store_200", "store_404", "paginate"]
    assert step.tasks[1].spec == {"timeout": {"connect": 5, "read": 15}}
    assert step.timeout_s == 600


def test_the_pipeline_example() -> None:
    playbook = valid(PIPELINE)
    assert [t.name for t in playbook.steps[0].tasks] == ["fetch", "transform", "store"]
    assert playbook.steps[0].tasks[1].inputs["code"] == "result = transform(data)\n"


def test_the_eval_dialect_is_refused_at_every_legacy_form_and_names_the_command() -> None:
    playbook, found = check(HEAD + EVAL_DIALECT)
    assert playbook is None
    errors = [d for d in found if d.severity == "error"]
    assert [(d.code, d.path[-1]) for d in errors] == [("E120", "next_mode"), ("E120", "when"), ("E120", "eval"), ("E120", "next")]
    assert all(MIGRATE in d.hint for d in errors)
