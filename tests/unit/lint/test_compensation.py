"""Names are looked at in compensations as in pipelines: their own iterators, tasks and the step's args."""

from __future__ import annotations

from noetl_core.dsl.parse import check

FLOW = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: t, path: test/undo }
workload: { city: Paris, unread: 1 }
workflow:
  - step: start
    args: { a: 1 }
    tool: [{ name: book, kind: noop }]
    compensate:
      loop: { in: "{{ steps.start.result }}", iterator: x }
      tool:
        - { name: undo, kind: noop, result: "{{ iter.x }} {{ args.a }} {{ workload.city }} {{ steps.start.result }}" }
        - { name: tell, kind: noop, result: "{{ undo }} {{ iter.y }} {{ strat.result }}" }
"""


def test_unread_and_unbound_names_in_compensations_are_reported() -> None:
    _, found = check(FLOW)
    assert [(d.code, d.message.split(" in ")[0]) for d in found if d.code.startswith("W5")] == [
        ("W516", "nothing reads workload.unread"),
        ("W515", "nothing binds iter.y"),
        ("W515", 'nothing binds "strat"'),
    ]
