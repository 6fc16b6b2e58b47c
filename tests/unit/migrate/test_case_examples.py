"""The examples of the case dialect's text, whole, rewritten and run: each comes out as the text says."""

from __future__ import annotations

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_migrate import migrate
from tests.unit.migrate.legacy import HEAD, Ended, canonical, http_error, ok, page, run

PAGINATED = (
    HEAD
    + """
workload:
  api_url: "https://api.example.com"
  endpoints: [{ path: /flights, page_size: 10 }, { path: /hotels, page_size: 5 }]
workflow:
  - step: fetch_all_endpoints
    desc: Loop over endpoints with HTTP pagination - verify single step_result after loop
    tool:
      kind: http
      url: "{{ workload.api_url }}{{ endpoint.path }}"
      method: GET
      params:
        page: 1
        pageSize: "{{ endpoint.page_size }}"

    loop:
      in: "{{ workload.endpoints }}"
      iterator: endpoint

    case:
      # example: initialize aggregation when the step starts
      - when: "{{ event.name == 'step.enter' }}"
        then:
          set:
            ctx:
              pages: []

      # retry rule on 5xx
      - when: >-
          {{ event.name == 'call.done'
             and error is defined
             and error.status in [500, 502, 503] }}
        then:
          retry:
            max_attempts: 3
            backoff_multiplier: 2.0
            initial_delay: 0.01

      # pagination rule
      - when: >-
          {{ event.name == 'call.done'
             and response is defined
             and response.paging.hasMore == true }}
        then:
          collect:
            from: response.data
            into: pages
            mode: append
          call:
            params:
              page: "{{ (response.paging.page | int) + 1 }}"
              pageSize: "{{ response.paging.pageSize }}"

      # final page -> set result and transition
      - when: >-
          {{ event.name == 'call.done'
             and response is defined
             and not response.paging.hasMore }}
        then:
          collect:
            from: response.data
            into: pages
            mode: append
          result:
            from: pages
          next:
            - step: validate_results
              args:
                pages: "{{ pages }}"

  - step: validate_results
    tool: { kind: noop, result: { pages: "{{ args.pages }}", result: "{{ fetch_all_endpoints }}" } }
"""
)


LOOP = PAGINATED[PAGINATED.index("    loop:") : PAGINATED.index("    case:")]
AS_IN_THE_PROMPT = (
    PAGINATED.replace(LOOP, "").replace("    tool:\n", LOOP + "    tool:\n", 1).replace("      url:", "      endpoint:", 1)
)
"""The text has the example twice: in its second half the loop comes first and the address is called endpoint."""


@pytest.mark.parametrize("source", [PAGINATED, AS_IN_THE_PROMPT], ids=["url", "endpoint"])
def test_paginated_endpoints(source: str) -> None:
    """Pages are collected across `call`s, 503 is retried, and the last page's `next` ends the loop early (README 29)."""
    ended = run(source, {"http": [http_error(503), page(1, True), http_error(500), page(2, True), page(3, False)]})
    assert ended.status == "completed"
    assert ended.steps["validate_results"] == {"pages": [[1], [2], [3]], "result": [[1], [2], [3]]}
    assert [c.inputs["params"] for c in ended.tools["http"].calls] == [
        {"page": 1, "pageSize": 10},
        {"page": 1, "pageSize": 10},
        {"page": 2, "pageSize": 10},
        {"page": 2, "pageSize": 10},
        {"page": 3, "pageSize": 10},
    ]
    assert {c.inputs["url"] for c in ended.tools["http"].calls} == {"https://api.example.com/flights"}


def test_paginated_endpoints_fail_after_their_last_attempt() -> None:
    ended = run(PAGINATED, {"http": [http_error(503)] * 3})
    assert (ended.status, len(ended.tools["http"].calls), ended.visits("validate_results")) == ("failed", 3, 0)


def test_an_error_that_no_entry_answers_fails_the_step() -> None:
    ended = run(PAGINATED, {"http": [http_error(404)]})
    assert (ended.status, len(ended.tools["http"].calls)) == ("failed", 1)


WEATHER = (
    HEAD
    + """
workload: { state: ready, cities: [Oslo, Rome], base_url: "https://weather.example.com", temperature_threshold: 25 }
workflow:
  - step: start
    desc: "Start Weather Analysis Workflow"
    next: city_loop # structural default
    case:
      - when: "{{ event.name == 'step.exit' and workload.state != 'ready' }}"
        then:
          next:
            - step: end

  - step: city_loop
    desc: "Iterate over cities"
    loop:
      in: "{{ workload.cities }}"
      iterator: city
    next: fetch_and_evaluate # structural next
    case:
      - when: "{{ event.name == 'step.exit' }}"
        then:
          next:
            - step: fetch_and_evaluate
              args:
                city: "{{ city }}"
                base_url: "{{ workload.base_url }}"
                temperature_threshold: "{{ workload.temperature_threshold }}"

  - step: fetch_and_evaluate
    tool:
      kind: http
      method: GET
      endpoint: "{{ args.base_url }}/forecast"
      params: { threshold: "{{ args.temperature_threshold }}", city: "{{ args.city }}" }
    next: end

  - step: end
"""
)


