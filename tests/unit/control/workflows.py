"""Workflows of many kinds, by name."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.control.long_playbooks import HEAD, chain, loop

FAN: list[dict[str, Any]] = [
    {
        "step": "start",
        "tool": {"kind": "noop"},
        "next": {"spec": {"mode": "inclusive"}, "arcs": [{"step": "a"}, {"step": "b"}, {"step": "map"}]},
    },
    {"step": "a", "tool": [{"name": "w", "kind": "wait", "seconds": 0.01}, {"name": "n", "kind": "noop"}]},
    {"step": "b", "tool": {"kind": "python", "code": "result = 1"}},
    *loop(40, "distributed"),
]

WORKFLOWS = {"chain": chain(12), "loop": loop(300, "local"), "chunks": loop(300, "distributed"), "fan": FAN}


def source(workflow: list[dict[str, Any]]) -> str:
    return f"{HEAD}workflow: {json.dumps(workflow)}\n"
