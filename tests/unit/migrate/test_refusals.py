"""Constructs without a faithful form are refused at their place (`§`, not part of the text), and the playbook stays as it is."""

from __future__ import annotations

import pytest

from noetl_migrate import migrate
from tests.unit.migrate.legacy import HEAD

HAND = "rewrite this manually"
END = "  - { step: end }\n"


def case(entry: str, tool: str = "{ kind: http, url: u, params: { p: 1 } }", more: str = "") -> str:
    """A step with one entry of a `case`."""
    body = "".join(f"    {line}\n" for line in more.splitlines())
    return HEAD + f"workflow:\n  - step: a\n    tool: {tool}\n{body}    case:\n      - {entry}\n" + END


def evaluated(rule: str, more: str = "") -> str:
    """A step with one rule in `eval`."""
    body = "".join(f"    {line}\n" for line in more.splitlines())
    return (
        HEAD
        + f"workflow:\n  - step: a\n{body}    tool:\n      - t:\n          kind: noop\n          eval:\n            - {rule}\n"
        + END
    )


def step(*lines: str) -> str:
    return HEAD + "workflow:\n  - step: a\n" + "".join(f"    {line}\n" for line in lines) + END


CALL = "when: \"{{ event.name == 'call.done' }}\""
EXIT = "when: \"{{ event.name == 'step.exit' }}\""
LOOP = "loop: { in: [1], iterator: i }"
PARALLEL = "loop: { in: [1], iterator: i, spec: { mode: parallel } }"
BESIDE = "make it two entries that exclude each other"
ONE = "keep one of them"

