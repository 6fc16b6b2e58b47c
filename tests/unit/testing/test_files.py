"""Test files: what they give and expect, and everything that is wrong with them, at its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.dsl.reading.load import load
from noetl_core.testing.fields import test_schema as schema_of_tests
from noetl_core.testing.files import BadTests, read
from noetl_core.testing.suite import run_case
from noetl_core.testing.suite import test_files as found_files
from noetl_core.values.instants import SECOND
from tests.unit.testing.scenes import FETCH, HEAD

TRIGGERS = """executor:
  spec:
    triggers:
      - { name: nightly, schedule: "0 2 * * *", payload: { day: "{{ trigger.scheduled_at[:10] }}" } }
      - { name: shipped, event: { source: [shop] }, payload: { order: "{{ trigger.event.detail.id }}" } }
"""
FLOW = (
    HEAD
    + TRIGGERS
    + FETCH
    + """    next: { arcs: [{ step: save, args: { rows: "{{ fetch.data }}" } }] }
  - step: save
    tool: { name: insert, kind: postgres, auth: { host: db.example }, command: INSERT INTO t VALUES (%(n)s), params: { n: "{{ args.rows }}" } }
  - step: ask
    tool: { name: yes, kind: callback, signal: go }
"""
)
TWO = """tools:
  save: { ok: { rows: [] } }
payload: { a: 1 }
tests:
  - test: one
    tools: { fetch.page: { ok: { data: 5 } } }
    expect: { path: [fetch, save], calls: { save.insert: [{ params: { n: 5 } }] } }
  - test: two
    now: 2026-05-01T00:00:00Z
    strict: true
    payload: { b: 2 }
    tools: { fetch: { http: { status: 404 } }, save: [{ ok: { rows: [] }, optional: true }] }
    acts: [{ signal: go, data: 1, after: 2m }, { cancel: , reason: late, at: waiting }]
    expect: { error: { kind: not_found } }
---
test: three
expect: { status: waiting }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "flow.yaml").write_text(FLOW)
    return tmp_path / "flow.test.yaml"


def problems(file: Path, text: str) -> list[str]:
    file.write_text(text)
    with pytest.raises(BadTests) as bad:
        read(file)
    return [str(problem).removeprefix(f"{file}:") for problem in bad.value.problems]


def test_cases_of_a_document_share_its_payload_and_tools(file: Path) -> None:
    file.write_text(TWO)
    one, two, three = read(file)
    assert [(case.name, case.line) for case in (one, two, three)] == [("one", 5), ("two", 8), ("three", 16)]
    assert (one.scene.payload, two.scene.payload, three.scene.payload) == ({"a": 1}, {"a": 1, "b": 2}, {})
    assert (sorted(one.scene.tools), three.scene.tools, three.scene.until) == (["fetch.page", "save"], {}, "waiting")
    assert (two.scene.now, two.scene.strict, one.scene.strict) == (1_777_593_600 * SECOND, True, False)
    assert [(act.what, dict(act.data), act.at, act.after_s, act.line) for act in two.scene.acts] == [
        ("signal", {"data": 1, "name": "go"}, "", 120, 13),
        ("cancel", {"reason": "late"}, "waiting", 0, 13),
    ]
    assert [run_case(case).findings for case in (one,)] == [()]


