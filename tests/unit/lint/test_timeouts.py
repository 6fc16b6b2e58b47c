"""W535: timeouts that an invocation of a stack's worker cannot keep, each reported once, where it was written."""

from __future__ import annotations

import pytest

from noetl_core.dsl.parse import check
from tests.unit.docs.language import completed

WORKBOOK = "workbook:\n- name: long\n  kind: noop\n{}workflow:\n- step: start\n  {}tool: {{ kind: workbook, task: long }}\n"


def places(text: str) -> list[int]:
    """Return the lines at which W535 is reported, without those that complete the playbook."""
    source = completed(text)
    added = source[: source.index(text)].count("\n")
    return [d.line - added for d in check(source)[1] if d.code == "W535"]


@pytest.mark.parametrize(
    ("entry", "step", "lines"),
    [
        pytest.param("  spec: { timeout: 2h }\n", "", [4], id="of the entry"),
        pytest.param("", "spec: { timeout: 2h }\n  ", [7], id="of the step"),
        pytest.param("  spec: { timeout: 10m }\n", "", [], id="within the limit"),
    ],
)
def test_the_timeout_of_a_workbook_task_is_reported_once(entry: str, step: str, lines: list[int]) -> None:
    assert places(WORKBOOK.format(entry, step)) == lines