def test_weather_loop() -> None:
    """Ready: the loop, then its transition with args; the iterator is not among what a transition sees."""
    ended = run(WEATHER, {"http": [page(1, False)]})
    assert (ended.status, ended.steps["city_loop"]) == ("completed", ["Oslo", "Rome"])
    assert [ended.visits(s) for s in ("start", "city_loop", "fetch_and_evaluate", "end")] == [1, 1, 1, 1]
    (call,) = ended.tools["http"].calls
    assert call.inputs["url"] == "https://weather.example.com/forecast"
    assert call.inputs["params"] == {"threshold": 25, "city": None}
    (warning,) = migrate(WEATHER, "flow.yaml").diagnostics
    line = next(i for i, text in enumerate(WEATHER.splitlines(), 1) if "{{ city }}" in text)
    assert (warning.code, warning.severity, warning.line, warning.col) == ("W450", "warning", line, 23)


def test_weather_loop_that_is_not_ready_ends_at_once() -> None:
    ended = run(WEATHER, {}, {"state": "draft"})
    assert (ended.status, ended.visits("end"), ended.visits("city_loop")) == ("completed", 1, 0)


VARIABLES = (
    HEAD
    + """
workload: { pg_auth: pg_k8s }
keychain: [{ name: pg_k8s, kind: postgres_credential }]
workflow:
  - step: fetch_user
    tool:
      kind: postgres
      auth: "{{ workload.pg_auth }}"
      command: "SELECT user_id, email FROM users WHERE id = 1"
    vars:
      user_id: "{{ result[0].user_id }}"
      email: "{{ result[0].email }}"
    next: send_email

  - step: send_email
    tool:
      kind: http
      method: POST
      endpoint: "https://api.example.com/send"
      payload:
        to: "{{ vars.email }}"
        subject: "Hello user {{ vars.user_id }}"
"""
)


def test_variables_are_taken_from_a_steps_result_and_read_by_the_others() -> None:
    rows = ok({"rows": [{"user_id": 7, "email": "ada@example.com"}], "columns": ["user_id", "email"], "row_count": 1})
    ended = run(VARIABLES, {"postgres": [rows], "http": [page(1, False)]})
    assert ended.status == "completed"
    assert dict(ended.ctx) == {"user_id": 7, "email": "ada@example.com"}
    assert ended.tools["http"].calls[0].inputs["json"] == {"to": "ada@example.com", "subject": "Hello user 7"}


SKELETON = (
    HEAD
    + """
workload: { endpoints: [{ path: /a, page_size: 3 }], api_url: "https://x" }
workflow:
  - step: fetch_all_endpoints
    desc: Loop over endpoints
    args: {}
    loop:
      in: "{{ workload.endpoints }}"
      iterator: endpoint
    tool:
      kind: http
      url: "{{ workload.api_url }}{{ endpoint.path }}"
      method: GET
      params:
        page: 1
        pageSize: "{{ endpoint.page_size }}"
      timeout: 5
    case:
      - when: "{{ event.name == 'call.done' and response.paging.hasMore }}"
        then: { call: { params: { page: "{{ response.paging.page + 1 }}" } } }
      - when: "{{ event.name == 'call.done' and not response.paging.hasMore }}"
        then: { set: { last: "{{ response.paging.page }}" } }
    # optional structural default
    next: validate_results
  - step: validate_results
    tool: { kind: noop, result: "{{ ctx.last }}" }
"""
)


def test_the_shape_with_everything_under_tool_pages_and_takes_its_structural_next() -> None:
    ended = run(SKELETON, {"http": [page(1, True), page(2, False)]})
    assert (ended.status, ended.steps["validate_results"]) == ("completed", 2)
    assert [c.inputs["params"] for c in ended.tools["http"].calls] == [{"page": 1, "pageSize": 3}, {"page": 2, "pageSize": 3}]
    assert [c.timeout_s for c in ended.tools["http"].calls] == [5, 5]


THREE_EVENTS = (
    HEAD
    + """
workflow:
  - step: fetch_all_endpoints
    desc: three events
    loop: { in: "{{ [1, 2] }}", iterator: n }
    tool: { kind: http, url: "https://x/{{ n }}" }
    case:
      - when: "{{ event.name == 'step.enter' }}"
        then: { set: { ctx: { seen: [] } } }
      - when: "{{ event.name == 'call.done' and error.status == 503 }}"
        then: { retry: { max_attempts: 2, initial_delay: 0 } }
      - when: "{{ event.name == 'call.done' }}"
        then: { collect: { from: n, into: seen } }
      - when: "{{ event.name == 'step.exit' }}"
        then:
          next:
            - step: validate_results
              args: { seen: "{{ seen }}" }
  - step: validate_results
    tool: { kind: noop, result: "{{ args.seen }}" }
"""
)


