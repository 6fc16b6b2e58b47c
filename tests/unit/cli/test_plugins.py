"""`noetl validate` where a kind's distribution is not installed."""

from __future__ import annotations

import pytest

from noetl_cli.inputs.plugins import absent
from noetl_core.dsl.parse import parse_playbook
from tests.plugins import install_only
from tests.unit.dsl.broken_playbooks import flow

USED = flow(
    "step: a\ntool: {kind: snowflake, auth: w, command: SELECT 1}\nnext: {arcs: [{step: b}]}",
    "step: b\ntool: {kind: transfer, source: {kind: snowflake, auth: w, query: q}, target: {kind: duckdb, database: d, table: t}}\n"
    "compensate: {kind: container, task_definition: undo}",
)


def test_missing_kinds_are_reported_with_the_distribution_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    playbook = parse_playbook(USED)
    assert list(absent(playbook, "flow.yaml")) == []
    install_only(monkeypatch)
    found = list(absent(playbook, "flow.yaml"))
    assert [(d.severity, d.line, d.message) for d in found] == [
        ("note", 6, 'kind snowflake of task "a_task" is in noetl-snowflake, which is not installed here'),
        ("note", 9, 'kind snowflake of task "b_task" is in noetl-snowflake, which is not installed here'),
        ("note", 10, 'kind container of task "b_task" is in noetl-container, which is not installed here'),
    ]
    assert all("noetl up --tools noetl-" in d.hint for d in found)


def test_built_in_kinds_do_not_search_installed_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: pytest.fail("it was looked for"))
    assert list(absent(parse_playbook(flow("step: a\ntool: {kind: noop}")), "flow.yaml")) == []
