"""Texts that are half typed, long or hostile: every request is answered, whatever an editor holds."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from noetl_core.dsl.reading.load import load
from noetl_lsp.completion import completions
from noetl_lsp.fixes import fixes
from noetl_lsp.hover import hover
from noetl_lsp.keys import Keys
from noetl_lsp.model import analyse
from noetl_lsp.navigation import NotRenamed, definitions, outline, references, rename
from noetl_lsp.outline import chunks
from noetl_lsp.symbols import index
from noetl_lsp.text import Text
from tests.mistakes.cases import cases, child
from tests.unit.docs.language import completed
from tests.unit.lsp.client import Client, position
from tests.unit.lsp.texts import HOSTILE, ORDERS

KEYS = Keys()


def offsets(text: str) -> Iterator[int]:
    chosen = random.Random(7)
    yield from (0, len(text), max(len(text) - 1, 0))
    yield from (chosen.randint(0, len(text)) for _ in range(6))


def everything(text: str, offset: int) -> None:
    completions(text, offset, None, KEYS)
    hover(text, offset, None, KEYS)
    definitions(text, offset)
    references(text, offset)
    outline(text)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_answered_in_time(name: str) -> None:
    text = HOSTILE[name]
    begun = time.process_time()
    for offset in offsets(text):
        everything(text, offset)
        if len(text) < 10_000:
            with suppress(NotRenamed):
                rename(text, offset, "x")
    assert time.process_time() - begun < 10  # a hang, not a slow machine


@pytest.mark.parametrize(
    "name", ["binary", "separators of lines", "byte order mark", "deep nesting", "a bomb of aliases", "line ends of Windows"]
)
def test_the_server_survives_hostile_texts(client: Client, name: str) -> None:
    text = HOSTILE[name]
    client.open(text)
    client.found()
    client.at("hover", len(text) // 2, text)
    client.change(ORDERS)
    assert client.found() == []
    assert client.at("hover", ORDERS.index("do: retry") + 5, ORDERS) is not None


def test_a_text_may_end_anywhere(client: Client) -> None:
    for end in range(0, len(ORDERS), 41):
        everything(ORDERS[:end], end)
        completions(ORDERS[:end] + ORDERS[end + 7 :], end, None, KEYS)


@pytest.mark.parametrize(
    "broken",
    [
        "      - name: keep\n        kin",
        '        result: "{{ page.data',
        "        result: {{ page.data",
        "        resu",
        "        a: b: c",
        "    - x: [1",
    ],
)
def test_a_broken_line_hides_no_other_step(broken: str) -> None:
    text = ORDERS.replace('      - name: keep\n        kind: noop\n        result: "{{ page.data }}"', broken, 1)
    assert load(text).root is None
    assert index(text).names("step") == ["fetch", "count", "done"]
    assert index(text).names("workload") == ["region", "limits", "days"]
    assert "page" in index(text).names("task", "fetch")
    found = references(text, text.index("- step: count\n    tool") + 9)
    assert len(found) == 4


def test_a_text_that_was_never_valid_is_completed() -> None:
    text = "kind: Playbook\nworkload: { region: eu, deep: { inner: 1 } }\nworkflow:\n  - step: first\n    tool:\n      kind: noop\n      result: '{{ workload.deep.¦"
    labels = [item.label for item in completions(text.replace("¦", ""), text.index("¦"), None, KEYS)]
    assert labels == ["inner"]
    text = text.replace("workload.deep.¦", "¦")
    labels = [item.label for item in completions(text.replace("¦", ""), text.index("¦"), None, KEYS)]
    assert {"workload", "region", "steps", "_prev"} <= set(labels)


def test_names_of_a_changed_text_are_those_of_now_with_fields_of_its_last_valid_version() -> None:
    model = analyse(ORDERS, "flow.yaml").model
    moved = ORDERS.replace("  - step: fetch\n", "  - step: first\n    tool: { kind: noop }\n\n  - step: fetch\n")
    moved = moved.replace("region: eu", "area: eu").replace("{{ page.data }}", "{{ page.¦")
    labels = [item.label for item in completions(moved.replace("¦", ""), moved.index("¦"), model, KEYS)]
    assert {"data", "headers"} <= set(labels)
    moved = moved.replace("{{ page.¦", "{{ workload.¦")
    labels = [item.label for item in completions(moved.replace("¦", ""), moved.index("¦"), model, KEYS)]
    assert labels[:3] == ["area", "limits", "days"]


@pytest.mark.parametrize(
    "text", [ORDERS, ORDERS.replace("\n", "\r\n"), "a\rb\r\n\n数📦\n", "📦"], ids=["unix", "windows", "mixed", "one"]
)
def test_positions_and_offsets_belong_together(text: str) -> None:
    lines = Text(text)
    for offset in range(len(text) + 1):
        if text[offset - 1 : offset + 1] == "\r\n" and offset:
            continue  # between the two characters of a line end
        assert lines.offset(lines.position(offset)) == offset
        if "\r" not in text:
            assert lines.position(offset) == tuple(position(text, offset).values())
    assert lines.offset((10_000, 0)) == len(text)
    assert lines.offset((0, 10_000)) == lines.line(0)[1]


def test_every_proposed_word_is_a_quick_fix_that_resolves_its_mistake() -> None:
    resolved = 0
    for case in (case for case in cases() if "did you mean" in case.says):
        text = completed(case.play)
        for found in analyse(text, "flow.yaml", child).diagnostics:
            if "did you mean" not in found.hint:
                continue
            fix = next(fixes(Text(text), found), None)
            assert fix is not None, case.mistake
            assert fix.preferred
            (edit,) = fix.edits
            after = text[: edit.span[0]] + edit.text + text[edit.span[1] :]
            assert str(found) not in map(str, analyse(after, "flow.yaml", child).diagnostics), case.mistake
            resolved += 1
    assert resolved >= 30


def test_typing_reads_only_the_step_that_changes() -> None:
    text = ORDERS + "".join(f"  - step: more_{n}\n    tool: {{ kind: noop, result: {n} }}\n" for n in range(400))
    trees = [id(chunk.tree) for chunk in chunks(text)]
    changed = text.replace("result: 200 ", "result: 201 ")
    assert sum(a != id(chunk.tree) for a, chunk in zip(trees, chunks(changed), strict=True)) == 1
