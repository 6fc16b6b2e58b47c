"""Decisions that end what would never end, and what is kept of long ones."""

from __future__ import annotations

import pytest

from tests.unit.engine.tables import Row, Table, cases, done, fact

CYCLE = """
- { step: start, tool: { kind: noop }, next: { arcs: [{ step: start }] } }
"""

VISITS = Table(
    CYCLE,
    [
        Row(
            "a cycle goes on below its limit of visits",
            done("start"),
            """
            BoundaryRouted start ok
            NextEvaluated start -> start
            TokenEnqueued start
            TokenClaimed start#2
            StepScheduled start#2
            => send start#2
            """,
        ),
        Row(
            "a step that was visited too often fails the execution",
            done("start"),
            """
            BoundaryRouted start#2 ok
            NextEvaluated start#2 -> start
            TokenEnqueued start
            TokenExpired start (limit)
            ExecutionFailing limit fatal
            WorkflowFinished failed limit
            PlaybookProcessed failed
            => head failed: limit
            => handle the failure
            => not due
            """,
            before=[done("start")],
        ),
    ],
    head="executor: { spec: { policy: { limits: { max_step_visits: 2 } } } }\n",
)

COMMITS = Table(
    CYCLE,
    [
        Row(
            "a commit below the limit goes on",
            done("start"),
            """
            BoundaryRouted start ok
            NextEvaluated start -> start
            TokenEnqueued start
            TokenClaimed start#2
            StepScheduled start#2
            => send start#2
            """,
        ),
        Row(
            "an execution of too many commits fails",
            done("start"),
            """
            BoundaryRouted start#2 ok
            NextEvaluated start#2 -> start
            TokenEnqueued start
            ExecutionFailing limit fatal
            TokenExpired start (ended)
            WorkflowFinished failed limit
            PlaybookProcessed failed
            => head failed: limit
            => handle the failure
            => not due
            """,
            before=[done("start")],
        ),
        Row(
            "a limit is met once: what runs meanwhile is finished",
            fact("signal", id="s", name="x"),
            """
            SignalReceived x
            ExecutionFailing limit fatal
            """,
            before=[done("start")],
        ),
    ],
    head="executor: { spec: { policy: { limits: { max_commits: 2 } } } }\n",
)

TOKENS = Table(
    """
    - step: start
      tool: { kind: noop }
      next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: a }, { step: a }] }
    - { step: a, tool: { kind: noop } }
    """,
    [
        Row(
            "an execution of too many tokens fails before they move",
            done("start"),
            """
            BoundaryRouted start ok
            NextEvaluated start -> a, a, a
            TokenEnqueued a
            TokenEnqueued a
            TokenEnqueued a
            ExecutionFailing limit fatal
            TokenExpired a (ended)
            TokenExpired a (ended)
            TokenExpired a (ended)
            WorkflowFinished failed limit
            PlaybookProcessed failed
            => head failed: limit
            => handle the failure
            => not due
            """,
        )
    ],
    head="executor: { spec: { policy: { limits: { max_tokens: 2 } } } }\n",
)


@pytest.mark.parametrize(**cases(VISITS, COMMITS, TOKENS))
def test_limits(table: Table, row: Row) -> None:
    table.check(row)
