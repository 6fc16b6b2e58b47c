"""Playbooks whose steps are summarised."""

from __future__ import annotations

import json
from typing import Any

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"


def source(items: int, where: str, **task: Any) -> str:
    policy = {"exec": where, "failure": {"mode": "best_effort"}}
    spec = {"mode": "parallel", "max_in_flight": 4, "policy": policy}
    loop = {"in": f"{{{{ range({items}) | list }}}}", "iterator": "n", "spec": spec}
    step = {"step": "map", "loop": loop, "tool": {"kind": "noop", **task}}
    end = {"step": "end", "tool": {"kind": "noop"}}
    return HEAD + f"workflow: {json.dumps([{**step, 'next': {'arcs': [{'step': 'end'}]}}, end])}\n"
