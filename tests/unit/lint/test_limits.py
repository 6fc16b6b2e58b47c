"""W520: loops that are longer than a loop may be, and those that are not."""

from __future__ import annotations

import pytest

from noetl_core.dsl.numbers import LOOP_ITEMS
from noetl_core.dsl.parse import check

HEAD = (
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\nworkload: {n: 5000000, few: 3, deep: {n: 2000000}}\n"
)


def found(collection: str) -> list[str]:
    text = f"""{HEAD}workflow:
  - step: a
    loop: {{ in: {collection}, iterator: i }}
    tool: {{ kind: noop, result: "{{{{ [iter.i, workload.n, workload.few, workload.deep] }}}}" }}
"""
    return [f"{d.line}:{d.col} {d.message}" for d in check(text)[1] if d.code == "W520"]


@pytest.mark.parametrize(
    "collection",
    [
        "range(1000001)",
        "range(1000001) | list",
        "range(10, 5000000)",
        "range(0, -5000000, -2)",
        "[1] + (range(2000000) | list)",
        "range(workload.n)",
        "range(workload.few, workload.deep.n)",
        "range(99999999999999999999)",
    ],
)
def test_a_loop_over_a_range_above_the_limit_is_reported(collection: str) -> None:
    (finding,) = found(f'"{{{{ {collection} }}}}"')
    assert finding.startswith("7:") and "a loop takes at most 1,000,000" in finding
    assert ("(by the default of workload." in finding) == ("workload" in collection)


@pytest.mark.parametrize(
    "collection",
    [
        "range(1000000)",
        "range(0, 5000000, 5)",
        "range(workload.few)",
        "range(workload.other)",
        "range(args.n)",
        "range(workload.n // 10)",
        "range(0, 5000000, 0)",
        "range()",
        "range(1, 2, 3, 4)",
    ],
)
def test_a_range_within_the_limit_or_of_unknown_length_is_not_reported(collection: str) -> None:
    assert found(f'"{{{{ {collection} }}}}"') == []


def test_a_loop_over_a_list_above_the_limit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LOOP_ITEMS == 1_000_000
    monkeypatch.setattr("noetl_core.dsl.lint.long_loops.LOOP_ITEMS", 3)
    assert found("[1, 2, 3]") == []
    (finding,) = found("[1, 2, 3, 4]")
    assert "has 4 items" in finding


def test_the_limit_is_checked_in_nested_loops() -> None:
    text = f"""{HEAD}workflow:
  - step: a
    loop:
      in: "{{{{ range(10) }}}}"
      iterator: i
      loop: {{ in: "{{{{ range(3000000) }}}}", iterator: j }}
    tool: {{ kind: noop, result: "{{{{ [iter.i, iter.j, workload.n, workload.few, workload.deep] }}}}" }}
"""
    assert [(d.code, d.line) for d in check(text)[1]] == [("W520", 10)]
