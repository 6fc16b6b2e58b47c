"""A case that fails says in what, with the line of the expectation."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl_core.testing import registry
from noetl_core.testing.files import read
from noetl_core.testing.suite import run_case
from tests.unit.testing.scenes import FETCH, HEAD

FLOW = (
    HEAD
    + FETCH
    + """    next: { arcs: [{ step: last, when: "{{ event.result.data.n > 2 }}" }] }
  - step: last
    tool: { kind: noop, result: { n: "{{ steps.fetch.result.data.n }}", list: [1, 2] }, set_ctx: { seen: true } }
"""
)
GOOD = """test: good
tools: { fetch.page: { ok: { data: { n: 3 } }, seconds: 5 } }
expect:
  result:
    n: 3
    list:
      - 1
      - 2
  ctx: { seen: true }
  seconds: 5
  steps: { last: { status: ok } }
  path: [fetch, last]
  calls: { fetch: 1, fetch.page: [{ url: "http://shop*" }] }
  warnings: 0
  events: [PlaybookExecutionRequested, ..., TaskProcessed fetch.page, ..., StepDone last, ...]
  never: [StepFailed]
  count: { TaskProcessed: 2 }
"""
CHANGES = {
    "n: 3\n    list": ("n: 4\n    list", [(5, "result.n is 3, expected 4")]),
    "      - 2": ("      - 1", [(8, "result.list[1] is 2, expected 1")]),
    "seen: true": ("seen: false", [(9, "ctx.seen is true, expected false")]),
    "seconds: 5\n  steps": ("seconds: 6\n  steps", [(10, "seconds is 5.0, expected 6")]),
    "status: ok": ("status: error", [(11, 'steps.last.status is "ok", expected "error"')]),
    "[fetch, last]": ("[fetch]", [(12, "the path is fetch, last; there are steps after the last one expected; a list")]),
    "fetch: 1": ("fetch: 2", [(13, "calls.fetch is 1, expected 2")]),
    "http://shop*": ("http://shoe*", [(13, 'calls.fetch.page[0].url is "http://shop.example/orders", expected')]),
    "warnings: 0": ("warnings: 1", [(14, "warnings is 0, expected 1")]),
    "StepDone last": ("StepDone first", [(15, 'expected event 5 does not come next: "StepDone first"')]),
    "[StepFailed]": ("[StepDone]", [(16, "there is an event StepDone\n    StepDone fetch success")]),
    "TaskProcessed: 2": ("TaskProcessed: 3", [(17, "2 events are TaskProcessed, expected 3")]),
    "expect:\n": ("expect:\n  status: failed\n", [(4, "status is completed, expected failed")]),
    "{ ok: { data: { n: 3 } }, seconds: 5 }": (
        "[{ ok: { data: { n: 3 } }, seconds: 5 }, { ok: {} }]",
        [(2, "outcome 2 of 2 of fetch.page answered no call (optional: true allows that)")],
    ),
    "expect:\n  result": (
        "acts: [{ signal: go }, { resume: }]\nexpect:\n  result",
        [(3, "signal go never happened: nothing waited for it"), (3, "resume never happened: the execution was not paused")],
    ),
    "tools: { fetch.page: { ok: { data: { n: 3 } }, seconds: 5 } }": (
        "tools: {}",
        [
            (
                2,
                "task fetch.page: no outcome is scripted, and it would reach outside the test\n    tools:\n      fetch.page: {ok: {data: {}}}",
            )
        ],
    ),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "flow.yaml").write_text(FLOW)
    return tmp_path / "flow.test.yaml"


def test_a_case_passes(file: Path) -> None:
    file.write_text(GOOD)
    result = run_case(read(file)[0])
    assert (result.findings, result.path, result.seconds) == ((), ("fetch", "last"), 5)


@pytest.mark.parametrize("part", CHANGES)
def test_each_expectation_can_fail(part: str, file: Path) -> None:
    other, expected = CHANGES[part]
    assert part in GOOD
    file.write_text(GOOD.replace(part, other, 1))
    findings = run_case(read(file)[0]).findings
    assert [finding.line for finding in findings] == [line for line, _ in expected], findings
    assert all(finding.text.startswith(text) for finding, (_, text) in zip(findings, expected, strict=True)), findings


def test_a_failure_says_where_the_execution_failed(file: Path) -> None:
    file.write_text("test: fails\ntools: { fetch: { http: { status: 503 } } }\n")
    (finding,) = run_case(read(file)[0]).findings
    assert finding.text == "status is failed, expected completed: server_error in fetch.page: HTTP 503"


def test_a_failed_case_shows_warnings(file: Path) -> None:
    fetch = FETCH.replace("orders }", "orders, spec: { policy: { rules: [{ else: { then: { do: continue } } }] } } }")
    (file.parent / "flow.yaml").write_text(HEAD + fetch)
    case = "test: {}\ntools: {{ fetch: {{ http: {{ status: 404 }} }} }}\nexpect: {{ {} }}\n---\n"
    file.write_text(case.format("a", "result: 1") + case.format("b", "result: 1, warnings: 1") + case.format("c", "warnings: 1"))
    failed, stated, passed = ([finding.text for finding in run_case(each).findings] for each in read(file))
    assert failed == ["result is null, expected 1", "warning: fetch/page failed, and its policy let it pass: not_found: HTTP 404"]
    assert (stated, passed) == (failed[:1], [])


def test_a_refused_start_may_be_expected(file: Path) -> None:
    (file.parent / "flow.yaml").write_text(
        FLOW.replace("workflow:", "workload: { n: 1, x-schema: { properties: { n: { type: integer } } } }\nworkflow:", 1)
    )
    file.write_text(
        'test: refused\npayload: { n: much }\nexpect: { refused: "workload.n is string, not integer" }\n---\n'
        'test: too\npayload: { n: much }\n---\ntest: not\nexpect: { refused: "*" }\ntools: { fetch: { ok: { data: { n: 0 } } } }\n'
    )
    refused, too, accepted = (run_case(case).findings for case in read(file))
    assert refused == ()
    assert [(finding.line, finding.text.partition(":")[0]) for finding in too] == [(5, "the start is refused")]
    assert [(finding.line, finding.text) for finding in accepted] == [
        (9, "the start was not refused: the execution is completed")
    ]


def test_notifications_of_failures_succeed_and_cursors_are_named(file: Path) -> None:
    (file.parent / "flow.yaml").write_text(
        HEAD + "executor: { spec: { on_failure: { webhook: 'http://pager.example' } } }\n" + FETCH
    )
    file.write_text(
        "test: fails\ntools: { fetch: { http: { status: 500 } } }\nexpect: { status: failed, calls: { tell.post: 1 } }\n"
    )
    assert run_case(read(file)[0]).findings == ()
    (file.parent / "flow.yaml").write_text(
        HEAD
        + "workflow:\n  - step: drain\n    loop: { cursor: { kind: postgres, auth: { host: db.example }, table: t, key: id, where: 'true', done: delete }, iterator: row }\n"
        "    tool: { kind: noop }\n"
    )
    file.write_text("test: cursor\n")
    (finding,) = run_case(read(file)[0]).findings
    assert finding.text.endswith("loops with a cursor cannot be tested: their source cannot be scripted")


def test_a_jump_that_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand visits take seconds, as many as an execution may make take minutes."""
    assert registry.MOST_VISITS == 1_000
    monkeypatch.setattr(registry, "MOST_VISITS", 5)
    again = "spec: { policy: { rules: [{ else: { then: { do: jump, to: page } } }] } }"
    (tmp_path / "playbook.yaml").write_text(HEAD + FETCH.replace("orders }", f"orders, {again} }}"))
    (tmp_path / "a.test.yaml").write_text("test: endless\ntools: { fetch.page: { ok: {} } }\n")
    (case,) = read(tmp_path / "a.test.yaml")
    (finding,) = run_case(case).findings
    assert (finding.line, finding.text) == (2, "task fetch.page: it is visited more than 5 times: does the jump to it end?")
