"""A test that is recorded of an execution replays it: answers of tasks, acts, expectations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from noetl_core.log.stored_values import Values
from noetl_core.testing.acts import Act
from noetl_core.testing.files import read
from noetl_core.testing.play import Played, Scene, play
from noetl_core.testing.recording import WAYS, Recorded, Test, Way, record
from noetl_core.testing.suite import run_case
from tests.unit.testing.scenes import FETCH, HEAD, RACE

RETRIED = "spec: { policy: { rules: [{ when: \"{{ outcome.status == 'error' and outcome.error.retryable }}\", then: { do: retry, delay: 60, attempts: 3 } }, { when: \"{{ outcome.status == 'error' }}\", then: { do: fail } }, { else: { then: { do: continue } } }] } }"
LOOP = f"""workflow:
  - step: each
    loop: {{ in: [1, 2, 3, 4], iterator: n, spec: {{ mode: parallel }} }}
    tool: {{ name: page, kind: http, url: "http://shop.example/{{{{ iter.n }}}}", {RETRIED} }}
"""
NESTED = """workflow:
  - step: each
    loop: { in: [[1, 2], [3]], iterator: row, loop: { in: "{{ iter.row }}", iterator: n } }
    tool: { name: page, kind: http, url: "http://shop.example/{{ iter.n }}" }
"""
PAGES = """workflow:
  - step: fetch
    tool:
      - { name: begin, kind: noop, set_iter: { page: 1, rows: [] } }
      - name: page
        kind: http
        url: "http://shop.example/?page={{ iter.page }}"
        spec: { policy: { rules: [
          { when: "{{ outcome.status == 'error' }}", then: { do: retry, attempts: 5, delay: 1 } },
          { when: "{{ outcome.result.data.more }}", then: { do: jump, to: page, set_iter: { page: "{{ iter.page + 1 }}" } } },
          { else: { then: { do: continue } } } ] } }
"""
POLL = """workflow:
  - step: look
    tool: { name: state, kind: postgres, auth: { host: db.example }, command: SELECT state }
    next:
      spec: { mode: exclusive }
      arcs: [{ step: pause, when: "{{ event.result.rows[0].state == 'new' }}" }]
  - step: pause
    tool: { kind: wait, duration: 1h }
    next: { arcs: [{ step: look }] }
"""
ASK = """workflow:
  - step: ask
    tool: [{ name: yes, kind: callback, timeout: 1d }, { name: go, kind: callback, signal: go }]
