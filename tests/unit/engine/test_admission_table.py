"""Decisions on admission: what is let in, skipped, refused, and what waits to be."""

from __future__ import annotations

import pytest

from tests.unit.engine.tables import Row, Table, cases, done

ADMISSION = Table(
    """
    - step: start
      tool: { kind: noop }
      next:
        spec: { mode: inclusive }
        arcs: [{ step: skipped }, { step: refused }, { step: parked }, { step: free }]
    - step: skipped
      spec: { policy: { admit: { on_deny: skip, rules: [{ else: { then: { allow: false } } }] } } }
      tool: { kind: noop }
    - step: refused
      spec: { policy: { admit: { on_deny: fail, rules: [{ else: { then: { allow: false } } }] } } }
      tool: { kind: noop }
      next: { arcs: [{ step: instead, when: "{{ event.error.kind == 'admission' }}" }] }
    - step: parked
      spec: { policy: { admit: { rules: [{ when: "{{ ctx.open }}", then: { allow: true } }, { else: { then: { allow: false } } }] } } }
      tool: { kind: noop }
    - { step: free, tool: { kind: noop } }
    - { step: instead, tool: { kind: noop } }
    """,
    [
        Row(
            "a token that is not admitted is skipped, fails its step or is parked, as the step says",
            done("start"),
            """
            BoundaryRouted start ok
            NextEvaluated start -> skipped, refused, parked, free
            TokenEnqueued skipped
            TokenEnqueued refused
            TokenEnqueued parked
            TokenEnqueued free
            StepSkipped skipped
            TokenClaimed refused
            StepScheduled refused
            StepFailed refused
            NextEvaluated refused -> instead
            TokenEnqueued instead
            TokenParked parked
            TokenClaimed free
            StepScheduled free
            TokenClaimed instead
            StepScheduled instead
            => send free, instead
            """,
        ),
        Row(
            "a parked token is judged again when ctx changes",
            done("free", set_ctx={"open": True}),
            """
            BoundaryRouted free ok
            CtxPatched {'open': True}
            NextEvaluated free -> nothing
            TokenClaimed parked
            StepScheduled parked
            => send parked
            """,
            before=[done("start")],
        ),
        Row(
            "a parked token stays when ctx does not change",
            done("free"),
            """
            BoundaryRouted free ok
            NextEvaluated free -> nothing
            """,
            before=[done("start")],
        ),
        Row(
            "what stays denied when nothing runs expires",
            done("instead"),
            """
            BoundaryRouted instead ok
            NextEvaluated instead -> nothing
            TokenExpired parked (denied)
            WorkflowFinished completed
            PlaybookProcessed completed the result of instead
            => head completed
            => not due
            """,
            before=[done("start"), done("free")],
        ),
    ],
)


@pytest.mark.parametrize(**cases(ADMISSION))
def test_admission(table: Table, row: Row) -> None:
    table.check(row)
