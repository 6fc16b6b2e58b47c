"""Playbooks of a few lines, and what becomes of them in a test."""

from __future__ import annotations

from typing import Any

from noetl_core.testing.acts import Act
from noetl_core.testing.play import Played, Scene, play

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: here, path: mine/here }\n"
LONG = "executor: { spec: { policy: { lifecycle: { lifetime_s: 31622400 } } } }\n"
FETCH = "workflow:\n  - step: fetch\n    tool: { name: page, kind: http, url: http://shop.example/orders }\n"
RACE = """workflow:
  - step: start
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - step: a
    tool:
      kind: http
      url: http://a.example
      spec: { policy: { rules: [{ when: "{{ outcome.status == 'error' }}", then: { do: retry, delay: 3 } }, { else: { then: { do: continue } } }] } }
    next: { arcs: [{ step: first, args: { winner: a } }] }
  - step: b
    tool: { kind: http, url: http://b.example }
    next: { arcs: [{ step: first, args: { winner: b } }] }
  - step: first
    spec: { join: any }
    tool: { kind: noop, set_ctx: { winner: "{{ args.winner }}" } }
"""


def played(workflow: str, tools: Any = None, *acts: Act, **more: Any) -> Played:
    """Play a playbook of this workflow, and forget its store."""
    execution = play(Scene(HEAD + workflow, tools=tools or {}, acts=acts, **more))
    assert execution.result is not None or execution.ctx is not None  # read while the store is open
    return execution
