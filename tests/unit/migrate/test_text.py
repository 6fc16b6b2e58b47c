"""Text that is not rewritten stays as the author wrote it: quotes, folds, blocks, indentation, anchors, comments, line ends."""

from __future__ import annotations

import pytest
import yaml
from ruamel.yaml import YAML
from ruamel.yaml.tokens import CommentToken

from noetl_core.dsl.parse import parse_playbook
from noetl_migrate import migrate
from noetl_migrate.reading import comments, read
from noetl_migrate.write import quoted, write
from tests.unit.migrate.legacy import HEAD, canonical

KEPT = (
    HEAD
    + """
workload:   # inputs
  "quoted key": 'it''s'
  folded: >-
    one
    two

  literal: |+
    # no comment
      deeper

  flow: { a: [1,2,   3], b: "x # no comment" }   # a comment
# between the sections
  # at an odd column

workflow:

  # about the step
  - step: fetch   # called fetch
    desc: >
      Long
      text
    tool:
      # about the task
      - load:
          kind: python
          args: {data: "{{ workload.folded }}"}   # what goes in
          code: |
            # program text
            result = [x for x in data
                      if x]
          eval:
            # when it fails
            - expr: >-
                {{ outcome.status == 'error'
                   and outcome.error.kind != 'python' }}
              do: retry   # again
              attempts: 2
            # what else
            - else:
                # always
                do: continue
      # after the tasks
    next:   # where to
      - end   # the only target
  - step: end
    tool: {kind: noop}   # untouched
# the end
"""
)


def test_a_rewritten_step_keeps_its_words_and_everything_else_its_bytes() -> None:
    text = canonical(KEPT)
    before, after = KEPT.index("    tool:\n"), KEPT.index("  - step: end")
    assert text.startswith(KEPT[:before])
    assert text.endswith(KEPT[after:])
    assert (
        text[before : text.index("\n  - step: end") + 1]
        == """\
    tool:
      # about the task
      - name: load
        kind: python
        args: {data: "{{ workload.folded }}"}   # what goes in
        code: |
          # program text
          result = [x for x in data
                    if x]
        spec:
          policy:
            rules:
              # when it fails
              - when: >-
                  {{ outcome.status == 'error'
                     and outcome.error.kind != 'python' }}
                then:
                  do: retry   # again
                  attempts: 2
              # what else
              - else:
                  then:
                    # always
                    do: continue
      # after the tasks
    next:   # where to
      arcs:
        - step: end   # the only target
"""
    )


def comment_tokens(text: str) -> list[str]:
    """The comments as ruamel.yaml finds them."""
    found: list[str] = []

    def collect(comment: object) -> None:
        if isinstance(comment, CommentToken):
            found.extend(line.strip() for line in comment.value.splitlines() if line.strip())
        elif isinstance(comment, list | tuple):
            for part in comment:
                collect(part)

    for token in YAML().scan(text):
        collect(getattr(token, "_comment", None))
    return sorted(found)


def test_the_comments_are_those_that_ruamel_finds() -> None:
    text = canonical(KEPT)
    assert sorted(c for _, c in comments(KEPT)) == comment_tokens(KEPT)
    assert comment_tokens(text) == comment_tokens(KEPT)


def test_order_of_keys_is_kept() -> None:
    text = (
        HEAD
        + "workflow:\n  - tool: { kind: noop }\n    next: b\n    x-note: 1\n    step: a\n    when: '{{ true }}'\n    desc: d\n  - { step: b, tool: { kind: noop } }\n"
    )
    step = yaml.safe_load(canonical(text))["workflow"][0]
    assert list(step) == ["tool", "next", "x-note", "step", "spec", "desc"]


@pytest.mark.parametrize("style", ["{}", "'{}'", '"{}"', ">-\n        {}", "|-\n        {}"])
def test_renamed_variables_keep_the_quotes_of_their_text(style: str) -> None:
    expression = '{{ vars.a }} and {{ vars["a"] }}'.replace('"', "'") if style != "'{}'" else "{{ vars.a }} and {{ vars.a }}"
    if style == "{}":
        expression = "a {{ vars.a }} and {{ vars.a }}"
    text = (
        HEAD
        + f"vars: {{ a: 1 }}\nworkflow:\n  - step: a\n    tool:\n      kind: noop\n      result: {style.format(expression)}\n"
    )
    new = canonical(text)
    changed = style.format(expression.replace("vars['a']", "ctx.a").replace("vars.a", "ctx.a"))
    assert f"      result: {changed}\n" in new


def test_escapes_are_written_anew() -> None:
    text = HEAD + 'vars: { a: 1 }\nworkflow:\n  - step: a\n    tool: { kind: noop, result: "\\u00e9\\n{{ vars.a }}" }\n'
    assert parse_playbook(canonical(text)).by_name["a"].tasks[0].inputs["result"] == "é\n{{ ctx.a }}"


