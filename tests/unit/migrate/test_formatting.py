"""`noetl fmt`: the layout of a playbook changes, and nothing else."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.dsl.reading.load import load
from noetl_migrate import formatting
from noetl_migrate.formatting import NotFormatted, formatted
from noetl_migrate.reading import comments
from noetl_migrate.write import write
from tests.conformance.cases import all_cases
from tests.properties import SEED, some
from tests.unit.docs.language import BLOCK, completed

ROOT = Path(__file__).parents[3]

BEFORE = """\
# What it does.

kind: Playbook
apiVersion: noetl.io/v2
workflow:
- next: { arcs: [{ step: last }] }   # where to
  # about the step
  step: first
  tool:
  - kind: http


    url:   'https://example.org'
    # how often
    spec: {policy:   {rules: []}}   # kept
    name: fetch
    set_ctx: { b: 1, a: 2 }
  # in between
  - choose:
    - when: "{{ true }}"
      then:
      - code: |
          # program text
          if x:
              y = 1
        kind: python
        name: decide
  x-note: mine

- tool: { kind: noop, name: in_braces }
  step: last
x-own: 1
metadata:
      path: a/b
      name: b
workload: # the inputs
    z: 1
      # below z
    a: "yes"
# the end
"""
AFTER = """\
# What it does.

apiVersion: noetl.io/v2
kind: Playbook

metadata:
  path: a/b
  name: b

workload: # the inputs
  z: 1
    # below z
  a: "yes"

workflow:
  # about the step
  - step: first
    tool:
      - name: fetch
        kind: http

        url: 'https://example.org'
        set_ctx: { b: 1, a: 2 }
        # how often
        spec: {policy:   {rules: []}}   # kept
      # in between
      - choose:
          - when: "{{ true }}"
            then:
              - name: decide
                kind: python
                code: |
                  # program text
                  if x:
                      y = 1
    x-note: mine
    next: { arcs: [{ step: last }] }   # where to

  - step: last
    tool: { kind: noop, name: in_braces }
x-own: 1
# the end
"""


def test_keys_of_the_root_of_steps_and_of_tasks_come_in_the_order_of_the_reference() -> None:
    assert formatted(BEFORE) == AFTER
    assert formatted(AFTER) == AFTER


def test_line_ends_are_those_of_the_text() -> None:
    assert formatted(BEFORE.replace("\n", "\r\n")) == AFTER.replace("\n", "\r\n")
    assert formatted(AFTER[:-1]) == AFTER
    ends_with_code = HEAD + "workflow:\n- step: a\n  tool:\n    kind: python\n    code: |\n      result = 1"
    assert formatted(ends_with_code).endswith("        result = 1")  # a line end would be one of the program's


HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: a, path: a }\n"


def test_a_document_in_braces_stays_as_it_is() -> None:
    text = '{"kind": "Playbook", "apiVersion": "noetl.io/v2"}'
    assert formatted(text) == text


def test_text_that_cannot_be_read_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidPlaybook, match=r"flow\.yaml:4:1 E103"):
        formatted(HEAD + "kind: Playbook\n", "flow.yaml")


def test_a_playbook_with_errors_is_formatted() -> None:
    assert formatted(HEAD + "workflow:\n- next: {}\n  tools: {}\n  step: a\n") == (
        HEAD + "workflow:\n  - step: a\n    next: {}\n    tools: {}\n"
    )


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda text: text.replace("'https://example.org'", "'https://example.com'"), r"flow\.yaml:13:12 the value would change"),
        (lambda text: text.replace("z: 1", "z: true"), r"flow\.yaml:37:8 the value would change"),
        (lambda text: text.replace("# in between", ""), r"flow\.yaml:18:1 the comment would be lost"),
        (lambda text: text.replace("step: last }", "step: [last"), r"flow\.yaml: the file stays as it is: did not find"),
    ],
)
def test_a_rewrite_that_loses_or_changes_content_is_refused_with_its_place(
    broken: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`broken`: an error in writing, which must not reach the file."""
    monkeypatch.setattr(formatting, "write", lambda document: broken(write(document)))
    with pytest.raises(NotFormatted, match=message):
        formatted(BEFORE, "flow.yaml")