REFUSED: list[tuple[str, str, str]] = [
    # --- the eval dialect
    ("a rule of neither kind", evaluated("§{ do: continue }"), "give it one"),
    ("an unknown directive", evaluated("else: { do: continue, §colour: red }"), "known: do, attempts, backoff"),
    ("a condition without braces", evaluated("{ expr: §outcome.ok, do: fail }"), 'write "{{ outcome.ok }}"'),
    ("eval that is no list", step("tool:", "  - t: { kind: noop, §eval: { do: fail } }"), HAND),
    ("eval and a policy", step("tool:", "  - t: { kind: noop, §eval: [], spec: { policy: { rules: [] } } }"), ONE),
    ("else beside expr", evaluated("{ expr: '{{ true }}', §else: { do: fail } }"), HAND),
    (
        "a shared write of a parallel loop",
        evaluated("else: { §set_shared: { a: 1 } }", PARALLEL),
        "write set_ctx, and a reducer in loop.spec.policy.reducers",
    ),
    (
        "a variable of a parallel loop that arcs read",
        evaluated("else: { set_vars: { §a: 1 } }", PARALLEL + "\nnext: [{ step: end, when: '{{ vars.a }}' }]"),
        "write set_ctx, and a reducer in loop.spec.policy.reducers",
    ),
    ("a key written twice", evaluated("else: { set_ctx: { v: 1 }, set_shared: { §v: 2 } }"), "rename one"),
    ("when that is no expression", step("§when: soon", "tool: { kind: noop }"), 'write "{{ ... }}"'),
    ("when and an admission policy", step("§when: '{{ ctx.a }}'", "spec: { policy: { admit: { rules: [] } } }", "tool: { kind: noop }"), ONE),
    ("when of a task", step("tool:", "  - t: { kind: noop, §when: '{{ true }}' }"), f'{HAND}: a rule with do: jump, or "choose"'),
    ("a target with then", step("tool: { kind: noop }", "next: [{ step: end, §then: end }]"), f"{HAND}: one arc for each target, with when"),
    ("a target with `with`", step("tool: { kind: noop }", "next: [{ step: end, §with: { a: 1 } }]"), "args carries data to the next step"),
    ("a target without a step", step("tool: { kind: noop }", "next: [§{ when: '{{ true }}' }]"), "- step: <name>"),
    ("an unknown key of a target", step("tool: { kind: noop }", "next: [{ step: end, §arguments: {} }]"), "known: step, when, args, desc"),
    ("a number as next", step("tool: { kind: noop }", "§next: 5"), HAND),
    ("pipe beside tool", step("tool: { kind: noop }", "§pipe: []"), "keep tool"),
    ("the type of old", step("§type: http", "tool: { kind: noop }"), HAND),
    ("save of old", step("tool: { kind: noop }", "§save: x"), HAND),
    ("a sink beside a pipeline", step("tool: [{ kind: noop }]", "§sink: { tool: { kind: noop } }"), f"{HAND}: the sink becomes the last task"),
    ("variables that are no mapping", step("tool: { kind: noop }", "§vars: [1]"), HAND),
    # --- the case dialect
    ("a case that is no list", step("tool: { kind: noop }", "§case: { when: '{{ true }}' }"), HAND),
    ("an entry without then", case("§" + CALL), HAND),
    ("an unknown key of an entry", case("{ " + CALL + ", then: {}, §els: {} }"), "it has when and then"),
    ("no event", case("{ §when: '{{ ctx.a }}', then: { set: { a: 1 } } }"), "the dialect has step.enter, call.done, call.error, step.exit"),
    ("an unknown event", case("{ §when: \"{{ event.name == 'call.doen' }}\", then: {} }"), 'did you mean "call.done"?'),
    ("more of the event than its name", case("{ §when: '{{ event.payload.x }}', then: {} }"), "response and error hold the outcome of the call"),
    ("a condition that is text", case("{ §when: 'call.done', then: {} }"), HAND),
    ("an unknown action", case("{ " + CALL + ", then: { §colect: {} } }"), 'did you mean "collect"?'),
    ("then that is a number", case("{ " + CALL + ", §then: 5 }"), HAND),
    ("call.done without a tool", case("§{ " + CALL + ", then: { set: { a: 1 } } }").replace("    tool: { kind: http, url: u, params: { p: 1 } }\n", ""), HAND),
    ("retry at the end", case("{ " + EXIT + ", then: { §retry: { max_attempts: 2 } } }"), "test event.name == 'call.done'"),
    ("retry beside next", case("{ " + CALL + ", then: { §retry: { max_attempts: 2 }, next: [end] } }"), BESIDE),
    ("an unknown key of retry", case("{ " + CALL + ", then: { §retry: { times: 2 } } }"), "it has max_attempts, attempts"),
    ("collect without into", case("{ " + CALL + ", then: { §collect: { from: response } } }"), HAND),
    ("collect by sum", case("{ " + CALL + ", then: { §collect: { from: response, into: x, mode: sum } } }"), f"append or extend; or {HAND}"),
    ("a sink without kind", case("{ " + CALL + ", then: { §sink: { tool: {} } } }"), "sink: { tool: { kind: ... } }"),
    ("an unknown key of a sink", case("{ " + CALL + ", then: { sink: { tool: { kind: noop }, §when: 1 } } }"), "it has tool and args"),
    ("set to a number", case("{ " + CALL + ", then: { §set: 5 } }"), HAND),
    ("response at the end", case("{ " + EXIT + ", then: { next: [{ step: end, args: { x: §'{{ response.x }}' } }] } }"),
     "read result instead, or keep the value with set at call.done"),
    ("a sink after a loop", case("{ " + EXIT + ", then: { §sink: { tool: { kind: noop } } } }", more=LOOP), "route to a step of its own with next"),
    ("collect in a parallel loop", case("{ " + CALL + ", then: { §collect: { from: response, into: x } } }", more=PARALLEL),
     "mode: sequential, or set_ctx with a reducer in loop.spec.policy.reducers"),
    ("when in a target of then.next", case("{ " + CALL + ", then: { next: [{ step: end, §when: '{{ ctx.a }}' }] } }"), 'write the condition in "when" of the entry'),
    ("call with what is no input", case("{ " + CALL + ", then: { call: { §parms: {} } } }"), HAND),
    ("call with a program", case("{ " + CALL + ", then: { call: { §code: x } } }", tool="{ kind: python, code: 'result = 1' }"), "pass what changes as an argument"),
    ("call with an argument that is new", case("{ " + CALL + ", then: { call: { §payload: { b: 2 } } } }", tool="{ kind: http, url: u, payload: { a: 1 } }"),
     "add b to payload of the tool"),
    ("call with an input that is new", case("{ " + CALL + ", then: { call: { §method: POST } } }"), "add method to the tool"),
    ("a policy beside a retry", case("{ " + CALL + ", then: { retry: { max_attempts: 2 } } }", tool="{ kind: http, url: u, §spec: { policy: { rules: [] } } }"), ONE),
    ("an event in an action", case("{ " + CALL + ", then: { set: { a: §'{{ event.name }}' } } }"), "write it without event"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "hint"), [pytest.param(*rest, id=name) for name, *rest in REFUSED])
