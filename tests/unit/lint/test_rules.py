"""Findings of each rule, and cases without one. `§` marks the place of the finding."""

from __future__ import annotations

import pytest

from noetl_core.dsl.parse import check
from tests.unit.dsl.broken_playbooks import HEAD, flow


def found(text: str) -> list[tuple[str, int, int]]:
    return [(d.code, d.line, d.col) for d in check(text)[1] if d.code[:2] == "W5"]


def marked(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without its marks, and where they stood."""
    places = []
    while "§" in text:
        at = text.index("§")
        places.append((text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)))
        text = text[:at] + text[at + 1 :]
    return text, places


def arcs(name: str, *entries: str, mode: str = "exclusive", tool: str = "tool: {kind: noop}\n") -> str:
    listed = "".join(f"\n    - {e}" for e in entries)
    return f"step: {name}\n{tool}next:\n  spec: {{mode: {mode}}}\n  arcs:{listed}"


def leaf(*names: str) -> list[str]:
    return [f"{{step: {name}, tool: {{kind: noop}}}}" for name in names]


def admit(rules: str, more: str = "") -> str:
    return f"spec: {{policy: {{§admit: {{rules: [{rules}]{more}}}}}}}\n"


JOIN = "step: j\nspec: {join: {count: §N}}\ntool: {kind: noop}"
LOOP = "step: a\nloop: {in: [1], iterator: n, spec: {mode: MODE}}\ntool: {kind: noop, set_ctx: {VALUE}}"

SPEAKS: list[tuple[str, str, str]] = [
    ("unreachable, and what follows it", "W501", flow(*leaf("start"), arcs("§x", "{step: y}"), *leaf("§y"))),
    ("unreachable beside an explicit entry", "W501",
     HEAD + "executor: {spec: {entry_step: b}}\nworkflow: [{step: §a, tool: {kind: noop}}, {step: b, tool: {kind: noop}}]\n"),
    ("behind literal true", "W502", flow(arcs("a", "{step: b, when: '{{ true }}'}", "{step: §c, when: '{{ event.name == \"step.failed\" }}'}"),
                                         *leaf("b", "c"))),
    ("the environment in the keychain", "W515",
     HEAD + "keychain: [{name: k, kind: bearer, token: '{{ §env.TOKEN }}'}, {name: s, kind: static, data: {a: \"{{ §environ.get('X') }}\"}}]\n"
     "workflow: [{step: a, tool: {kind: http, url: 'http://x/', auth: k, headers: {X: '{{ keychain.s.a }}'}}}]\n"),
    ("an input that the keychain alone reads", "W515",
     HEAD + "workload: {n: 1}\nkeychain: [{name: k, kind: bearer, token: '{{ workload.n }}{{ §workload.m }}'}]\n"
     "workflow: [{step: a, tool: {kind: http, url: 'http://x/', auth: k}}]\n"),
    ("an expression in a text over lines", "W523", flow("step: a\ntool:\n  kind: python\n  code: |\n    x = 1\n    y = \"\"\"\n    §{{ workload.n }}\"\"\"")),
    ("two expressions", "W523", flow("step: a\ntool: {kind: python, code: \"x = '§{{ ctx.a }} and §{{- iter.b -}}'\"}")),
    ("a namespace in a function", "W524", flow("step: a\ntool:\n  kind: python\n  code: |\n    def main():\n        return §ctx['a']")),
    ("a namespace in a compensation", "W524",
     flow("step: a\ntool: {kind: noop}\ncompensate:\n  - {kind: python, code: 'result = §execution_id'}")),
    ("a namespace in the workbook", "W524",
     HEAD + "workbook: {t: {kind: python, code: 'result = §iter'}}\nworkflow: [{step: a, tool: {kind: workbook, task: t}}]\n"),
    ("two without guard", "W502", flow(arcs("a", "{step: b}", "{step: §c}"), *leaf("b", "c"))),
    ("a success that was taken", "W502",
     flow(arcs("a", "{step: b}", "{step: §c, when: '{{ event.status == \"success\" and ctx.x }}'}"), "{step: b, tool: {kind: noop, set_ctx: {x: 1}}}",
          *leaf("c"))),
    ("a plain false", "W503", flow(arcs("a", "{step: b, when: §false}", "{step: b}"), *leaf("b"))),
    ("step.failed of a router", "W504", flow(arcs("a", "{step: b, when: §'{{ event.name == \"step.failed\" }}'}", "{step: b}", tool=""), *leaf("b"))),
    ("a name of the log", "W504", flow(arcs("a", "{step: b, when: §'{{ event.name == \"StepDone\" }}'}"), *leaf("b"))),
    ("a join behind one inclusive arm", "W505",
     flow(arcs("a", "{step: b}", "{step: c}", mode="inclusive"), arcs("b", "{step: j}"), *leaf("c"), JOIN.replace("N", "2"))),
    ("a join of more than all", "W505",
     flow(arcs("a", "{step: b}", "{step: c}", mode="inclusive"), arcs("b", "{step: j}"), arcs("c", "{step: j}"), JOIN.replace("N", "3"))),
    ("admission that is skipped always", "W507",
     flow("step: a\n" + admit("{else: {then: {allow: false}}}", ", on_deny: skip") + "tool: {kind: noop}")),
    ("admission by ctx that comes later", "W508",
     flow("step: a\n" + admit("{when: '{{ ctx.go }}', then: {allow: true}}, {else: {then: {allow: false}}}")
          + "tool: {kind: noop, set_ctx: {go: true}}")),
    ("two ways back at once", "W509",
     flow(arcs("a", "{step: b}", "{step: §c}", mode="inclusive"), arcs("b", "{step: a, when: '{{ workload.x }}'}"),
          arcs("c", "{step: a, when: '{{ workload.x }}'}"))),
    ("a step that leads to itself", "W510", flow(arcs("§a", "{step: a}"))),
    ("arms of different length", "W511",
     flow(arcs("a", "{step: b}", "{step: m}", mode="inclusive"), arcs("b", "{step: m}"), *leaf("§m"))),
    ("the first meeting only", "W511",
     flow(arcs("a", "{step: b}", "{step: c}", mode="inclusive"), arcs("b", "{step: m}"), arcs("c", "{step: m}"), arcs("§m", "{step: n}"),
          *leaf("n"))),
    ("a fork behind an exclusive router", "W511",
     flow(arcs("a", "{step: f, when: '{{ workload.x }}'}", "{step: m}"), arcs("f", "{step: b}", "{step: c}", mode="inclusive"),
          arcs("b", "{step: m}"), arcs("c", "{step: m}"), *leaf("§m"))),
    ("a counter in a parallel loop", "W514", flow(LOOP.replace("MODE", "parallel").replace("VALUE", '§n: "{{ (ctx.n or 0) + 1 }}"'))),
    ("two constants", "W514",
     flow("step: a\nloop: {in: [1], iterator: n, spec: {mode: parallel}}\ntool:\n  - {name: x, kind: noop, set_ctx: {§k: 1}}\n"
          "  - {name: y, kind: noop, set: {ctx.k: 2}}")),
    ("event in a task", "W515", flow("step: a\ntool: {kind: noop, result: '{{ §event.name }}'}")),
    ("iter in an arc", "W515", flow(arcs("a", "{step: b, args: {x: '{{ §iter.n }}'}}"), *leaf("b"))),
    ("an attribute that steps do not have", "W515", flow(arcs("a", "{step: b}"), "step: b\ntool: {kind: noop, result: '{{ §steps.a.output }}'}")),
    ("the environment", "W515", flow("step: a\ntool: {kind: noop, result: '{{ §env.HOME }}'}")),
    ("a step's bare name, and its result again", "W515", flow(arcs("a", "{step: b}"), "step: b\ntool: {kind: noop, result: '{{ §a.result.n }}'}")),
    ("an attribute that events do not have", "W515", flow(arcs("a", "{step: b, when: '{{ §event.reslt }}'}"), *leaf("b"))),
    ("in a folded text", "W515", flow("step: a\ntool:\n  kind: noop\n  result: >\n    one\n    two {{ §steps.b.result }}")),
    ("a bare name that is nearly one", "W515",
     HEAD + "workload: {endpoint: 1}\nworkflow: [{step: a, tool: {kind: noop, result: '{{ workload.endpoint }}{{ §endpiont }}'}}]\n"),
    ("a workbook's task", "W515",
     HEAD + "workload: {url: 1}\nworkbook: {get: {kind: noop, result: '{{ §args.b }}{{ args.a }}{{ iter.n }}{{ workload.url }}'}}\n"
     "workflow: [{step: a, args: {a: 1}, loop: {in: [1], iterator: n}, tool: {kind: workbook, task: get}}]\n"),
    ("the executor's defaults", "W515",
     HEAD + "executor: {spec: {timeout_s: '{{ §workload.limt }}', policy: {task: {rules: [{when: '{{ outcome.status == §ctx.never }}',"
     " then: {do: break}}]}}}}\nworkload: {limit: 3}\nworkflow: [{step: a, tool: {kind: noop, result: '{{ workload.limit }}'}}]\n"),
    ("a workload key", "W516", HEAD + "workload: {a: 1, §b: 2}\nworkflow: [{step: a, tool: {kind: noop, result: '{{ a }}'}}]\n"),
    ("an AWS key in a program", "W517", flow("step: a\ntool:\n  kind: python\n  code: §|\n    key = 'AKIAIOSFODNN7EXAMPLE'")),
    ("a password", "W517", flow("step: a\ntool: {kind: noop, args: {db_password: §s3cret}}")),
    ("a password that is a number", "W517", flow("step: a\ntool: {kind: noop, args: {password: §123456}}")),
    ("an API key by its name", "W517", flow("step: a\ntool: {kind: http, url: 'https://x', headers: {X-Api-Key: §4f9a8b7c6d5e4f3a}}")),
    ("a URL with a password", "W517", flow("step: a\ntool: {kind: http, url: §'https://me:hunter2@x/y'}")),
    ("a token by its shape", "W517", flow("step: a\ntool: {kind: noop, args: {x: §ghp_0123456789abcdefghijABCDEFGHIJ012345}}")),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text"), [pytest.param(code, text, id=f"{code} {name}") for name, code, text in SPEAKS])
def test_it_speaks(code: str, text: str) -> None:
    source, places = marked(text)
    playbook, _ = check(source)
    assert playbook is not None
    assert found(source) == [(code, *place) for place in places]


SILENT: list[tuple[str, str]] = [
    ("arcs for success and failure", flow(arcs("a", "{step: b}", "{step: c, when: '{{ event.name == \"step.failed\" }}'}"), *leaf("b", "c"))),
    ("a guard on the error", flow(arcs("a", "{step: b}", "{step: c, when: \"{{ event.error.kind == 'timeout' }}\"}"), *leaf("b", "c"))),
    ("older names of events", flow(arcs("a", "{step: b, when: '{{ event.name == \"call.done\" }}'}"), *leaf("b"))),
    ("a router whose admission may fail",
     flow(arcs("a", "{step: b, when: '{{ event.name == \"step.failed\" }}'}",
               tool="spec: {policy: {admit: {on_deny: fail, rules: [{when: '{{ workload.x }}', then: {allow: true}}, {else: {then: {allow: false}}}]}}}\n"),
          *leaf("b"))),
    ("a join of all", flow(arcs("a", "{step: b, when: '{{ workload.x }}'}", "{step: j}"), arcs("b", "{step: j}"),
                           "step: j\nspec: {join: all}\ntool: {kind: noop}")),
    ("a join that a cycle feeds", flow(arcs("a", "{step: j}", "{step: a, when: '{{ workload.x }}'}", mode="inclusive"), JOIN.replace("§N", "5"))),
    ("admission by ctx of a branch beside",
     flow(arcs("a", "{step: b}", "{step: c}", mode="inclusive"), "step: b\n" + admit(
         "{when: '{{ ctx.go }}', then: {allow: true}}, {else: {then: {allow: false}}}").replace("§", "") + "tool: {kind: noop}",
          "{step: c, tool: {kind: noop, set_ctx: {go: true}}}")),
    ("admission that a later visit asks", flow(arcs("a", "{step: b}"), arcs(
        "b", "{step: b, when: '{{ workload.x }}'}",
        tool=admit("{when: \"{{ steps.b.status != 'error' }}\", then: {allow: true}}, {else: {then: {allow: false}}}").replace("§", "")
        + "tool: {kind: noop}\n"))),
    ("a refusal that brings what the next token waits for",
     flow(arcs("a", "{step: b, when: '{{ event.name == \"step.failed\" }}'}", tool=admit(
         "{when: \"{{ steps.b.status == 'ok' }}\", then: {allow: true}}, {else: {then: {allow: false}}}", ", on_deny: fail").replace("§", "")
         + "tool: {kind: noop}\n"), arcs("b", "{step: a, when: '{{ workload.x }}'}"))),
    ("a producer with a way out", flow(arcs("a", "{step: b}", "{step: a, when: '{{ event.result.more }}'}", mode="inclusive"), *leaf("b"))),
    ("a retry by arcs", flow(arcs("a", "{step: a, when: '{{ event.name == \"step.failed\" }}'}", "{step: b}"), *leaf("b"))),
    ("a cycle that failure leaves", flow(arcs("a", "{step: b}"), arcs("b", "{step: a}", "{step: c, when: '{{ event.name == \"step.failed\" }}'}"),
                                         *leaf("c"))),
    ("a cycle with admission", flow(arcs("a", "{step: b}"), arcs(
        "b", "{step: a}", tool=admit("{when: '{{ workload.x }}', then: {allow: true}}, {else: {then: {allow: false}}}").replace("§", "")
        + "tool: {kind: noop}\n"))),
    ("failures meet in one handler",
     flow(arcs("a", "{step: b}", "{step: c}", mode="inclusive"), arcs("b", "{step: h, when: '{{ event.name == \"step.failed\" }}'}"),
          arcs("c", "{step: h, when: '{{ event.name == \"step.failed\" }}'}"), *leaf("h"))),
    ("arcs that exclude each other",
     flow(arcs("a", "{step: b, when: '{{ workload.x }}'}", "{step: c, when: '{{ not workload.x }}'}", mode="inclusive"), arcs("b", "{step: m}"),
          arcs("c", "{step: m}"), *leaf("m"))),
    ("branches of an exclusive router", flow(arcs("a", "{step: b, when: '{{ workload.x }}'}", "{step: c}"), arcs("b", "{step: m}"),
                                             arcs("c", "{step: m}"), *leaf("m"))),
    ("a way back is no branch", flow(arcs("a", "{step: b}", "{step: c}", mode="inclusive"), arcs("b", "{step: a, when: '{{ workload.x }}'}"), *leaf("c"))),
    ("a last task for both ways",
     flow("step: a\ntool:\n  - name: fetch\n    kind: noop\n    spec: {policy: {rules: [{when: \"{{ outcome.status == 'error' }}\", then: {do: jump, to: report}},"
          " {else: {then: {do: continue}}}]}}\n  - {name: store, kind: noop}\n  - {name: report, kind: noop}")),
    ("a constant for all iterations", flow(LOOP.replace("MODE", "parallel").replace("VALUE", "done: true"))),
    ("the same for all iterations", flow(LOOP.replace("MODE", "parallel").replace("VALUE", "at: '{{ execution_id }}'"))),
    ("a sequential loop", flow(LOOP.replace("MODE", "sequential").replace("VALUE", "n: '{{ iter.n }}'"))),
    ("inputs of the request", flow("step: a\ntool: {kind: noop, result: '{{ workload.x }} {{ y }}'}")),
    ("what may be missing", flow("step: a\ntool: {kind: noop, result: ['{{ ctx.a | default(1) }}', '{{ ctx.b or 2 }}', '{{ ctx.c is defined }}']}")),
    ("an upload that starts", HEAD + "workload: {a: 1}\nworkflow: [{step: a, tool: {kind: noop, result: '{{ workload.a }} {{ workload.s3.key }}'}}]\n"),
    ("names of tasks, sugar too",
     flow("step: a\ntool:\n  - {name: one, kind: noop, set_iter: {n: 1}}\n  - choose:\n      - when: '{{ one and iter.n and _prev }}'\n"
          "        then: [{name: two, kind: noop, result: '{{ one }}'}]\n  - {kind: noop, result: '{{ two }} {{ choose_1 }}'}")),
    ("the loop around", flow("step: a\nloop: {in: [[1]], iterator: row, loop: {in: '{{ iter.row }}', iterator: cell}}\n"
                             "tool: {kind: noop, result: '{{ iter.cell }} {{ iter.index }} {{ iter.parent.row }} {{ cell }}'}")),
    ("what a workbook's task reads of either step that runs it",
     HEAD + "workbook: {get: {kind: noop, set_iter: {own: 1}, result: '{{ args.a }} {{ args.b }} {{ iter.own }} {{ first }} {{ event }}'}}\n"
     "workflow: [{step: a, args: {a: 1, event: 2}, tool: [{name: first, kind: noop}, {name: get, kind: workbook}], next: {arcs: [{step: b, args: {b: 1}}]}},"
     " {step: b, tool: {kind: workbook, task: get}}]\n"),
    ("what credentials read", HEAD + "workload: {n: 1}\nkeychain: [{name: j, kind: bearer, token: '{{ workload.n }}'}, {name: k, kind: static,"
     " data: {a: \"{{ keychain.j.token }}{{ execution_id }}{{ n }}{{ workload.x | default('') }}\"}}]\n"
     "workflow: [{step: a, tool: {kind: http, url: 'http://x/', headers: {X: '{{ keychain.k.a }}'}}}]\n"),
    ("templates of the program's own", flow("step: a\ntool: {kind: python, code: \"import jinja2\\nx = '{{ workload.a }}'\"}")),
    ("other braces", flow("step: a\ntool: {kind: python, code: \"x = f'{{workload}}' # {{ workload.a }}\\ny = '{{ name }}'\"}")),
    ("namespaces that are arguments", HEAD + "workbook: {t: {kind: python, code: 'result = iter'}}\n"
     "workflow: [{step: s, tool: {kind: noop}, next: {arcs: [{step: a, args: {workload: 1}}]}},"
     " {step: a, args: {iter: 1, ctx: 2}, tool: [{kind: python, code: 'x = [workload, ctx, iter, steps]', args: {steps: 1}}, {name: t, kind: workbook}]}]\n"),
    ("namespaces that the program binds", flow("step: a\ntool: {kind: python, code: \"from math import pi as ctx\\ndef main(workload=1): return [workload, ctx]\"}")),
    ("what nobody can say of a program", flow("step: a\ntool: {kind: python, code: \"exec('ctx = 1')\\nprint(ctx)\"}")),
    ("arguments that a template gives", flow("step: a\ntool: {kind: python, args: '{{ workload.args }}', code: 'result = ctx'}")),
    ("a workload that a program reads", HEAD + "workload: {a: 1, b: 2}\nworkflow: [{step: a, tool: [{kind: python, code: 'x = context[\"workload\"][\"a\"]'}, {kind: python,"
     " code: 'x = context.get(\"workload\").get(\"b\", 1)'}]}]\n"),
    ("a workload that a program may read", HEAD + "workload: {a: 1}\nworkflow: [{step: a, tool: {kind: python, code: 'x = dict(context)'}}]\n"),
    ("the whole workload", HEAD + "workload: {a: 1}\nworkflow: [{step: a, tool: {kind: noop, result: '{{ workload }}'}}]\n"),
    ("a method", HEAD + "workload: {a: 1}\nworkflow: [{step: a, tool: {kind: noop, result: \"{{ workload.get('a') }}\"}}]\n"),
    ("an anchor", HEAD + "workload: {a: &a {b: 1}}\nworkflow: [{step: a, tool: {kind: noop, args: *a}}]\n"),
    ("a free key", HEAD + "workload: {x-note: 1}\nworkflow: [{step: a, tool: {kind: noop}}]\n"),
    ("credentials by name", HEAD + "keychain: [{name: db, kind: postgres, secret: prod/db-2024}]\n"
     "workflow: [{step: a, tool: {kind: postgres, auth: db, command: SELECT 1}}]\n"),
    ("a secret by name", flow("step: a\ntool: {kind: secrets, secret: prod-db-password-01, field: password}")),
    ("templates and placeholders",
     flow("step: a\ntool: {kind: noop, args: {password: '{{ workload.p }}', token: <token>, api_key: '', secret: null, pwd: '${PW}',"
          " url: 'https://{{ workload.u }}:{{ workload.p }}@x'}}")),
    ("words beside secrets",
     flow("step: a\ntool: {kind: noop, args: {max_tokens: 100, token: next, secret_name: prod/key1, author: 'Basic instructions'}}")),
]  # fmt: skip


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in SILENT])
def test_it_is_silent(text: str) -> None:
    playbook, all_found = check(text)
    assert playbook is not None, all_found
    assert [str(d) for d in all_found if d.code[:2] == "W5"] == []


def test_a_secret_is_never_repeated() -> None:
    source, _ = marked(flow("step: a\ntool: {kind: http, url: 'https://me:hunter2@x/y', headers: {X-Api-Key: 4f9a8b7c6d5e4f3a}}"))
    for finding in check(source)[1]:
        assert "hunter2" not in str(finding)
        assert "4f9a" not in str(finding)


def test_stats_of_a_loop_say_where_they_are() -> None:
    """They are part of what the step came to, not of the step."""
    _, found = check(flow(
        "step: a\nloop: {in: [1], iterator: n}\ntool: {kind: noop}\nnext: {arcs: [{step: b}]}",
        "step: b\ntool: {kind: noop, result: '{{ steps.a.stats }}'}",
    ))  # fmt: skip
    assert [(d.code, d.hint) for d in found if d.code == "W515"] == [
        ("W515", "for a loop, write a.stats or steps.a.result.stats")
    ]