def test_an_anchor_that_would_come_after_its_alias_is_refused() -> None:
    text = HEAD + "workflow:\n  - next: &to { arcs: [] }\n    step: a\n    compensate: *to\n"
    with pytest.raises(NotFormatted, match="no anchor &to before this alias"):
        formatted(text)


def test_a_key_that_the_layout_has_no_form_for_is_refused() -> None:
    with pytest.raises(NotFormatted, match="did not find expected key"):
        formatted(HEAD + "workload:\n  b: 1\n  ? ''\n  : 1\n")
    assert '  "a\\nb": 1\n' in formatted(HEAD + "workload:\n  ? 'a\n\n    b'\n  : 1\n")


def test_the_examples_are_formatted() -> None:
    for file in sorted((ROOT / "examples").glob("*/playbook.yaml")):
        text = file.read_text()
        assert formatted(text, str(file)) == text, file


# --- properties ---------------------------------------------------------------------------------------------------------


def is_kept(text: str, where: str) -> None:
    """Assert that a text keeps its values, its comments and the order of keys that the reference does not order."""
    new = formatted(text, where)
    assert without_order(plain(new)) == without_order(plain(text)), where
    assert formatted(new, where) == new, where
    assert Counter(comment for _, comment in comments(new)) == Counter(comment for _, comment in comments(text)), where


def plain(text: str) -> Any:
    root = load(text).root
    assert root is not None
    return root.plain()


def without_order(playbook: Any) -> str:
    """A playbook as text, in which only the order of the root, of steps and of tasks does not show."""
    return json.dumps({key: sorted_tasks(playbook[key], key) for key in sorted(playbook)})


def sorted_tasks(value: Any, place: str) -> Any:
    """Sort what is ordered: mappings in the workflow and the workbook that name a step or a kind of task."""
    if isinstance(value, dict):
        keys = sorted(value) if place in ("workflow", "workbook") and value.keys() & {"step", "kind"} else list(value)
        return {key: sorted_tasks(value[key], place) for key in keys}
    return [sorted_tasks(item, place) for item in value] if isinstance(value, list) else value


@pytest.mark.nightly
@pytest.mark.sized
def test_playbooks_of_the_documents_and_of_the_conformance_cases_are_kept() -> None:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    found = [(str(page), match[2]) for page in pages for match in BLOCK.finditer(page.read_text()) if match[1] == "yaml"]
    texts = [(where, completed(text)) for where, text in found if re.match(r"apiVersion|- |(#.*\n)*- step|work|exec|key", text)]
    texts += [(case.id, case.text) for case in all_cases()]
    assert len(texts) > 500
    for where, text in some(texts, 8):
        is_kept(text, where)


@pytest.mark.sized
def test_a_playbook_in_any_layout_with_comments_anywhere_is_kept() -> None:
    chance = Random(SEED)
    for case in some(all_cases(), 12):
        plain = yaml.safe_load(case.text)
        text = yaml.dump(shuffled(plain, chance), sort_keys=False, indent=chance.randint(2, 4), allow_unicode=True)
        lines = text.split("\n")
        for n in range(chance.randint(0, 4)):
            lines.insert(chance.randrange(len(lines)), " " * chance.randrange(12) + chance.choice(["", f"# comment {n}"]))
        text = "\n".join(lines)
        if not any(diagnostic.severity == "error" for diagnostic in load(text).diagnostics):  # not within a text of several lines
            is_kept(text, case.id)


def shuffled(value: Any, chance: Random) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(value[key], chance) for key in chance.sample(list(value), len(value))}
    return [shuffled(item, chance) for item in value] if isinstance(value, list) else value
