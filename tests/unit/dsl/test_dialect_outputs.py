"""`output: {output_select}`: names for parts of a result are the paths that they stand for."""

from __future__ import annotations

import pytest

from noetl_core.dsl.parse import check, parse_playbook
from noetl_migrate import migrate
from tests.unit.dsl.broken_playbooks import HEAD, flow
from tests.unit.dsl.dialect import Service, found, ran, same

CALL = "tool: {kind: http, url: http://x}"
NEXT = "{path: data.next, as: next}"
SHOW = "step: b\ntool: {kind: noop, result: '{{ %s }}'}"
TO_B = "next: {arcs: [{step: b}]}"


def selecting(entries: str, reads: str = "a.next", tool: str = CALL, more: str = TO_B) -> str:
    return flow(f"step: a\noutput: {{output_select: {entries}}}\n{tool}\n{more}", SHOW % reads)


def plain(reads: str, tool: str = CALL, more: str = TO_B) -> str:
    return flow(f"step: a\n{tool}\n{more}", SHOW % reads)


@pytest.mark.parametrize(
    ("entries", "reads", "canonical"),
    [
        (f"[{NEXT}]", "a.next", "a.data.next"),
        ("[{path: data.next, name: next}]", "a.next", "a.data.next"),
        ("[{path: data.next, alias: next}]", "a['next']", "a.data.next"),
        ("[{next: data.next}]", "a.next", "a.data.next"),
        ("{next: data.next}", "a.next", "a.data.next"),
        (NEXT, "a.next", "a.data.next"),
        ("[status, data.total, {path: data.next, as: next}]", "a.next + a.status", "a.data.next + a.status"),
        ("[{first: 'data.items[0].id'}]", "a.first", "a.data.items[0].id"),
        ("[{first: data.items.0.id}]", "a.first", "a.data.items[0].id"),
        ("[{first: '$.data.items[0]'}]", "a.first.id", "a.data.items[0].id"),
        ("""[{at: "data['x-when'].at"}]""", "a.at", "a.data[''x-when''].at"),
        (f"[{NEXT}]", "steps.a.result.next", "steps.a.result.data.next"),
        (f"[{NEXT}]", "a.next | default(0) + (a.next or 1)", "a.data.next | default(0) + (a.data.next or 1)"),
        (f"[{NEXT}, {{name: data.user.name}}]", "[a.name, a.next]", "[a.data.user.name, a.data.next]"),
        ("[{status: status}]", "a.status", "a.status"),
    ],
)  # fmt: skip
def test_a_name_is_the_path_that_it_stands_for(entries: str, reads: str, canonical: str) -> None:
    same(selecting(entries, reads.replace("'", "''")), plain(canonical))


def test_output_names_of_tasks_are_read_by_later_tasks_and_steps() -> None:
    def text(output: str, name: str) -> str:
        tasks = f"- {{name: t, kind: noop, result: {{d: 1}}{output}}}\n  - {{name: u, kind: noop, result: {{d: '{{{{ t.{name} }}}}'}}{output}}}"
        return flow(f"step: a\ntool:\n  {tasks}\n{TO_B}", SHOW % f"a.{name}")

    same(text(", output: {output_select: [{x: d}], store: {kind: auto}}", "x"), text("", "d"))


def test_output_names_are_read_by_arcs_and_by_set_ctx() -> None:
    def text(output: str, name: str) -> str:
        more = f"set_ctx: {{n: '{{{{ event.result.{name} }}}}'}}\nnext: {{arcs: [{{step: b, when: '{{{{ a.{name} }}}}', args: {{m: '{{{{ a.{name} }}}}'}}}}]}}"
        return flow(f"step: a\n{output}{CALL}\n{more}", SHOW % "args.m")

    same(text(f"output: {{output_select: [{NEXT}]}}\n", "next"), text("", "data.next"))


def test_output_names_are_read_in_the_executor_and_in_the_workbook() -> None:
    def text(output: str, name: str) -> str:
        head = f"executor: {{spec: {{result: '{{{{ a.{name} }}}}'}}}}\nworkbook: {{w: {{kind: noop, result: '{{{{ steps.a.result.{name} }}}}'}}}}\n"
        return flow(f"step: a\n{output}{CALL}\n{TO_B}", "step: b\ntool: {kind: workbook, name: w}").replace(
            "workflow:", head + "workflow:"
        )

    same(text(f"output: {{output_select: [{NEXT}]}}\n", "next"), text("", "data.next"))


def test_an_anchored_task_is_changed_for_each_of_its_uses() -> None:
    text = HEAD + (
        "x-http: &call {kind: http, url: http://x, output: {output_select: [{n: data.n}]}}\n"
        "workflow:\n  - step: a\n    tool: *call\n    next: {arcs: [{step: b}]}\n  - step: b\n    tool: *call\n"
        "    next: {arcs: [{step: c}]}\n  - step: c\n    tool: {kind: noop, result: '{{ [a.n, b.n] }}'}\n"
    )
    assert parse_playbook(text).steps[2].tasks[0].inputs["result"] == "{{ [steps.a.result.data.n, steps.b.result.data.n] }}"
    migrated = migrate(text)
    assert not migrated.failed and parse_playbook(migrated.text) == parse_playbook(text)
    assert not migrate(migrated.text).changed


