"""A path whose word mixes scripts looks like another one: `rеports` with a Cyrillic е is not `reports`."""

from __future__ import annotations

import pytest

from noetl_core.dsl.parse import parse_playbook
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: x, path: %s}
workflow: [{step: start, tool: {kind: noop}}]
"""


@pytest.mark.parametrize("path", ["team/r\u0435ports", "\u0430pi", "a/\u03bfrders", "\uff41pi/x\uff41"])
def test_a_word_of_several_scripts_is_refused_where_it_stands(path: str) -> None:
    with pytest.raises(InvalidPlaybook) as refused:
        parse_playbook(PLAYBOOK % path)
    (found,) = refused.value.diagnostics
    assert (found.code, found.line) == ("E115", 3)
    assert "mixes alphabets in the word" in found.message and found.message.isascii() == path.isascii()
    assert "\\u" in found.message, "which letter it is can be seen"


@pytest.mark.parametrize(
    "path", ["reports", "отчёты/неделя", "team/отчёты-v2", "café/über", "売上レポート", "東京/tokyo東京", "한국어", "αβγ_1/x"]
)
def test_other_paths_are_paths(path: str) -> None:
    assert parse_playbook(PLAYBOOK % path).path == path


def test_a_playbook_that_is_called_by_such_a_path_is_refused_too() -> None:
    called = PLAYBOOK.replace("{kind: noop}", "{kind: playbook, path: r\u0435ports}") % "caller"
    with pytest.raises(InvalidPlaybook, match="E115"):
        parse_playbook(called)
