"""Tasks of other playbooks: how they are found and pinned, whatever the form of the texts, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl_core.dsl.dump import dump
from noetl_core.dsl.parse import check, digest_of, parse_playbook
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.dsl.reading.load import PINNED, load
from noetl_core.dsl.sections.workbook_uses import Library, pinned, uses
from noetl_core.dsl.versions import Version

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: a, path: a }\n"
LIBRARY = HEAD + (
    "workbook:\n  greet: { kind: noop, args: { greeting: Hello, name: nobody } }\n"
    '  code:\n    kind: python\n    code: |\n      # naïve "quotes" \\n\n      result = "{" + "}"\n'
    "workflow: [{ step: start, tool: { kind: noop } }]\n"
)
STEPS = "workflow:\n  - step: start\n    tool: { name: t, kind: workbook, task: greet, args: { name: Ada } }\n"


def found(path: str, version: Version) -> Library | None:
    return Library(version or 7, digest_of(LIBRARY), LIBRARY) if path == "shared/texts" and version in (None, 3) else None


def task(text: str, name: str = "greet") -> Any:
    return parse_playbook(text).workbook[name]


@pytest.mark.parametrize(
    "workbook",
    [
        'workbook: { greet: { uses: "shared/texts@3#greet" } }\n',
        'workbook:\n  tasks:\n    greet: { uses: "shared/texts@3#greet", desc: hello }\n',
        "workbook:\n  - name: greet\n    uses: shared/texts@3#greet\n",
        "workbook:\n  - name: greet\n    tool: { uses: shared/texts@3#greet }\n",
        "workbook:\n  tasks: { uses: shared/texts#greet }\n  greet: { uses: shared/texts@3#greet }\n",
    ],
)
@pytest.mark.parametrize("end", ["", "\n", "# the end", "x-last: |\n  text\n\n"])
def test_every_form_of_a_workbook_is_pinned(workbook: str, end: str) -> None:
    text = HEAD + workbook + STEPS + end
    bound = pinned(text, found)
    assert bound.startswith(text)
    before, after = load(text).root, load(bound).root
    assert before is not None and after is not None
    rest = {key: value for key, value in after.plain().items() if key != PINNED}
    assert rest == before.plain(), "nothing else of the text changes"
    pin = after.plain()[PINNED]["shared/texts@3#greet"]
    assert (pin["version"], pin["digest"]) == (3, digest_of(LIBRARY))
    assert task(bound).inputs == {"args": {"greeting": "Hello", "name": "nobody"}}
    (step,) = parse_playbook(bound).steps
    assert step.tasks[0].inputs == {"args": {"greeting": "Hello", "name": "Ada"}}
    assert parse_playbook(dump(parse_playbook(bound))).steps == parse_playbook(bound).steps
    assert pinned(bound, found) == bound


def test_a_playbook_in_braces_is_pinned() -> None:
    document = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "a", "path": "a"},
        "workbook": {"greet": {"uses": "shared/texts#greet"}},
        "workflow": [{"step": "start", "tool": {"kind": "workbook", "task": "greet"}}],
    }
    bound = pinned(json.dumps(document, indent=1) + "\n", found)
    assert json.loads(bound)[PINNED]["shared/texts#greet"]["version"] == 7
    assert task(bound).kind == "noop"


def test_programs_are_pinned_as_they_are() -> None:
    text = (
        HEAD
        + 'workbook: { one: { uses: "shared/texts#code" }, two: { uses: "shared/texts#code" } }\n'
        + STEPS.replace("greet", "one")
    )
    bound = pinned(text.replace(", args: { name: Ada }", ""), found)
    assert task(bound, "one").inputs == task(bound, "two").inputs == {"code": '# naïve "quotes" \\n\nresult = "{" + "}"\n'}


def test_a_task_of_a_third_playbook_is_the_one_that_was_pinned_there() -> None:
    middle = pinned(HEAD + 'workbook: { hello: { uses: "shared/texts@3#greet" } }\n' + STEPS.replace("greet", "hello"), found)
    text = HEAD + 'workbook: { greet: { uses: "middle#hello" } }\n' + STEPS
    bound = pinned(text, lambda path, version: Library(1, digest_of(middle), middle) if path == "middle" else None)
    assert task(bound).inputs["args"]["greeting"] == "Hello"
    unpinned = HEAD + 'workbook: { hello: { uses: "shared/texts@3#greet" } }\n' + STEPS.replace("greet", "hello")
    lost = pinned(text, lambda path, version: Library(0, "", unpinned))
    assert "E211" in str(check(lost)[1][0]) and "the task is itself taken from" in str(check(lost)[1][0])


def test_existing_pins_stay_when_new_references_are_pinned() -> None:
    bound = pinned(HEAD + 'workbook: { greet: { uses: "shared/texts#greet" } }\n' + STEPS, found)
    newer = LIBRARY.replace("Hello", "Good day")
    assert pinned(bound, lambda path, version: Library(8, digest_of(newer), newer)) == bound
    more = bound.replace("workbook: {", 'workbook: { code: { uses: "shared/texts#code" },')
    again = pinned(more, lambda path, version: Library(8, digest_of(newer), newer))
    assert again.count(f"\n{PINNED}: ") == 1
    assert {ref: pin["version"] for ref, pin in json.loads(again.rpartition(f"{PINNED}: ")[2]).items()} == {
        "shared/texts#greet": 7,
        "shared/texts#code": 8,
    }


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{ uses: shared/texts@4#greet }", 'workbook task "greet" uses shared/texts@4#greet, which was not found'),
        ("{ uses: other#greet }", "uses other#greet, which was not found"),
        ("{ uses: shared/texts@3#great }", "the playbook has no task 'great' (it has: code, greet)"),
        ("{ uses: shared/texts }", "cannot be 'shared/texts' (path#task, or path@version#task"),
        ("{ uses: shared/texts@latest#greet }", "cannot be 'shared/texts@latest#greet'"),
        ("{ uses: [a] }", "cannot be"),
        ("{ uses: 3 }", "cannot be '3'"),
    ],
)
def test_a_missing_shared_task_is_reported_where_it_is_used(entry: str, message: str) -> None:
    text = pinned(f"{HEAD}workbook:\n  greet: {entry}\n{STEPS}", found)
    errors = [d for d in check(text)[1] if d.severity == "error"]
    assert [(d.code, d.line) for d in errors] == [("E211", 5)]
    assert message in str(errors[0])
    with pytest.raises(InvalidPlaybook, match="E211"):
        parse_playbook(text)


def test_unknown_keys_beside_uses_are_errors() -> None:
    text = pinned(HEAD + "workbook: { greet: { uses: shared/texts#greet, kind: noop } }\n" + STEPS, found)
    assert [d.code for d in check(text)[1] if d.severity == "error"] == ["E110"]


def test_findings_in_a_shared_task_are_reported_where_it_is_used() -> None:
    broken = LIBRARY.replace("greeting: Hello", "greeting: '{{ workload.x + }}'")
    text = pinned(
        HEAD + "workbook:\n  greet: { uses: shared/texts#greet }\n" + STEPS, lambda path, version: Library(1, "", broken)
    )
    (error,) = (d for d in check(text)[1] if d.severity == "error")
    assert (error.code, error.line) == ("E301", 5)


def test_lenient_parsing_accepts_an_unpinned_shared_task_with_a_warning() -> None:
    text = HEAD + "workbook:\n  greet: { uses: elsewhere@3#greet }\n" + STEPS
    playbook, diagnostics = check(text, lenient=True)
    assert playbook is not None
    assert [(d.code, d.severity) for d in diagnostics] == [("E211", "warning")]
    assert parse_playbook(text, lenient=True).path == "a"


def test_texts_that_use_nothing_are_left_as_they_are() -> None:
    asked: list[str] = []
    for text in ("", "uses: a#b", "- uses: x", "workbook: 3\nuses: y", "{", LIBRARY, HEAD + STEPS + "# uses: a\n"):
        assert pinned(text, lambda path, version: asked.append(path)) == text
    assert (asked, uses(LIBRARY)) == ([], {})
