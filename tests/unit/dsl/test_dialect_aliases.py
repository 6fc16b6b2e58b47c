"""The dialect of the field: spellings of sections and of single kinds, and names that programs read."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import psycopg
import pytest

from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.dsl.steps.scripts import files_of, holding
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.cursors.postgres import PostgresCursor
from noetl_core.tools.postgres.connections import where_of
from noetl_core.tools.postgres.errors import unreachable
from noetl_core.tools.script import url_of
from noetl_migrate import migrate
from tests.unit.dsl.broken_playbooks import HEAD, flow
from tests.unit.dsl.dialect import PLAIN, Service, found, one, ran, same

WORKFLOW = f"workflow:\n  - step: a\n    {PLAIN}\n"


class Responses(Service):
    """Answers with all fields of a response."""

    def run(self, call: ToolCall) -> Outcome:
        outcome = super().run(call)
        if outcome.status == "error":
            return outcome
        return Outcome.ok({**outcome.result, "url": "http://x", "elapsed_ms": 1}, http={"status": 200, "headers": {}})


def program(first: str, code: str, args: str) -> str:
    """A playbook whose second step is a program. The workload is `{w: 5}`."""
    then = f"step: b\ntool: {{kind: python, args: {args}, code: {json.dumps(code)}}}"
    text = flow(f"step: a\n{first}\nnext: {{arcs: [{{step: b}}]}}", then)
    return text.replace("workflow:", "workload: {w: 5}\nworkflow:", 1)


@pytest.mark.parametrize(
    ("accepted", "canonical"),
    [
        ("{kind: playbook, path: team/x, task: label}", "{kind: playbook, path: team/x}"),
        ("{kind: playbook, path: team/x, result_step: last}", "{kind: playbook, path: team/x, return_step: last}"),
        ("{kind: python, auth: {}, code: pass}", "{kind: python, code: pass}"),
        ("{kind: duckdb, as_objects: true, command: SELECT 1}", "{kind: duckdb, command: SELECT 1}"),
        ("{kind: result_fetch, ref: '{{ workload.r.reference.ref }}', prefer: http}", "{kind: noop, result: {data: '{{ workload.r }}'}}"),
        ("{kind: artifact, action: get, input: {result_ref: '{{ workload.r._ref }}'}}", "{kind: noop, result: {data: '{{ workload.r }}'}}"),
        (
            "{kind: mcp, server: s, endpoint: http://x, method: tools/call, tool: t, arguments: '{{ workload.a | tojson }}'}",
            "{kind: mcp, url: http://x, action: call, tool: t, arguments: '{{ workload.a }}'}",
        ),
        (
            "{kind: transfer, source: {type: postgres, auth: p, table: t}, target: {type: postgres, auth: q, table: u}, chunk_size: 5}",
            "{kind: transfer, source: {kind: postgres, auth: p, table: t}, target: {kind: postgres, auth: q, table: u}, spec: {chunk_rows: 5}}",
        ),
        (
            "{kind: postgres, auth: p, command: \"SELECT $2::int, 100 % $1, '$1 %' -- {{ 7 % 4 }}\", params: [3, '{{ workload.n }}']}",
            "{kind: postgres, auth: p, command: \"SELECT %(p2)s::int, 100 %% %(p1)s, '$1 %%' -- {{ 7 % 4 }}\", params: {p1: 3, p2: '{{ workload.n }}'}}",
        ),
        ("{kind: duckdb, gcs_credential: g, command: SELECT 1}", "{kind: duckdb, auth: g, command: SELECT 1}"),
        ("{kind: python, script: {source: inline, code: pass}}", "{kind: python, code: pass}"),
        ("{kind: python, script: {source: {type: inline}, content: pass}}", "{kind: python, code: pass}"),
        ('{kind: python, script: "a = 1\\nb = 2\\n"}', '{kind: python, code: "a = 1\\nb = 2\\n"}'),
        ("{kind: artifact, action: get, result_ref: '{{ workload.r._ref }}'}", "{kind: noop, result: {data: '{{ workload.r }}'}}"),
        ("{kind: shell, command: echo 'a b'}", "{kind: shell, script: \"echo 'a b'\\n\"}"),
        ("{kind: shell, cmds: [set -o pipefail]}", '{kind: shell, shell: bash, script: "set -o pipefail\\n"}'),
        ("{kind: shell, cmds: [date, ls]}", '{kind: shell, script: "date\\nls\\n"}'),
        (
            "{kind: shell, cmds: ['echo \"{{ workload.n }}\"']}",
            "{kind: shell, env: {VALUE_1: '{{ workload.n }}'}, script: \"echo \\\"${VALUE_1}\\\"\\n\"}",
        ),
    ],
)  # fmt: skip
def test_inputs_of_one_kind(accepted: str, canonical: str) -> None:
    same(one(accepted), one(canonical), editors=False)


@pytest.mark.parametrize(
    "line", ["cat <<'X'\\n{{ workload.n }}\\nX", "{% if workload.n %}date{% endif %}", "echo `date` {{ workload.n }}"]
)
def test_a_template_where_no_variable_can_stand_is_refused(line: str) -> None:
    (error,) = found(one(f'{{kind: shell, cmds: ["{line}"]}}'))
    assert error.startswith("E114 cmds of task")


VALUE = 'a\'b "c" $(echo x) `d` \\\\'


@pytest.mark.parametrize(
    ("lines", "out"),
    [
        ("V='{{ workload.v }}'\nprintf '%s' \"$V\"", VALUE),
        ("printf '%s|%s' '<{{ workload.v }}>' \"{{ workload.v }}\"", f"<{VALUE}>|{VALUE}"),
        ("printf '%s' \"$(printf '%s' '{{ workload.v }}')\"", VALUE),
        ("# it's {{ workload.v }}\nprintf '%s' '{{ workload.v }}'", VALUE),
        ("cat <<END\nit's {{ workload.v }}\nEND", f"it's {VALUE}\n"),
        ("cat <<'END'\nit's {not}\nEND\nprintf '%s' \"it's {{ workload.v }}\"", f"it's {{not}}\nit's {VALUE}"),
        ("printf '%s' \"$((1 + 2))'{{ workload.v }}'\"", f"3'{VALUE}'"),
    ],
)  # fmt: skip
def test_a_value_in_lines_of_shell_code_is_text_wherever_it_stands(lines: str, out: str) -> None:
    text = HEAD + f"workload: {{v: {json.dumps(VALUE)}}}\n"
    text += f"workflow:\n  - step: a\n    tool: {{kind: shell, cmds: [{json.dumps(lines)}]}}\n"
    inputs = parse_playbook(text).steps[0].tasks[0].inputs
    env = {**os.environ, **dict.fromkeys(inputs["env"], VALUE)}
    assert subprocess.run(["bash", "-c", inputs["script"]], env=env, capture_output=True, text=True, check=True).stdout == out
    migrated = migrate(text)
    assert not migrated.failed, migrated.diagnostics
    assert parse_playbook(migrated.text) == parse_playbook(text)


CURSOR = "cursor: {kind: postgres, auth: p, table: t, done: delete}, iterator: x"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (one("{kind: shell, cmds: [date], script: ls}"), 'task "a_task" has cmds and script', "keep script"),
        (one("{kind: mcp, url: http://x, method: tools/cal, tool: t}"), "'tools/cal' is not a method that task \"a_task\" can call", 'did you mean "tools/call"?'),
        (flow(f"step: a\nloop: {{{CURSOR}, spec: {{frame: {{max_row: 3}}}}}}\ntool: {{kind: noop}}"), 'unknown key "max_row" in the frame of a cursor', 'did you mean "max_rows"?'),
        (one("{kind: noop, assert: {expect: [x]}}"), 'unknown key "expect" in assert of task "a_task"', 'did you mean "expects"?'),
        (one("{kind: playbook, task: x/y}"), 'task "a_task" (playbook) has no path', "add path"),
        (one("{kind: playbook, path: ./x.yaml}"), 'path of task "a_task": "./x.yaml" is not the path of a playbook', "a playbook is called by the path in its metadata, or by its file in the same folder"),
        (one("{kind: mcp, server: s, tool: t}"), 'unknown key "server" in task "a_task"', "url: the address of the server"),
        (one("{kind: noop, iterator: {items: [1], item: x}}"), 'unknown key "iterator" in task "a_task"', "the step has the loop: loop: { in: ..., iterator: ... }"),
        (flow(f"step: a\n{PLAIN}\nnext: {{arcs: [{{step: a, cond: x}}]}}"), 'unknown key "cond" in arc 0 of step "a"', 'did you mean "when"?'),
        (one("{kind: container, image: x, task_definition: t}"), 'unknown key "image" in task "a_task"', "the task definition has the image: task_definition names it"),
        (one("{kind: script}"), '"script" is not a tool kind', "kind: python, with script: { uri: ... }"),
        (one("{kind: noop, result: '{{ now() }}'}"), "template: there is no function 'now'", "templates read no clock: pass the time as an input, or take it in a task of kind python"),
    ],
)  # fmt: skip
def test_messages_name_the_nearest_valid_thing(text: str, message: str, hint: str) -> None:
    assert (message, hint) in [(d.message, d.hint) for d in check(text)[1] if d.severity == "error"]


def test_a_part_of_context_that_nothing_gives_is_reported() -> None:
    text = program(PLAIN, "result = [context.get('laod'), context['w'], context['step'], context.get('a')]", "{}")
    (warning,) = [d for d in check(text)[1] if d.code == "W526"]
    assert warning.message == "code reads laod of context, which nothing gives it"
    assert not [d for d in check(program(PLAIN, "result = context['x']", "{context: {x: 1}}"))[1] if d.code == "W526"]


def test_the_method_of_a_protocol_may_come_from_a_payload() -> None:
    inputs = parse_playbook(one("{kind: mcp, url: http://x, method: '{{ workload.m }}', tool: t}")).steps[0].tasks[0].inputs
    assert inputs["action"] == "{{ 'list' if (workload.m) == 'tools/list' else 'call' }}"


@pytest.mark.parametrize(
    ("accepted", "canonical"),
    [
        ("spec: {search: {n: '1'}}", "executor: {spec: {search: {n: '1'}}}"),
        ("spec: {pool: p}\nexecutor: {spec: {search: {n: '1'}}}", "executor: {spec: {search: {n: '1'}, pool: p}}"),
        ("executor: {spec: {defaults: {timeout_s: 30}}}", "executor: {spec: {policy: {defaults: {timeouts: {task_s: 30}}}}}"),
        ("executor: {spec: {policy: {defaults: {timeout_s: 30}}}}", "executor: {spec: {policy: {defaults: {timeouts: {task_s: 30}}}}}"),
        ("executor: {defaults: {timeout_s: 30}}", "executor: {spec: {policy: {defaults: {timeouts: {task_s: 30}}}}}"),
        ('workload: {d: 1, x: "{{ x | default(d) }}"}', 'workload: {d: 1, x: "{{ d }}"}'),
        ("workload: {n: {y: \"{{ workload.n.y | default('q', true) }}\"}}", "workload: {n: {y: \"{{ 'q' }}\"}}"),
        ('workload: {x: "{{ x }}", n: {y: "{{ workload.n.y }}"}}', "workload: {x: null, n: {y: null}}"),
        ("keychain: [{name: k, kind: secrets, map: {a: b}}]", "keychain: [{name: k, kind: secret_manager, map: {a: b}}]"),
        ("keychain: [{name: k, type: bearer, token: x}]", "keychain: [{name: k, kind: bearer, token: x}]"),
        ("keychain: [{name: k, kind: credential, ref: x}]", "keychain: [{name: k, kind: credential, credential: x}]"),
        ("keychain: [{name: k, kind: gcs, gcs_credential: x}]", "keychain: [{name: k, kind: gcs, credential: x}]"),
        (
            "workbook: [{task: w, tool: {kind: noop, result: 1}, assert: ['{{ result == 1 }}']}]",
            "workbook: [{name: w, tool: {kind: noop, result: 1, assert: ['{{ result == 1 }}']}}]",
        ),
    ],
)  # fmt: skip
def test_sections_of_the_root(accepted: str, canonical: str) -> None:
    text = HEAD + accepted + "\n" + WORKFLOW
    assert parse_playbook(text) == parse_playbook(HEAD + canonical + "\n" + WORKFLOW)
    migrated = migrate(text)
    assert not migrated.failed, migrated.diagnostics
    assert parse_playbook(migrated.text) == parse_playbook(text)


def test_a_default_that_names_itself_is_replaced_by_a_payload() -> None:
    text = (
        HEAD
        + 'workload: {d: 1, x: "{{ x | default(d) }}"}\n'
        + "workflow:\n  - step: a\n    tool: {kind: noop, result: '{{ workload.x }}'}\n"
    )
    assert [ran(text)["result"], ran(text, payload={"x": 5})["result"]] == [1, 5]


@pytest.mark.parametrize(
    "text",
    [
        flow("step: a\nloop: {in: [1], iterator: x, spec: {frame: 2}}\ntool: {kind: noop}"),
        flow(
            "step: a\nloop: {cursor: {kind: postgres, auth: p, table: t, done: delete}, iterator: x, spec: {frame: {max_seconds: 3}}}\ntool: {kind: noop}"
        ),
        flow("step: a\nspec: {policy: {results: {reference_first: true}}}\ntool: {kind: noop}"),
        one("{kind: noop, spec: {policy: {results: {reference_first: true}, rules: [{else: {then: {do: continue}}}]}}}"),
        one("{kind: http, url: http://x, output_select: {strategy: size_threshold}}"),
    ],
)
def test_options_without_effect_are_noted(text: str) -> None:
    assert found(text) == []
    (note,) = [d for d in check(text)[1] if d.severity == "note"]
    assert note.code == "W403"


@pytest.mark.parametrize(
    "place", ["output_select: %s\ntool: {kind: http, url: http://x}", "tool: {kind: http, url: http://x, output_select: %s}"]
)
def test_parts_that_are_selected_beside_the_kind_have_names(place: str) -> None:
    text = flow("step: a\n" + place % "[{path: data.n, as: n}]" + "\nnext: {arcs: [{step: b}]}")
    assert ran(text + "  - step: b\n    tool: {kind: noop, result: '{{ a.n }}'}\n", Service((200, {"n": 3})))["result"] == 3


def test_a_workbook_task_expects_and_returns() -> None:
    def text(args: str) -> str:
        book = "workbook:\n  - name: w\n    kind: python\n    code: 'def main(t=None): return {1: t}'\n    args: {t: null}\n"
        book = book.replace("{1: t}", "dict(n=t)") + "    assert: {expects: [t, workload.n], returns: [n]}\n"
        return HEAD + book + f"workflow:\n  - step: a\n    tool: {{kind: workbook, task: w, args: {args}}}\n"

    out = ran(text("{t: '{{ workload.n }}'}"))
    assert (out["error"]["kind"], out["error"]["message"], out["error"]["task"]) == ("schema", "there is no t", "a_expects")
    assert ran(text("{t: '{{ workload.n }}'}"), payload={"n": 2})["result"] == {"n": 2}


def test_the_kind_of_a_workbook_task_is_named_in_the_message() -> None:
    (error,) = [d for d in check(HEAD + "workbook: [{name: w, type: python, code: pass}]\n" + WORKFLOW)[1] if d.code == "E111"]
    assert (error.message, error.hint) == ('workbook task "w" has no kind', "kind: python")


@pytest.mark.parametrize("name", ["workload.s", "s"])
def test_the_script_that_a_default_names_is_held(name: str) -> None:
    task = f"{{kind: python, script: {{uri: 'lib/{{{{ {name} }}}}'}}}}"
    text = HEAD + f"workload: {{s: x.py}}\nworkflow:\n  - step: a\n    tool: {task}\n"
    assert list(files_of(text)) == ["lib/x.py"]
    assert ran(holding(text, {"lib/x.py": "result = 7\n"}), payload={"s": "y.py"})["result"] == 7
    assert found(text.replace(f"{{{{ {name} }}}}", "{{ workload.t }}"))[0].startswith("E112 uri of script")


def test_the_credential_of_a_program_is_an_argument() -> None:
    playbook = parse_playbook(one("{kind: python, auth: g, code: 'result = auth'}"))
    assert [(entry.name, entry.kind) for entry in playbook.keychain] == [("g", "credential_ref")]
    assert playbook.steps[0].tasks[0].inputs["args"] == {"auth": "{{ keychain.g }}"}


@pytest.mark.parametrize("key", ["ref", "secret_name", "key"])
def test_a_keychain_option_of_another_kind_is_refused(key: str) -> None:
    text = HEAD + f"keychain: [{{name: k, kind: bearer, token: x, {key}x: y}}]\n" + WORKFLOW
    assert [e for e in found(text) if e.startswith("E110")]


def test_fields_of_a_credential_by_their_longer_names() -> None:
    fields = {"db_host": "h", "db_port": 5433, "db_user": "u", "db_password": "p", "db_name": "n"}
    call = ToolCall("postgres", {"auth": {"credential": "pg"}}, {}, "1", "s", "t", "r", secrets={"pg": fields}.__getitem__)
    assert dict(where_of(call)) == {"host": "h", "port": "5433", "user": "u", "password": "p", "dbname": "n"}


def test_a_connection_without_an_answer_names_the_fields() -> None:
    error = unreachable(psycopg.OperationalError("connection is bad: no error details available")).error
    assert error is not None
    assert "host, port, dbname, user, password" in error.message


def test_a_claim_statement_with_frame_options_equals_its_canonical_form() -> None:
    def text(cursor: str, frame: str) -> str:
        loop = f"cursor: {{kind: postgres, auth: p, {cursor}}}, iterator: x, spec: {{mode: cursor, frame: {frame}}}"
        return flow(f"step: a\nloop: {{{loop}}}\ntool: {{kind: noop}}")

    claim = "UPDATE t SET a = a % 2 RETURNING b LIMIT {{ __frame_max_rows | default(1) | int }}"
    accepted = text(f'claim: "{claim}"', "{max_rows: 50, max_bytes: 9, lease_seconds: 120, row_concurrency: 4}")
    canonical = text('claim: "UPDATE t SET a = a %% 2 RETURNING b LIMIT %(limit)s", lease_s: 120', "50")
    same(accepted, canonical, editors=False)
    assert any("a task cannot receive a whole frame" in e for e in found(text(f'claim: "{claim}"', "{process: frame}")))


@pytest.mark.parametrize(
    "more", [{"done": "DELETE FROM t"}, {"key": "c"}, {"claim": "UPDATE t SET a = %(claim_id)s RETURNING b"}]
)
def test_rows_that_may_be_claimed_again_or_settled_need_a_key(more: dict[str, str]) -> None:
    fields = {"auth": "p", "claim": "UPDATE t SET a = 1 RETURNING b", **more}
    with pytest.raises(BadInput, match=f"have no {more.get('key', 'id')}"):
        PostgresCursor(fields).claimed({"rows": [{"b": 1}, {"b": 1}]})


@pytest.mark.parametrize("endpoint", ["http://x/lib/say.py", "http://x/lib", "http://x/lib/"])
def test_an_endpoint_that_ends_with_the_script_is_its_address(endpoint: str) -> None:
    text = one(f"{{kind: python, script: {{uri: say.py, source: {{type: http, endpoint: {endpoint}}}}}}}")
    assert url_of(parse_playbook(text).steps[0].tasks[0].inputs["script"]) == "http://x/lib/say.py"


def test_no_arc_matches_quietly() -> None:
    arcs = "[{step: b, when: '{{ event.result > 5 }}'}]"
    step = f"step: a\ntool: {{kind: noop, result: 1}}\nnext: {{spec: {{on_no_match: quiet}}, arcs: {arcs}}}"
    assert ran(flow(step, "step: b\ntool: {kind: noop}"))["order"] == ["a"]


@pytest.mark.parametrize(("read", "kept"), [("l.n", {"n": 3}), ("l.data.n", {"data": {"n": 3}})])
def test_the_value_of_a_reference_is_read_by_its_own_fields(read: str, kept: Any) -> None:
    first = "step: a\ntool: {kind: noop, result: {n: 3}}\nnext: {arcs: [{step: l}]}"
    load = "step: l\ntool: {kind: artifact, action: get, input: {result_ref: '{{ a._ref }}'}}\nnext: {arcs: [{step: b}]}"
    last = f"step: b\ntool: {{kind: noop, result: ['{{{{ {read} }}}}', '{{{{ l }}}}']}}"
    assert ran(flow(first, load, last))["result"] == [3, kept]


# --- reads of templates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "read", "value"),
    [
        ({"data": [1], "paging": {"more": True}}, "output.data.data", [1]),
        ({"data": [1], "paging": {"more": True}}, "output.data.data.paging.more", True),
        ({"data": [1], "paging": {"more": True}}, "output.data.data.data[0]", 1),
        ({"score": 5}, "output.data.data", {"score": 5}),
        ({"score": 5}, "output.data.data.score", 5),
        ({"score": 5}, "output.data.data | default({})", {"score": 5}),
        ([4, 5], "output.data.data[1]", 5),
        ({"score": 5}, "output.data.status_code", 200),
        ({"status_code": 7}, "output.data.status_code", 7),
        ({"data": {"x": 1}}, "output.data.data.items() | list", [["x", 1]]),
    ],
)
def test_data_of_a_response_is_the_body_or_the_response(body: Any, read: str, value: Any) -> None:
    rules = f"[{{else: {{then: {{do: continue, set: {{ctx.o: '{{{{ {read} }}}}'}}}}}}}}]"
    task = f"{{kind: http, url: http://x, spec: {{policy: {{rules: {rules}}}}}}}"
    text = flow(f"step: a\ntool: {task}\nset: {{ctx.s: '{{{{ {read} }}}}'}}")
    assert ran(text, Service((200, body)))["ctx"] == {"o": value, "s": value}


@pytest.mark.parametrize(
    ("kind", "read", "warned"),
    [
        ("http", "output.data.data", True),
        ("http", "output.data.data | default({})", True),
        ("http", "output.data.data.id", False),
        ("http", "output.data.data[0]", False),
        ("http", "outcome.result.data", False),
        ("python", "output.data.data", False),
    ],
)
def test_data_of_a_response_that_may_be_either_gives_a_warning(kind: str, read: str, *, warned: bool) -> None:
    task = f"{{kind: {kind}, {'url: http://x' if kind == 'http' else 'code: pass'}, set: {{ctx.a: '{{{{ {read} }}}}'}}}}"
    text = flow(
        f"step: a\ntool: {task}\nnext: {{arcs: [{{step: b, args: {{x: '{{{{ {read} }}}}'}}}}]}}", "step: b\ntool: {kind: noop}"
    )
    names = ["outcome.result.data", "event.result.data"] if warned else []
    assert [d.hint for d in check(text)[1] if d.code == "W533"] == [
        f"write {n} for the body, {n}.data for its key data" for n in names
    ]


def test_the_status_of_an_answer_that_failed_is_known_to_the_policy() -> None:
    rule = 'when: "{{ output.data.status_code in [429, 503] }}", then: {do: retry, attempts: 3, delay: 0}'
    rules = f"[{{{rule}}}, {{else: {{then: {{do: continue}}}}}}]"
    service = Service((503, None), (200, {"n": 1}))
    out = ran(one(f"{{kind: http, url: http://x, spec: {{policy: {{rules: {rules}}}}}}}"), service)
    assert (out["status"], len(service.calls)) == ("completed", 2)


def test_the_arguments_are_read_as_input_like_their_key() -> None:
    step = "step: b\ninput: {n: 3}\ntool: {kind: noop, result: '{{ [input.n, input[\"m\"]] }}'}"
    text = flow(f"step: a\n{PLAIN}\nnext: {{arcs: [{{step: b, args: {{m: 4}}}}]}}", step)
    assert ran(text)["result"] == [3, 4]
    own = "workload: {input: {n: 7}}\nworkflow:"
    assert (
        ran(flow("step: a\ninput: {n: 1}\ntool: {kind: noop, result: '{{ input.n }}'}").replace("workflow:", own))["result"] == 7
    )


@pytest.mark.parametrize(("answers", "step"), [([(200, {"n": 3})], "b"), ([(500, None)], "c")])
def test_the_response_of_a_step_in_its_arcs(answers: list[tuple[int, Any]], step: str) -> None:
    well, badly = "response.status_code == 200 and response.body.n == 3", "response.status_code != 200"
    arcs = f"[{{step: b, when: '{{{{ {well} }}}}'}}, {{step: c, when: '{{{{ {badly} }}}}'}}]"
    text = flow(f"step: a\n{HTTP}\nnext: {{arcs: {arcs}}}", "step: b\ntool: {kind: noop}", "step: c\ntool: {kind: noop}")
    assert ran(text, Responses(*answers))["order"] == ["a", step]


CODE = "kind: python, code: 'result = dict(n=2)'"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("step", "read", "value"),
    [
        ("tool: [{name: x, kind: noop, result: 1}, {name: y, kind: noop, result: {n: 2}}]", "a.results.y.n", 2),
        ("tool: {kind: noop, result: {n: 2}}", "a.results.a_task.n", 2),
        (f"tool: {{{CODE}}}", "a.data.n", 2),
        (f"tool: {{{CODE}}}", "a.data", {"n": 2}),
        ("tool: {kind: python, code: 'result = dict(data=dict(n=3), n=2)'}", "a.data.n", 3),
        ("loop: {in: [1, 2], iterator: i}\ntool: {kind: noop, result: '{{ iter.i }}'}", "a.data[1]", 2),
        ("loop: {in: [4, 5], iterator: i}\ntool: {kind: noop, result: 'n{{ loop_index }}'}", "a", ["n0", "n1"]),
        (f"tool: {{{CODE}, spec: {{policy: {{rules: [{{else: {{then: {{do: continue, set: {{ctx.k: '{{{{ a.n }}}}'}}}}}}}}]}}}}}}", "ctx.k", 2),
        ("tool: {kind: noop, result: {n: 2}, set: {ctx.k: '{{ a.data.n }}'}}", "ctx.k", 2),
    ],
)  # fmt: skip
def test_results_by_other_names(step: str, read: str, value: Any) -> None:
    last = f"step: b\ntool: {{kind: noop, result: '{{{{ {read} }}}}'}}"
    out = ran(flow(f"step: a\n{step}\nnext: {{arcs: [{{step: b}}]}}", last))
    assert (out["error"], out["result"]) == (None, value)


def test_the_result_of_an_earlier_run_keeps_its_name_beside_the_outcome() -> None:
    task = "{kind: noop, result: {n: 2}, set: {ctx.k: '{{ a.n | default(0) + outcome.result.n }}'}}"
    assert ran(flow(f"step: a\ntool: {task}"))["ctx"] == {"k": 2}


# --- reads of programs --------------------------------------------------------------------------------------------------

SQL = "tool: {kind: duckdb, commands: [SELECT 1 AS n, SELECT 2 AS n]}"
LOOP = "loop: {in: [1, 2], iterator: i}\ntool: {kind: noop, result: '{{ iter.i }}'}"
HTTP = "tool: {kind: http, url: http://x}"
SET = "tool: {kind: noop, result: {n: 4}, set: {ctx.o: '{{ output }}'}}"


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("first", "code", "args", "result"),
    [
        (SQL, "result = [x.get('command_0')['rows'], x['command_1']['rows'], 'command_2' in x]", "{x: '{{ a }}'}", [[{"n": 1}], [{"n": 2}], False]),
        (SQL, "result = x['data']['rows']", "{x: '{{ a }}'}", [{"n": 2}]),
        (SQL, "result = [sorted(x), x.get('data') is x]", "{x: '{{ a }}'}", [["columns", "row_count", "rows"], True]),
        (HTTP, "result = [x.get('status_code'), x['body'], len(x), x.get('nothing', 0)]", "{x: '{{ a }}'}", [200, {"n": 3}, 5, 0]),
        (LOOP, "result = [x['results'], x.get('stats')['succeeded']]", "{x: '{{ a }}'}", [[1, 2], 2]),
        (LOOP, "result = x", "{x: '{{ a }}'}", [1, 2]),
        ("tool: {kind: noop, result: {n: 4}}", "result = [context['a']['n'], context['step']]", "{}", [4, "b"]),
        ("tool: {kind: noop, result: {n: 4}}", "def main(context): return context.get('a')", "{}", {"n": 4}),
        (SET, "result = [o['data'], o['result'], o['status'], o['n']]", "{o: '{{ ctx.o }}'}", [{"n": 4}, {"n": 4}, "ok", 4]),
        (LOOP, "s = x if isinstance(x, dict) else {}\nresult = s.get('stats', {}).get('total')", "{x: '{{ a }}'}", 2),
        (LOOP, "s = x if isinstance(x, (dict, list)) else {}\nresult = [len(s), 'results' in s, {}.get('stats')]", "{x: '{{ a }}'}", [2, False, None]),
        (PLAIN + "\nset: {ctx.c: 6}", "result = [context.get('w'), context['c'], context.get('a'), 'execution_id' in context]", "{}", [5, 6, 1, True]),
        (PLAIN, "n = {{ w }} * 2\nresult = {'n': n, 's': [{{ w | tojson }}, {'w': {'x': {}}}], 'e': '{{ w }}'}", "{}",
         {"n": 10, "s": [5, {"w": {"x": {}}}], "e": "{{ w }}"}),
        (PLAIN, "w = 1\nresult = [w, {{ w + 1 }}, f'{{ {w} }}', {{ workload.w }}]", "{k: 0}", [1, 6, "{ 1 }", 5]),
    ],
)  # fmt: skip
def test_a_program_reads_results_by_their_other_names(first: str, code: str, args: str, result: Any) -> None:
    out = ran(program(first, code, args), Responses((200, {"n": 3})) if first == HTTP else None)
    assert (out["status"], out["error"], out["result"]) == ("completed", None, result)


def test_set_in_a_task_with_a_passed_error_receives_the_whole_output() -> None:
    rules = "[{when: \"{{ output.status == 'error' }}\", then: {do: continue}}, {else: {then: {do: continue}}}]"
    failing = f"{{name: x, kind: python, code: 'raise ValueError(1)', spec: {{policy: {{rules: {rules}}}}}, set: {{o: '{{{{ output }}}}'}}}}"
    text = flow(
        f"step: a\ntool: [{failing}, {{name: y, kind: noop, result: ['{{{{ o.status }}}}', '{{{{ o.error.code }}}}', '{{{{ o.data }}}}']}}]"
    )
    assert ran(text)["result"] == ["error", "ValueError", None]
    migrated = migrate(text)
    assert not migrated.failed, migrated.diagnostics
    assert ran(migrated.text)["result"] == ["error", "ValueError", None]


def test_output_as_a_whole_has_no_data_after_an_error() -> None:
    rules = "spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {o: '{{ output }}'}}}}]}}"
    out = ran(one(f"{{kind: http, url: http://x, {rules}}}"), Service((500, None)))
    assert (out["ctx"]["o"]["status"], out["ctx"]["o"]["data"]) == ("error", None)
