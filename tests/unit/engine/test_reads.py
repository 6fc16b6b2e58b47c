"""Selects the finished steps in a command: all that the step's templates can read."""

from __future__ import annotations

import json

import pytest

from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import parse_playbook
from noetl_core.engine.reads import steps_read


def _playbook(**work: object) -> Playbook:
    steps = [
        {"step": name, "tool": {"kind": "noop"}, "next": {"arcs": [{"step": "work"}]}} for name in ("fetch", "clean", "items")
    ]
    workflow = [*steps, {"step": "work", "tool": {"kind": "noop"}, **work}]
    head = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "t", "path": "t"}}
    return parse_playbook(json.dumps({**head, "workflow": workflow}))


def _tool(text: str) -> dict[str, object]:
    return {"tool": {"kind": "noop", "result": text}}


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        pytest.param(_tool("plain text, fetch"), set(), id="no template"),
        pytest.param(_tool("{{ workload.x }}"), set(), id="nothing of steps"),
        pytest.param(_tool("{{ steps.fetch.result.rows[0] }}"), {"fetch"}, id="by attribute"),
        pytest.param(_tool("{{ steps['fetch'].status }}"), {"fetch"}, id="by literal key"),
        pytest.param(_tool("{{ fetch.rows }} and {{ clean }}"), {"fetch", "clean"}, id="bare names"),
        pytest.param(_tool("{% if x %}{% set fetch = 1 %}{% endif %}{{ fetch }}"), {"fetch"}, id="a name that may be bound"),
        pytest.param(_tool("{{ steps[workload.which] }}"), None, id="by computed key"),
        pytest.param(_tool("{{ steps | length }}"), None, id="the whole"),
        pytest.param(_tool("{{ steps.get('fetch') }}"), None, id="by method"),
        pytest.param(_tool("{{ steps.items() | list }}"), None, id="by method, though a step is called so"),
        pytest.param(_tool("{{ steps.other is defined }}"), None, id="no step of that name"),
        pytest.param(_tool("{% set steps = steps %}{{ steps.fetch }}"), None, id="bound to itself"),
        pytest.param({"tool": {"kind": "python", "code": "x = '{{ steps }}'"}}, set(), id="program text"),
        pytest.param(
            {"loop": {"in": "{{ steps.fetch.result }}", "iterator": "x", "spec": {"max_in_flight": "{{ clean }}"}}},
            {"fetch", "clean"},
            id="the loop",
        ),
        pytest.param(
            {
                "tool": [
                    {
                        "name": "a",
                        "kind": "noop",
                        "spec": {
                            "policy": {
                                "rules": [
                                    {"when": "{{ outcome.result == steps.fetch.result }}", "then": {"do": "continue"}},
                                    {"else": {"then": {"do": "continue", "set_iter": {"x": "{{ steps.clean.result }}"}}}},
                                ]
                            }
                        },
                    }
                ]
            },
            {"fetch", "clean"},
            id="policy",
        ),
        pytest.param({"spec": {"timeout": "{{ steps.fetch.result.t }}"}, **_tool("x")}, {"fetch"}, id="timeout"),
    ],
)
def test_a_command_carries_the_steps_its_templates_can_read(work: dict[str, object], expected: set[str] | None) -> None:
    playbook = _playbook(**work)
    assert steps_read(playbook, "work") == expected
    assert steps_read(playbook, "work") == expected  # computed once
