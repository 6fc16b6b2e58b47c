"""The dialect of the field: spellings of sections and of single kinds, and names that programs read."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.dsl.steps.scripts import files_of, holding
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.tools.postgres.connections import where_of
from noetl_core.tools.postgres.errors import unreachable
from noetl_migrate import migrate
from tests.unit.dsl.broken import HEAD, flow
from tests.unit.dsl.dialect import PLAIN, Service, found, one, ran, same

WORKFLOW = f"workflow:\n  - step: a\n    {PLAIN}\n"


class Responses(Service):
    """Answers with all fields of a response."""

    def run(self, call: ToolCall) -> Outcome:
        outcome = super().run(call)
        return Outcome.ok({**outcome.result, "url": "http://x", "elapsed_ms": 1}, http={"status": 200, "headers": {}})


def program(first: str, code: str, args: str) -> str:
    """A playbook whose second step is a program."""
    then = f"  - step: b\n    tool: {{kind: python, args: {args}, code: {code!r}}}\n"
    return flow(f"step: a\n{first}\nnext: {{arcs: [{{step: b}}]}}") + then


@pytest.mark.parametrize(
    ("accepted", "canonical"),
    [
        ("{kind: playbook, task: team/x}", "{kind: playbook, path: team/x}"),
        ("{kind: duckdb, gcs_credential: g, command: SELECT 1}", "{kind: duckdb, auth: g, command: SELECT 1}"),
        ("{kind: python, script: {source: inline, code: pass}}", "{kind: python, code: pass}"),
        ("{kind: python, script: {source: {type: inline}, content: pass}}", "{kind: python, code: pass}"),
        ('{kind: python, script: "a = 1\\nb = 2\\n"}', '{kind: python, code: "a = 1\\nb = 2\\n"}'),
        ("{kind: artifact, action: get, result_ref: '{{ workload.r._ref }}'}", "{kind: noop, result: {data: '{{ workload.r }}'}}"),
        ("{kind: shell, cmds: [date, ls]}", '{kind: shell, script: "date\\nls\\n"}'),
        (
            "{kind: shell, cmds: ['echo \"{{ workload.n }}\"']}",
            "{kind: shell, env: {VALUE_1: '{{ workload.n }}'}, script: \"echo \\\"${VALUE_1}\\\"\\n\"}",
        ),
    ],
)  # fmt: skip
def test_inputs_of_one_kind(accepted: str, canonical: str) -> None:
    same(one(accepted), one(canonical), editors=False)


@pytest.mark.parametrize("line", ["echo '{{ workload.n }}'", "{% if workload.n %}date{% endif %}"])
def test_a_template_where_no_variable_can_stand_is_refused(line: str) -> None:
    (error,) = [e for e in found(one(f'{{kind: shell, cmds: ["{line}"]}}')) if "cmds" in e]
    assert error.startswith("E114 cmds of task")


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


def test_the_script_that_a_default_names_is_held() -> None:
    text = HEAD + "workload: {s: x.py}\nworkflow:\n  - step: a\n    tool: {kind: python, script: {uri: 'lib/{{ workload.s }}'}}\n"
    assert list(files_of(text)) == ["lib/x.py"]
    assert ran(holding(text, {"lib/x.py": "result = 7\n"}), payload={"s": "y.py"})["result"] == 7
    assert found(text.replace("workload.s", "workload.t"))[0].startswith("E112 uri of script")


def test_the_credential_of_a_program_is_an_argument() -> None:
    playbook = parse_playbook(one("{kind: python, auth: g, code: 'result = auth'}"))
    assert [(entry.name, entry.kind) for entry in playbook.keychain] == [("g", "credential_ref")]
    assert playbook.steps[0].tasks[0].inputs["args"] == {"auth": "{{ keychain.g }}"}


@pytest.mark.parametrize("key", ["ref", "secret_name", "key"])
def test_a_keychain_option_of_another_kind_is_no_option(key: str) -> None:
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


# --- what programs read -------------------------------------------------------------------------------------------------

SQL = "tool: {kind: duckdb, commands: [SELECT 1 AS n, SELECT 2 AS n]}"
LOOP = "loop: {in: [1, 2], iterator: i}\ntool: {kind: noop, result: '{{ iter.i }}'}"
HTTP = "tool: {kind: http, url: http://x}"
SET = "tool: {kind: noop, result: {n: 4}, set: {ctx.o: '{{ output }}'}}"


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
        (SET, "result = [o['data'], o['result'], o['status']]", "{o: '{{ ctx.o }}'}", [{"n": 4}, {"n": 4}, "ok"]),
    ],
)  # fmt: skip
def test_a_program_reads_results_by_their_other_names(first: str, code: str, args: str, result: Any) -> None:
    out = ran(program(first, code, args), Responses((200, {"n": 3})) if first == HTTP else None)
    assert (out["status"], out["error"], out["result"]) == ("completed", None, result)


def test_output_as_a_whole_has_no_data_after_an_error() -> None:
    rules = "spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {o: '{{ output }}'}}}}]}}"
    out = ran(one(f"{{kind: http, url: http://x, {rules}}}"), Service((500, None)))
    assert (out["ctx"]["o"]["status"], out["ctx"]["o"]["data"]) == ("error", None)