def test_a_construct_without_a_faithful_form_is_refused_at_its_place(text: str, hint: str) -> None:
    before, mark, after = text.partition("§")
    assert mark
    line, col = before.count("\n") + 1, len(before) - before.rfind("\n")

    migrated = migrate(before + after, "flow.yaml")

    assert (migrated.changed, migrated.text) == (False, before + after)
    errors = [d for d in migrated.diagnostics if d.severity == "error"]
    assert [(d.code, d.line, d.col, d.hint[: len(hint)]) for d in errors] == [("E127", line, col, hint)]


LOOKED_AT: list[tuple[str, str]] = [
    ("retry without attempts", evaluated("else: { §do: retry }").replace("§do: retry", "do: §retry")),
    ("the whole outcome", evaluated("else: { set_ctx: { o: §'{{ outcome }}' } }")),
    ("only the first target", step("when: '{{ ctx.a }}'", "tool: { kind: noop }", "next: [{ step: end }, §{ step: end }]")),
    ("all targets", step("tool: { kind: noop }", "§next: [{ step: end }, { step: end }]")),
    ("next_mode without next", step("spec: { §next_mode: inclusive }", "tool: { kind: noop }")),
    ("step.enter of a loop", case("§{ when: \"{{ event.name == 'step.enter' }}\", then: { set: { a: 1 } } }", more=LOOP)),
    ("retry without max_attempts", case("{ " + CALL.replace(" }}", " and error is defined }}") + ", then: { §retry: {} } }")),
]


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in LOOKED_AT])
def test_a_construct_that_needs_review_is_a_warning_at_its_place(text: str) -> None:
    before, mark, after = text.partition("§")
    assert mark
    migrated = migrate(before + after, "flow.yaml")
    assert migrated.changed
    found = [(d.code, d.severity, d.line, d.col) for d in migrated.diagnostics]
    assert found == [("W450", "warning", before.count("\n") + 1, len(before) - before.rfind("\n"))]


def test_all_errors_are_reported_at_once_in_the_order_of_the_text() -> None:
    text = step("tool: { kind: noop }", "save: x", "type: y", "next: [{ step: end, with: {} }]")
    assert [(d.code, d.line) for d in migrate(text).diagnostics] == [("E127", 7), ("E127", 8)]


def test_other_errors_are_reported_at_their_place_in_the_migrated_text() -> None:
    migrated = migrate(step("tool: { kind: noop }", "next: nowhere"), "flow.yaml")
    assert [str(d) for d in migrated.diagnostics] == [
        'flow.yaml (migrated):9:17 E201 arc target "nowhere" is not a step (add the step, or remove the arc)'
    ]
    assert not migrated.changed


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: [", "E100"),
        (step("tool: { kind: noop, result: '{{ | }}' }", "next: end"), "E301"),
        (HEAD + "vars: { a: 1 }\nworkflow: []\n", "E127"),
    ],
)
def test_an_unreadable_playbook_gives_the_diagnostics_of_validate(text: str, code: str) -> None:
    migrated = migrate(text)
    assert ([d.code for d in migrated.diagnostics], migrated.text) == ([code], text)


def test_a_key_that_neither_dialect_has_must_be_rewritten_by_hand() -> None:
    """`noetl validate` refers such keys to `noetl migrate`, which must not refer back to it."""
    text = step("tool: { kind: noop, x-a: 1 }", "next: end").replace("kind: Playbook\n", "kind: Playbook\nsteps: []\n")
    (found,) = migrate(text).diagnostics
    assert (found.code, found.hint) == ("E120", f"{HAND}: neither dialect has it")
