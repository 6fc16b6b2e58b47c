"""`docs/language/migrate.md` shows what the command does: each pair is a text and what it becomes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl_core.dsl.parse import check
from noetl_migrate import migrate
from tests.unit.docs.language import BLOCK, completed

PAGE = Path(__file__).parents[3] / "docs/language/migrate.md"
TARGETS = ("report", "notify", "end")
"""Steps that the fragments lead to."""


def blocks() -> list[tuple[str, str, int]]:
    text = PAGE.read_text()
    return [(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in BLOCK.finditer(text) if m[1] != ""]


def whole(block: str) -> str:
    """A playbook: as on the other pages, with the steps it leads to."""
    steps = set(re.findall(r"- step: (\w+)$", block, re.MULTILINE)) if block.startswith("- step:") else set()
    defined = {line.split()[2] for line in block.splitlines() if line.startswith("- step:")}
    missing = [t for t in TARGETS if t not in defined and re.search(rf"\b{t}\b", block)]
    stubs = "".join(f"  - {{ step: {t}, tool: {{ kind: noop }} }}\n" for t in missing)
    return completed(block) + (stubs if steps or defined else "")


PAIRS = [
    (before[1], after[1], before[2])
    for before, after in zip(blocks(), blocks()[1:], strict=False)
    if before[0] == "yaml" and after[0] == "yaml" and before[1] and migrate(whole(before[1])).changed
]


@pytest.mark.parametrize(("before", "after"), [pytest.param(b, a, id=f"line {line}") for b, a, line in PAIRS])
def test_the_second_block_is_the_migration_of_the_first(before: str, after: str) -> None:
    assert migrate(whole(before)).text == whole(after)
    assert check(whole(after))[0] is not None


def test_every_pair_of_blocks_on_the_page_is_tested() -> None:
    yaml = [b for b in blocks() if b[0] == "yaml"]
    assert len(PAIRS) * 2 + 1 == len(yaml)


def test_the_refusal_has_the_message_that_the_page_shows() -> None:
    (_, source, _), (_, told, _) = blocks()[-2:]
    (found,) = migrate(whole(source)).diagnostics
    assert f"{found.code} {found.message} ({found.hint})\n" == told