def test_list_items_stand_where_the_author_puts_them() -> None:
    text = HEAD + "workflow:\n- step: a\n  tool:\n  - t:\n      kind: noop\n      eval:\n      - else:\n          do: break\n"
    assert canonical(text).endswith(
        "workflow:\n- step: a\n  tool:\n  - name: t\n    kind: noop\n    spec:\n      policy:\n        rules:\n        - else:\n"
        "            then: { do: break }\n"
    )


def test_playbooks_in_flow_style_and_in_json_become_block_style() -> None:
    text = '{"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "a", "path": "a"}, "workflow": [{"step": "a", "tool": {"kind": "noop"}, "next": []}]}'
    assert canonical(text) == (
        '"apiVersion": "noetl.io/v2"\n"kind": "Playbook"\n"metadata": {"name": "a", "path": "a"}\n"workflow":\n'
        '  - "step": "a"\n    "tool": {"kind": "noop"}\n'
    )


def test_rules_behind_an_alias_are_copied_and_the_anchor_stays() -> None:
    text = HEAD + (
        "x-rules: &rules\n  - expr: \"{{ outcome.status == 'error' }}\"\n    do: fail\n"
        "workflow:\n  - step: a\n    tool:\n      - one: { kind: noop, eval: *rules }\n      - two: { kind: noop, eval: *rules }\n"
    )
    playbook = parse_playbook(canonical(text))
    assert canonical(text).startswith(text[: text.index("workflow")])
    assert [[r.then.do for r in t.policy.rules] for t in playbook.steps[0].tasks if t.policy] == [
        ["fail", "fail", "continue"]
    ] * 2


def test_a_step_merged_in_is_not_guessed() -> None:
    text = (
        HEAD
        + "x-base: &base { when: '{{ ctx.a }}' }\nworkflow:\n  - { step: a, <<: *base, next: b, tool: { kind: noop } }\n  - { step: b }\n"
    )
    assert [d.message for d in migrate(text).diagnostics] == ["a legacy step made by a merge key"]


def test_line_ends_of_windows_are_kept() -> None:
    text = KEPT.replace("\n", "\r\n")
    new = migrate(text).text
    assert new == migrate(KEPT).text.replace("\n", "\r\n")


@pytest.mark.parametrize("text", [KEPT, HEAD + "workflow: []\n# x\n\n# y\n", "---\n" + HEAD + "workflow: []\n"])
def test_an_unchanged_document_is_written_byte_for_byte(text: str) -> None:
    document = read(text)
    assert document is not None
    assert write(document) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"), ("yes", '"yes"'), ("012", '"012"'), ("null", '"null"'), ("1e3", '"1e3"'), ("", '""'), ("a: b", '"a: b"'),
        ('say "x"', "'say \"x\"'"), ("it's \"x\"", '"it\'s \\"x\\""'), ("tab\t", '"tab\\t"'), (None, "null"), (True, "true"), (1.5, "1.5"),
    ],
)  # fmt: skip
def test_new_scalars_read_back_as_they_are(value: object, text: str) -> None:
    assert quoted(value) == text


def test_comments_of_rewritten_entries_stand_above_the_new_entries() -> None:
    text = HEAD + (
        "workflow:\n"
        "  - step: load   # the step\n"
        "    tool: { kind: http, url: u }   # the tool\n"
        "    case:   # what comes of it\n"
        "      # the first\n"
        "      - when: \"{{ event.name == 'call.done' and response is defined }}\"   # when\n"
        "        # then\n"
        "        then: { set: { a: 1 },   # the write\n"
        "                next: [{ step: end }] }\n"
        "      - when: \"{{ event.name == 'step.exit' and ctx.a }}\"   # at the end\n"
        "        then: { next: [{ step: end }] }\n"
        "    next:\n"
        "      # the default\n"
        "      end   # and its name\n"
        "  - { step: end, next: [] }   # the last\n"
        "# foot\n"
    )
    lines = canonical(text).splitlines()
    at = {line.strip()[2:]: n for n, line in enumerate(lines) if line.strip().startswith("# ")}
    first = lines.index("      - name: case_1")
    assert [at[c] < first for c in ("what comes of it", "the first", "when", "then", "the write")] == [True] * 5
    assert first - at["what comes of it"] == 5
    assert lines[at["at the end"] + 1].strip() == "- step: end"
    assert lines[at["the default"] + 1].strip() == "next:"
    assert lines[-1] == "# foot"
    assert any(line.endswith("# and its name") for line in lines)


@pytest.mark.parametrize("version", ["noetl.io/v1", '"noetl.io/v1alpha1"'])
def test_the_version_of_an_older_dialect_is_replaced(version: str) -> None:
    text = HEAD.replace("noetl.io/v2", version + "   # as it was", 1) + "workflow: [{ step: a, tool: { kind: noop } }]\n"
    migrated = migrate(text)
    assert (migrated.changed, migrated.diagnostics) == (True, ())
    assert migrated.text == text.replace(version, "noetl.io/v2", 1)
    assert not migrate(migrated.text).changed
