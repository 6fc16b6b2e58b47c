"""Calls of `kind: playbook` are checked at the place that names the called playbook."""

from __future__ import annotations

import pytest

from noetl_core.dsl.parse import check, parse_playbook

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: p, path: p }}
workload: {{ v: 3 }}
workflow:
  - step: start
    tool: {{ kind: playbook, {called} }}
"""


def found(called: str) -> list[str]:
    return [str(one) for one in check(PLAYBOOK.format(called=called))[1] if one.code.startswith("E")]


@pytest.mark.parametrize(
    ("called", "message"),
    [
        ("path: team/a@", """7:35 E115 path of task "start_task": 'team/a@' has no version after the @"""),
        ("path: team/a@1.5", """E115 path of task "start_task": '1.5' is not a version of a playbook"""),
        ('path: "team/a@pr od"', """E115 path of task "start_task": 'pr od' is not a version of a playbook"""),
        ("path: team//a", 'E115 path of task "start_task": "team//a" is not the path of a playbook'),
        ("path: team/a, version: 1.5", """7:52 E115 version of task "start_task": '1.5' is not a version of a playbook"""),
        (
            "path: team/a@prod, version: 2",
            """E114 path of task "start_task" names version prod, and the key version is 2 (leave one out)""",
        ),
    ],
)
def test_impossible_paths_and_versions_are_reported(called: str, message: str) -> None:
    assert any(message in one for one in found(called)), found(called)


@pytest.mark.parametrize(
    "called",
    [
        "path: team/a",
        "path: /team/a",
        "path: team/a@latest",
        "path: team/a@3",
        "path: team/a@prod, version: null",
        "path: team/a, version: prod",
        'path: "team/a@{{ workload.v }}"',
        'path: team/a, version: "{{ workload.v }}"',
    ],
)
def test_called_playbooks_are_found(called: str) -> None:
    assert found(called) == []


def test_playbooks_registered_before_this_check_are_still_read() -> None:
    assert parse_playbook(PLAYBOOK.format(called="path: team/a@"), programs=False).steps