def test_the_text_keeps_its_comments_and_its_quotes() -> None:
    text = flow(
        "step: a\noutput:   # what it gives\n  output_select:\n    - {path: data.next, as: next}   # the cursor\n  store: {kind: auto}\n"
        "tool: {kind: http, url: http://x}\nnext: {arcs: [{step: b}]}",
        "step: b\ntool:\n  kind: noop\n  result: '{{ a.next }}'   # where to go on",
    )
    migrated = migrate(text)
    assert not migrated.failed, migrated.diagnostics
    for kept in ("# what it gives", "# the cursor", "# where to go on", "{{ a.data.next }}"):
        assert kept in migrated.text, migrated.text
    assert "output" not in migrated.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (selecting("[5]"), 'E112 output_select of step "a" must have paths, not a number'),
        (selecting("[{}]"), 'E112 output_select of step "a" must have paths, not a mapping'),
        (selecting("[{as: next}]"), 'E111 an entry of output_select of step "a" has no path'),
        (selecting("[{pth: data.next, name: next}]"), 'E111 an entry of output_select of step "a" has no path'),
        (selecting("[{path: data.next, az: next}]"), 'E110 unknown key "az" in output_select of step "a"'),
        (selecting("[{path: 'data.*.id', as: next}]"), 'E112 next in output_select of step "a" must be a path, not "data.*.id"'),
        (selecting("[{next: '{{ result.data.next }}'}]"), 'E112 next in output_select of step "a" must be a path, not "{{ result.data.next }}"'),
        (selecting("[{next: ''}]"), 'E112 next in output_select of step "a" must be a path, not ""'),
        (selecting("[{next: 5}]"), 'E112 next in output_select of step "a" must be a path, not a number'),
        (selecting("[{'next-page': data.next}]"), 'E115 "next-page" cannot name a part of the result of step "a"'),
        (selecting(f"[{NEXT}, {{next: data.other}}]"), 'E114 output_select of step "a" gives two parts the name next'),
        (selecting("[{status: data.status}]", "a.status"), 'E114 status in output_select of step "a" is also a field of the result of http'),
        (selecting("[{body: data.text}]", "a.body"), 'E114 body in output_select of step "a" is also a field of the result of http'),
        (
            selecting(f"[{NEXT}]", more=f"loop: {{in: [1], iterator: x}}\n{TO_B}"),
            'E114 next in output_select of step "a" is a part of one result, and its loop gives a list of results',
        ),
        (
            HEAD + f"workbook: {{w: {{kind: http, url: u, output: {{output_select: [{NEXT}]}}}}}}\nworkflow: [{{step: a, tool: {{kind: noop}}}}]\n",
            "E114 next in output_select of the workbook's task w cannot be read: only a task that uses it has a result",
        ),
        (selecting("[]").replace("output_select", "output_selct"), 'E110 unknown key "output_selct" in output of step "a"'),
    ],
)  # fmt: skip
def test_an_invalid_output_select_is_refused(text: str, expected: str) -> None:
    assert found(text)[0] == expected
    assert parse_playbook(selecting("[5]"), programs=False)  # it was registered before this was checked


@pytest.mark.parametrize(
    ("entries", "reads", "told"),
    [
        ("[data.next, status]", "a.data.next", ['W403 "output" in step "a" is accepted but has no effect']),
        (f"[{NEXT}]", "a.data.next", ['W403 "output" in step "a" is accepted but has no effect']),
        ("[{status: data.status}]", "a.data.status", ['W403 "output" in step "a" is accepted but has no effect']),
        (f"[{NEXT}, {{more: data.more}}]", "a.next", ['W403 more in output_select of step "a" has no effect: no template reads it by that name']),
        (f"[{NEXT}]", "a.next", []),
        (f"[{NEXT}], store: {{kind: auto}}", "a.next", ['W403 "store" in output of step "a" is accepted but has no effect']),
    ],
)  # fmt: skip
def test_outputs_without_effect_are_reported(entries: str, reads: str, told: list[str]) -> None:
    assert found(selecting(entries, reads)) == []
    assert [m for m in found(selecting(entries, reads), "note") if m.startswith("W403")] == told


def test_the_hint_of_a_looped_name_gives_the_expression_to_write() -> None:
    looped = selecting("[{first: 'data.items[0].id'}]", "a.first", more=f"loop: {{in: [1], iterator: x}}\n{TO_B}")
    (error,) = (d for d in check(looped)[1] if d.severity == "error")
    assert error.hint == "read it of each result: {{ a | map(attribute='data.items.0.id') | list }}"
    assert (error.line, error.path[-1]) == (6, "first")


def test_a_name_that_args_bind_keeps_their_value() -> None:
    text = flow(
        f"step: a\noutput: {{output_select: [{NEXT}]}}\n{CALL}\nnext: {{arcs: [{{step: b, args: {{a: {{next: 7}}}}}}]}}",
        SHOW % "a.next",
    )
    assert ran(text, Service((200, {"next": 1})))["result"] == 7


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_name_reads_a_result_of_any_size(size: int) -> None:
    service = Service((200, {"next": 3, "pad": "x" * size}))
    assert ran(selecting(f"[{NEXT}]"), service)["result"] == 3


def test_a_loop_gives_the_part_of_each_as_the_hint_says() -> None:
    service = Service((200, {"items": [{"id": 4}]}))
    text = plain("a | map(attribute=''data.items.0.id'') | list", more=f"loop: {{in: [1, 2], iterator: x}}\n{TO_B}")
    assert ran(text, service)["result"] == [4, 4]