WRONG = {
    "a key": ("test: a\nexpekt: {}\n", '2:1 unknown key "expekt" in a test (did you mean "expect"?)'),
    "a key of expect": ("test: a\nexpect: { stauts: failed }\n", '2:11 unknown key "stauts" in expect of test "a" (did you mean "status"?)'),
    "a type": ("test: a\npayload: [1]\n", "2:10 payload of a test must be object, not a list"),
    "no name": ("expect: {}\n", "1:1 a test has no name (test: what it shows)"),
    "two names": ("test: a\n---\ntest: a\n", '3:7 test "a" exists already (line 1) (rename one)'),
    "nothing": ("# later\n", "1:1 the file has no tests (begin with test: NAME)"),
    "YAML": ("test: [\n", "2:1 did not find expected node content (check the indentation and the quotes above this line)"),
    "a task without its step": ("test: a\ntools: { page: { ok: { data: [] } } }\n", '2:10 tools of test "a": no task is called "page" (did you mean "fetch.page"?)'),
    "a task": ("test: a\ntools: { fetch.pgae: { ok: {} } }\n", '2:10 tools of test "a": no task is called "fetch.pgae" (did you mean "fetch.page"?)'),
    "a task of the engine": (
        "test: a\ntools: { ask.yes: { ok: {} } }\n",
        '2:10 tools of test "a": no task is called "ask.yes" (the engine carries it out: script the tasks of the child, or use acts)',
    ),
    "a step": ("test: a\nexpect: { path: [fetch, svae] }\n", '2:25 test "a": "svae" is not a step (did you mean "save"?)'),
    "an act": ("test: a\nacts: [{ at: waiting }]\n", '2:8 test "a": an act has exactly one of signal, callback, cancel, pause, resume'),
    "a key of an act": ("test: a\nacts: [{ pause: , data: 1 }]\n", '2:8 test "a": data does not belong to pause: it takes at, after'),
    "a time of an act": (
        "test: a\nacts: [{ signal: go, after: soon }]\n",
        "2:8 test \"a\": after must be a number between 0 and 31,622,400 (seconds, or text such as 15m, 2h, 1d), not 'soon'",
    ),
    "a selector": (
        "test: a\ntools: { fetch: { error: {}, attempt: one } }\n",
        "2:39 attempt of an outcome of fetch must be a number or a list of them",
    ),
    "a credential": (
        "test: a\nsecrets: { db: abc }\n",
        "2:16 test \"a\": credential db must be a mapping, not 'abc' (such as {token: x})",
    ),
    "a task that is called": (
        "test: a\nexpect: { calls: { save.insrt: 0 } }\n",
        '2:20 test "a": no task is called "save.insrt" (did you mean "save.insert"?)',
    ),
    "an event": (
        "test: a\nexpect: { never: [StepDoen save] }\n",
        '2:19 test "a": "StepDoen" is not an event (did you mean "StepDone"?)',
    ),
    "an event that is counted": ("test: a\nexpect: { count: { Zzzz: 0 } }\n", '2:20 test "a": "Zzzz" is not an event'),
    "no playbook": ("test: a\nplaybook: flwo.yaml\n", "2:11 there is no playbook flwo.yaml in {folder} (playbook: its file)"),
    "an outcome": ("test: a\ntools: { fetch: { attempt: 1 } }\n", "2:17 an outcome of fetch has none of ok, error and echo"),
    "a template of a selector": (
        'test: a\ntools: { fetch: { error: {}, when: "{{ inputs.page > }}" } }\n',
        "2:54 template in an outcome of fetch: unexpected 'end of print statement'",
    ),
    "a template of an answer": (
        'test: a\ntools:\n  fetch: [{ ok: { data: ["{{ visit + 1 }" ] } }]\n',
        "3:40 template in an outcome of fetch: unexpected '}'",
    ),
    "a selector without braces": (
        "test: a\ntools: { fetch: { error: {}, when: visit > 2 } }\n",
        '2:36 when of an outcome of fetch is text, which is always true (when: "{{ visit > 2 }}")',
    ),
    "a trigger": (
        "test: a\ntrigger: { name: nigthly }\n",
        '2:18 test "a": "nigthly" is not a trigger of the playbook (did you mean "nightly"?)',
    ),
    "a trigger of several": ("test: a\ntrigger: { event: {} }\n", '2:10 test "a": trigger: name or kind is missing'),
    "an error": (
        "test: a\ntools: { fetch: { error: { knid: timeout } } }\n",
        '2:28 unknown key "knid" in the error of fetch (did you mean "kind"?)',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_found_at_its_place(name: str, file: Path) -> None:
    text, message = WRONG[name]
    assert problems(file, text) == [message.replace("{folder}", str(file.parent))]


def test_a_file_that_is_no_text_is_a_mistake(file: Path) -> None:
    file.write_bytes(b"test: \xff")
    with pytest.raises(BadTests, match="the file is not text in UTF-8"):
        read(file)


IMPOSSIBLE = {
    "fetch: { ok: [1, 2] }": "an http task gives {status, headers, data, url, elapsed_ms}: write the body as ok: {data: ...}",
    "fetch: { ok: { id: 5 } }": "the result of a task of kind http has no field 'id'; an http task gives",
    "fetch: { ok: { status: 500 } }": "status 500 is an error: write error: {} and http: {status: 500}",
    "fetch: { error: { kind: db_deadlock } }": "a task of kind http has no error of kind db_deadlock; it has auth,",
    "fetch: { error: { kind: timeout }, http: { status: 404 } }": "status 404 is an error of kind not_found, not timeout",
    "fetch: { error: { kind: lost } }": "an error of kind lost comes from the engine, never from a task of kind http",
    "fetch: { error: {}, http: { status: 201 } }": "status 201 is not an error: write ok: {status: 201, data: ...}",
    "save: { ok: [{ id: 1 }] }": "a task of kind postgres gives {rows, columns, row_count}: write ok: {rows: [...]}",
    "save: { ok: 5 }": "a task of kind postgres gives rows: write ok: {rows: [{column: value}]}",
    "save: { ok: { rows: [1] } }": "rows of kind postgres are mappings: write rows: [{column: value}]",
    "save: { ok: { rows: [{ a: 1 }, { b: 1 }] } }": "row 1 has other columns than row 0: b and a",
    "save: { ok: { row: [] } }": "the result of a task of kind postgres has no field 'row'; did you mean \"rows\"?",
    "save: { error: { kind: python } }": "a task of kind postgres has no error of kind python; it has auth,",
}


@pytest.mark.parametrize("script", IMPOSSIBLE)
def test_a_mock_that_cannot_happen_is_refused(script: str, file: Path) -> None:
    (problem,) = problems(file, f"test: a\ntools: {{ {script} }}\n")
    assert f"a mock that cannot happen: {script.partition(':')[0]}: {IMPOSSIBLE[script]}" in problem


def test_a_mock_with_templates_is_refused_when_it_answers(file: Path) -> None:
    file.write_text("test: a\ntools: { fetch: { ok: '{{ [1] }}' } }\n")
    (finding,) = run_case(read(file)[0]).findings
    assert "task fetch.page: an http task gives" in finding.text


def test_an_invalid_playbook_is_reported_as_validation_does(file: Path) -> None:
    (file.parent / "flow.yaml").write_text(FLOW.replace("kind: http", "kind: htpp"))
    file.write_text("test: a\n")
    with pytest.raises(InvalidPlaybook, match='"htpp" is not a tool kind'):
        read(file)


def test_the_schema_of_test_files_agrees_with_the_reader(file: Path) -> None:
    validator = Draft202012Validator(schema_of_tests())
    Draft202012Validator.check_schema(schema_of_tests())
    assert [str(error) for part in TWO.split("---\n") for error in validator.iter_errors(load(part).root.plain())] == []  # type: ignore[union-attr]  # it loads
    for name in ("a key", "a key of expect", "a type", "no name", "an act"):
        assert list(validator.iter_errors(load(WRONG[name][0]).root.plain())), name  # type: ignore[union-attr]  # as above


def test_test_files_are_found_below_a_folder(tmp_path: Path) -> None:
    for name in ("b/two.test.yaml", "a/one.test.yaml", ".git/three.test.yaml", "a/one.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert found_files([tmp_path]) == [tmp_path / "a/one.test.yaml", tmp_path / "b/two.test.yaml"]


def test_a_playbook_that_is_called_by_its_file_is_played(tmp_path: Path) -> None:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\n"
    child = "metadata: { name: child, path: tests/child }\nworkflow: [{ step: a, tool: { kind: noop, result: 7 } }]\n"
    (tmp_path / "child.yaml").write_text(head + child)
    parent = (
        "metadata: { name: parent, path: tests/parent }\nworkflow: [{ step: a, tool: { kind: playbook, path: ./child.yaml } }]\n"
    )
    (tmp_path / "parent.yaml").write_text(head + parent)
    (tmp_path / "parent.test.yaml").write_text("test: the child answers\nexpect: { result: 7 }\n")
    (case,) = read(tmp_path / "parent.test.yaml")
    assert run_case(case).findings == ()


def test_a_case_states_the_trigger_that_starts_it(file: Path) -> None:
    """The payload is what the playbook's trigger makes of the delivery, and the case may change it."""
    file.write_text("""test: shipped
trigger: { name: shipped, event: { detail: { id: 7 } } }
payload: { more: 1 }
tools: { fetch: { ok: { data: '{{ workload.order + workload.more }} of {{ workload.by }}' } } }
expect: { steps: { fetch: { result: { data: "8 of event" } } }, status: waiting }
---
test: a delivery without id
strict: true
trigger: { name: shipped, event: { detail: {} } }
expect: { refused: "*detail.id }} is undefined*" }
---
test: another source
trigger: { kind: failure, id: f-1 }
tools: { fetch: { ok: { data: '{{ workload.by }}' } } }
expect: { steps: { fetch: { result: { data: failure } } }, status: waiting }
""")
    flow = file.parent / "flow.yaml"
    flow.write_text(
        FLOW.replace("workflow:", 'workload: { by: "{{ trigger.kind }}" }\nworkflow:').replace("save, args", "ask, args")
    )
    assert [run_case(case).findings for case in read(file)] == [(), (), ()]
