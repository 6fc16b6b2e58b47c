"""Builds playbooks whose executions have a requested length."""

from __future__ import annotations

from typing import Any

LAPS = 700
"""Two steps each: more runs, and three times as many commits, as a view reads."""
FAILS, SLOW = 350, 500
WITH_START = 2 * LAPS + 1

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"


def loop(items: int, where: str) -> list[dict[str, Any]]:
    spec = {"mode": "parallel", "max_in_flight": 2, "policy": {"exec": where}}
    return [
        {
            "step": "map",
            "loop": {"in": f"{{{{ range({items}) | list }}}}", "iterator": "n", "spec": spec},
            "tool": {"kind": "noop"},
        }
    ]


def chain(steps: int) -> list[dict[str, Any]]:
    return [
        {
            "step": f"s{i}",
            "tool": {"kind": "noop", "result": i},
            "next": {"arcs": [{"step": f"s{i + 1}"}] if i + 1 < steps else []},
        }
        for i in range(steps)
    ]


def laps() -> list[dict[str, Any]]:
    """A step that follows itself by way of another one, which fails in one lap and waits in another."""
    n = "{{ (args.n | default(0)) }}"
    return [
        {"step": "start", "tool": {"kind": "noop"}, "next": {"arcs": [{"step": "a"}]}},
        {
            "step": "a",
            "tool": [
                {"slow": {"kind": "wait", "seconds": f"{{{{ 0.4 if (args.n | default(0)) == {SLOW} else 0 }}}}"}},
                {"given": {"kind": "noop", "result": n}},
            ],
            "next": {"arcs": [{"step": "b", "args": {"n": "{{ event.result }}"}}]},
        },
        {
            "step": "b",
            "tool": {"kind": "noop", "result": f"{{{{ 1 / 0 if args.n == {FAILS} else args.n + 1 }}}}"},
            "next": {
                "arcs": [
                    {"step": "a", "when": "{{ event.name == 'step.failed' }}", "args": {"n": FAILS + 1}},
                    {"step": "a", "when": f"{{{{ event.result < {LAPS} }}}}", "args": {"n": "{{ event.result }}"}},
                ]
            },
        },
    ]