def test_events_come_in_their_order_and_call_done_once_for_each_item() -> None:
    ended = run(THREE_EVENTS, {"http": [http_error(503), page(1, False), page(2, False)]})
    assert (ended.status, ended.steps["validate_results"]) == ("completed", [1, 2])


BRANCHES = (
    HEAD
    + """
workload: { flag: true }
workflow:
  - step: find
    tool: { kind: http, url: "https://x" }
    case:
      - when: "{{ event.name == 'step.exit' and workload.flag }}"
        then:
          next:
            - step: city_loop
              args:
                city: "{{ result.city }}"
      - when: "{{ event.name == 'step.exit' and not workload.flag }}"
        then:
          next:
            - step: end
  - step: city_loop
    tool: { kind: noop, result: "{{ args.city }}" }
  - step: end
"""
)


@pytest.mark.parametrize(("flag", "visited"), [(True, "city_loop"), (False, "end")])
def test_conditional_transitions_at_step_exit(flag: bool, visited: str) -> None:
    answer = Outcome.ok({"status": 200, "data": {"city": "Oslo"}}, http={"status": 200})
    ended = run(BRANCHES, {"http": [answer]}, {"flag": flag})
    assert (ended.status, ended.visits(visited), ended.visits("city_loop") + ended.visits("end")) == ("completed", 1, 1)
    if flag:
        assert ended.steps["city_loop"] == "Oslo"


SINK = (
    HEAD
    + """
workload: { pg_auth: pg_k8s }
keychain: [{ name: pg_k8s, kind: postgres_credential }]
workflow:
  - step: measure
    tool: { kind: python, code: "result = {'value': 1}" }
    case:
      - when: "{{ event.name == 'call.done' and result.value > 1 }}"
        then:
          sink:
            tool:
              kind: postgres
              auth: "{{ workload.pg_auth }}"
              command: |
                INSERT INTO events (value) VALUES (%(value)s)
            args:
              value: "{{ result.value }}"
    next: after
  - step: after
    tool: { kind: noop, result: "{{ measure }}" }
"""
)


@pytest.mark.parametrize(("value", "stored"), [(1, []), (2, [{"value": 2}])])
def test_a_sink_stores_where_its_entry_matches_and_leaves_the_result(value: int, stored: list[object]) -> None:
    ended = run(SINK, {"python": [ok({"value": value})], "postgres": [ok()]})
    assert [c.inputs["params"] for c in ended.tools["postgres"].calls] == stored
    assert (ended.status, ended.steps["after"]) == ("completed", {"value": value})


NEXT_FORMS = "foo", "[foo, bar]", "[{ step: foo, args: { x: 1 } }, { step: bar }]"


@pytest.mark.parametrize("form", NEXT_FORMS)
def test_structural_next_in_its_forms(form: str) -> None:
    """The "small patch": without case the step runs its tool, and `next` is used as it is - every target."""
    source = HEAD + (
        f"workflow:\n  - step: a\n    tool: {{ kind: noop }}\n    next: {form}\n"
        "  - { step: foo, tool: { kind: noop, result: '{{ args }}' } }\n"
        "  - { step: bar, tool: { kind: noop } }\n"
    )
    ended = run(source, {})
    assert (ended.status, ended.visits("foo"), ended.visits("bar")) == ("completed", 1, int("bar" in form))
    assert ended.steps["foo"] == ({"x": 1} if "args" in form else {})


def fallback(found: str, response: object = None) -> Ended:
    source = HEAD + (
        "workload: { found: none }\nworkflow:\n  - step: a\n    tool: { kind: noop }\n"
        "    case:\n"
        "      - when: \"{{ event.name == 'step.exit' and workload.found in ['one', 'both'] }}\"\n"
        "        then: { next: [{ step: one }] }\n"
        "      - when: \"{{ event.name == 'step.exit' and workload.found in ['two', 'both'] }}\"\n"
        "        then: { next: [{ step: two }] }\n"
        "    next: [three, four]\n"
        + "".join(f"  - {{ step: {s}, tool: {{ kind: noop }} }}\n" for s in ("one", "two", "three", "four"))
    )
    return run(source, {}, {"found": found})


@pytest.mark.parametrize(
    ("found", "visited"), [("one", {"one"}), ("two", {"two"}), ("both", {"one", "two"}), ("none", {"three", "four"})]
)
def test_every_matching_entry_transitions_and_structural_next_is_the_fallback(found: str, visited: set[str]) -> None:
    ended = fallback(found)
    assert {s for s in ("one", "two", "three", "four") if ended.visits(s)} == visited


def test_canonical_output_is_readable() -> None:
    text = canonical(PAGINATED)
    assert "case" not in text.replace("case_", "")
    for comment in ("# example: initialize aggregation when the step starts", "# retry rule on 5xx", "# pagination rule"):
        assert f"      {comment}\n      - name:" in text