"""
KEYS = "keychain: [{ name: shop, kind: bearer, credential: shop_key }]\n" + FETCH.replace(
    "orders }", "orders, headers: { key: '{{ keychain.shop.token }}' } }"
)
BRACES = "workflow:\n  - step: start\n    tool: { kind: http, url: http://a.example }\n"
ORDER = (
    FETCH
    + "    next: { arcs: [{ step: sum }] }\n  - step: sum\n    tool: { kind: python, args: { n: '{{ fetch.data.n }}' }, code: result = n + 1 }\n"
)

CASES: dict[str, tuple[str, dict[str, Any], tuple[Act, ...]]] = {
    "one answer": (FETCH, {"fetch": {"ok": {"data": [1, "1e3", "yes", "a: b", "two\nlines\n"]}}}, ()),
    "a failure": (FETCH, {"fetch": {"http": {"status": 404}}}, ()),
    "a task that runs": (ORDER, {"fetch": {"ok": {"data": {"n": 4}}}}, ()),
    "equal iterations": (LOOP, {"each": {"ok": {"data": 5}}}, ()),
    "retries in a loop": (
        LOOP,
        {"each": [{"index": [1, 2], "attempt": 1, "http": {"status": 503}}, {"index": 2, "attempt": 2, "error": {"kind": "timeout"}}, {"ok": {"data": "{{ inputs.url }}"}}]},
        (),
    ),
    "retries that end": (LOOP, {"each": [{"index": 3, "error": {"kind": "connection"}}, {"ok": {}}]}, ()),
    "nested loops": (NESTED, {"each": {"ok": {"data": "{{ path }}"}}}, ()),
    "pages": (
        PAGES,
        {"fetch.page": [{"visit": 2, "attempt": 1, "error": {"kind": "timeout"}}, {"ok": {"data": {"more": "{{ visit < 3 }}"}}}]},
        (),
    ),
    "runs of a step": (POLL, {"look": [{"ok": {"rows": [{"state": "new"}]}}, {"ok": {"rows": [{"state": "new"}]}}, {"ok": {"rows": [{"state": "done"}]}}]}, ()),
    "a race": (RACE, {"a": [{"error": {}, "http": {"status": 503}}, {"ok": {}}], "b": {"ok": {}, "seconds": 9}}, ()),
    "answers": (ASK, {}, (Act("callback", {"task": "ask.yes", "data": {"ok": True}}, after_s=7200), Act("signal", {"name": "go", "data": 2}, after_s=60))),
    "an answer that is an error": (ASK, {}, (Act("callback", {"error": {"kind": "auth", "message": "no"}}),)),
    "no answer": (ASK, {}, ()),
    "a cancelled one": (ASK, {}, (Act("cancel", {"reason": "late"}, at="waiting"),)),
    "a pause": (ASK, {}, (Act("pause"), Act("resume"), Act("callback", {"data": 1}), Act("signal", {"name": "go", "data": 2}))),
    "credentials": (KEYS, {"fetch": {"ok": {"data": 1}}}, ()),
    "large values": (FETCH, {"fetch": {"ok": {"data": ["x" * 100] * 100}}}, ()),
    "texts like templates": (BRACES, {"start": lambda **_: {"ok": {"data": "{{ not.a.template }}"}}}, ()),
}  # fmt: skip


def recorded(played: Played, source: str) -> Recorded:
    """Return a played execution as a backend knows it."""
    children = [event["data"]["child"] for event in played.events() if event["name"] == "ChildRequested"]
    families = [(played.playbook_of(each), played.history_of(each)) for each in (played.id, *children)]
    values = Values(played.control.store, played.control.results, played.id, limit=None)
    return Recorded(played.summary, source, families, lambda _, value: values.whole(value))


def written(test: Test, folder: Path) -> Path:
    file = folder / "flow.test.yaml"
    file.write_text(test.text)
    for name, value in test.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(value))
    return file


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CASES)
def test_a_recorded_test_replays(name: str, tmp_path: Path) -> None:
    workflow, tools, acts = CASES[name]
    (tmp_path / "flow.yaml").write_text(HEAD + workflow)
    seen = play(Scene(tmp_path / "flow.yaml", tools=tools, acts=acts, secrets={"shop_key": {"token": "abcdefgh12345"}}))
    assert (seen.unanswered, [str(act) for act in seen.acts.left], seen.acts.refused) == ([], [], [])
    test = record(recorded(seen, HEAD + workflow), name, "flow.yaml", Way(times=name == "a race"), "flow.values")
    (case,) = read(written(test, tmp_path))
    result = run_case(case)
    assert (result.findings, result.path) == ((), tuple(seen.path)), test.text
    assert "abcdefgh12345" not in test.text


def test_equal_answers_are_one_entry_and_others_have_the_selectors_that_differ(tmp_path: Path) -> None:
    def tools(name: str) -> Any:
        workflow, tools, acts = CASES[name]
        seen = play(Scene(HEAD + workflow, tools=tools, acts=acts))
        return record(recorded(seen, HEAD + workflow), name, "flow.yaml", WAYS[0], "v").document["tools"]

    assert list(tools("equal iterations").values()) == [{"ok": {"data": 5}}]
    (pages,) = tools("pages").values()
    assert pages == [
        {"visit": 2, "attempt": 1, "error": {"kind": "timeout", "message": "scripted"}},
        {"visit": 3, "attempt": 1, "ok": {"data": {"more": False}}},
        {"ok": {"data": {"more": True}}},
    ]
    (runs,) = tools("runs of a step").values()
    assert [entry["ok"]["rows"][0]["state"] for entry in runs] == ["new", "new", "done"]


def test_tasks_of_children_are_named_by_their_playbook(tmp_path: Path) -> None:
    (tmp_path / "child.yaml").write_text(HEAD.replace("here", "child") + FETCH)
    text = (
        HEAD
        + "workflow:\n  - step: call\n    loop: { in: [1, 2], iterator: n }\n    tool: { kind: playbook, path: mine/child }\n"
    )
    (tmp_path / "flow.yaml").write_text(text)
    tools = {"mine/child#fetch.page": [{"run": 1, "ok": {"data": 1}}, {"run": 2, "ok": {"data": 2}}]}
    seen = play(Scene(tmp_path / "flow.yaml", tools=tools))
    assert [r["data"] for r in seen.result] == [1, 2]
    test = record(recorded(seen, text), "calls", "flow.yaml", WAYS[0], "flow.values")
    assert list(test.document["tools"]) == ["mine/child#fetch.page"]
    assert run_case(read(written(test, tmp_path))[0]).findings == ()


@pytest.mark.parametrize("loop", [False, True])
def test_an_execution_without_its_credential_replays(loop: bool, tmp_path: Path) -> None:
    flow = KEYS.replace("    tool:", "    loop: { in: [1, 2], iterator: n }\n    tool:") if loop else KEYS
    (tmp_path / "flow.yaml").write_text(HEAD + flow)
    seen = play(Scene(tmp_path / "flow.yaml"))
    assert seen.error is not None and seen.error["message"].startswith('keychain entry "shop": ')
    test = record(recorded(seen, HEAD + flow), "a", "flow.yaml", Way(), "flow.values")
    (case,) = read(written(test, tmp_path))
    assert (run_case(case).findings, "secrets" in test.text) == ((), False)


def test_the_trigger_of_an_execution_is_recorded(tmp_path: Path) -> None:
    flow = (
        'executor: { spec: { triggers: [{ name: new, event: { source: [shop] }, payload: { n: "{{ trigger.event.n }}" } }] } }\n'
        'workflow: [{ step: start, tool: { kind: noop, result: "{{ trigger.name }} {{ workload.n }}" } }]\n'
    )
    (tmp_path / "flow.yaml").write_text(HEAD + flow)
    seen = play(Scene(tmp_path / "flow.yaml", trigger={"name": "new", "event": {"n": 5, "text": "{{ no.template }}"}}))
    assert seen.result == "new 5"
    (case,) = read(written(record(recorded(seen, HEAD + flow), "a", "flow.yaml", Way(), "flow.values"), tmp_path))
    assert (run_case(case).findings, (case.scene.trigger or {})["event"]["text"]) == ((), "{{ no.template }}")


def test_a_query_over_rows_that_a_template_gives_is_not_scripted(tmp_path: Path) -> None:
    """So a rehearsal notices a mistake in its SQL."""
    flow = FETCH + (
        "    next: { arcs: [{ step: sum }] }\n  - step: sum\n"
        "    tool: { kind: duckdb, sources: { rows: '{{ fetch.data }}' }, command: SELECT sum(n) AS n FROM rows }\n"
    )
    (tmp_path / "flow.yaml").write_text(HEAD + flow)
    seen = play(Scene(tmp_path / "flow.yaml", tools={"fetch": {"ok": {"data": [{"n": 4}, {"n": 5}]}}}))
    test = record(recorded(seen, HEAD + flow), "a", "flow.yaml", WAYS[0], "flow.values")
    (case,) = read(written(test, tmp_path))
    assert (list(case.scene.tools), run_case(case).findings) == (["fetch.page"], ())
    assert run_case(case, (HEAD + flow).replace("sum(n)", "max(n)")).findings
