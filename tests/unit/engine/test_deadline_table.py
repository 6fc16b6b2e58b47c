"""Decisions about time: deadlines, what is woken when, and when the sweeper reconciles next."""

from __future__ import annotations

import pytest

from noetl_core.engine.dispatch.effects import next_reconciliation
from tests.unit.engine.table_text import SECOND, START
from tests.unit.engine.tables import (
    History,
    News,
    Row,
    Table,
    at,
    both,
    cases,
    done,
    fact,
    failed,
    parsed,
    signal,
    sliced,
    suspended,
    timer,
)

LATE = {"kind": "timeout", "message": "late", "retryable": False}

LIMITS = Table(
    """
    - step: start
      spec: { policy: { lifecycle: { timeout_s: 60, deadline_s: 90 } } }
      tool: { kind: noop }
      next: { arcs: [{ step: after }] }
    - step: after
      spec: { policy: { lifecycle: { timeout_s: "{{ args.seconds or 5 }}" } } }
      tool: { kind: noop }
    """,
    [
        Row(
            "the deadlines of the whole and of the first run are woken for at the start",
            None,
            """
            PlaybookExecutionRequested tables/t
            PlaybookRequestEvaluated
            WorkflowStarted start
            TokenEnqueued start
            TokenClaimed start
            StepScheduled start
            => head running
            => send start
            => wake at day 30
            => wake at 600 s
            => wake at 60 s
            => wake at 90 s
            """,
        ),
        Row(
            "a run's limit by an expression is recorded when it is scheduled",
            both(at(10), done("start")),
            """
            BoundaryRouted start ok
            NextEvaluated start -> after
            TokenEnqueued after
            TokenClaimed after
            StepScheduled after timeout_s=5.0
            => send after
            => wake at 15 s
            """,
        ),
        Row(
            "a run that is late is ended by its boundary like any other",
            failed("start", "timeout"),
            """
            BoundaryRouted start failed timeout
            NextEvaluated start -> nothing unhandled=timeout
            WorkflowFinished failed timeout
            PlaybookProcessed failed
            => head failed: timeout
            => handle the failure
            => not due
            """,
        ),
        Row(
            "the whole is late: nothing new starts, what runs is ended by its boundary",
            fact("fail", error={**LATE, "fatal": True}),
            "ExecutionFailing timeout fatal",
        ),
        Row(
            "the whole was late: with its last run it ends, and arcs do not take that up",
            failed("start", "timeout"),
            """
            BoundaryRouted start failed timeout
            NextEvaluated start -> nothing unhandled=timeout
            WorkflowFinished failed timeout
            PlaybookProcessed failed
            => head failed: timeout
            => handle the failure
            => not due
            """,
            before=[fact("fail", error={**LATE, "fatal": True})],
        ),
        Row("a wake before anything is late does nothing", at(30), "nothing"),
        Row(
            "after a pause every deadline is woken for anew",
            fact("resume"),
            """
            ExecutionResumed
            => due at 90 s
            => send start without context
            => wake at day 30
            => wake at 600 s
            => wake at 60 s
            => wake at 90 s
            => head running
            """,
            before=[fact("pause")],
        ),
        Row(
            "a run that goes on after a wait keeps its deadline",
            at(20),
            """
            TimerFired start timer
            ResumeScheduled start timer
            => due at 110 s
            => send start (resume) without context
            => wake at 60 s
            => wake at 90 s
            """,
            before=[suspended("start", timer(20))],
        ),
    ],
    head="executor: { spec: { policy: { lifecycle: { timeout_s: 600 } } } }\n",
)

BY_EXPRESSION = Table(
    "- { step: start, tool: { kind: noop } }\n",
    [
        Row(
            "the whole's limit by an expression is recorded at the start",
            None,
            """
            PlaybookExecutionRequested tables/t
            PlaybookRequestEvaluated
            WorkflowStarted start timeout_s=60.0
            TokenEnqueued start
            TokenClaimed start
            StepScheduled start
            => head running
            => send start
            => wake at day 30
            => wake at 60 s
            """,
        )
    ],
    head='workload: { most: 30 }\nexecutor: { spec: { policy: { lifecycle: { timeout_s: "{{ workload.most * 2 }}" } } } }\n',
)

WRONG = Table(
    """
    - step: start
      spec: { policy: { lifecycle: { timeout_s: "{{ 'soon' }}" } } }
      tool: { kind: noop }
      next: { arcs: [{ step: instead, when: "{{ event.error.kind == 'template' }}" }] }
    - { step: instead, tool: { kind: noop } }
    """,
    [
        Row(
            "a limit that is no number fails the step before a worker is asked, and its arcs may take that up",
            None,
            """
            PlaybookExecutionRequested tables/t
            PlaybookRequestEvaluated
            WorkflowStarted start
            TokenEnqueued start
            TokenClaimed start
            StepScheduled start
            StepFailed start
            NextEvaluated start -> nothing unhandled=schema
            WorkflowFinished failed schema
            PlaybookProcessed failed
            => head failed: schema
            => handle the failure
            => not due
            """,
        )
    ],
)

CHUNKS = Table(
    """
    - step: each
      spec: { policy: { lifecycle: { timeout_s: 60 } } }
      loop: { in: [1, 2], iterator: n, spec: { mode: parallel, policy: { exec: distributed } } }
      tool: { kind: noop }
    """,
    [
        Row(
            "a chunk ends with its step: the deadline of all chunks is the step's, and is woken for once",
            both(at(10), sliced("each", items=2, size=1)),
            """
            BoundaryRouted each waits
            LoopSliced each
            LoopChunkScheduled each[0]
            LoopChunkScheduled each[1]
            => send each[0] without context, each[1] without context
            => wake at 60 s
            """,
        )
    ],
)


@pytest.mark.parametrize(**cases(LIMITS, BY_EXPRESSION, WRONG, CHUNKS))
def test_deadlines(table: Table, row: Row) -> None:
    table.check(row)


TIMED = """
- step: start
  spec: { policy: { lifecycle: { timeout_s: 7200 } } }
  tool: { kind: noop }
  next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
- { step: a, tool: { kind: noop } }
- { step: b, tool: { kind: noop } }
"""


@pytest.mark.parametrize(
    ("before", "now", "then"),
    [
        pytest.param([], 0, 55, id="soon while a run may be claimed"),
        pytest.param([], 300, 450, id="later, as what is scheduled ages: half its age"),
        pytest.param([], 3000, 3825, id="at most fifteen ticks later"),
        pytest.param([], 7199, 7200, id="when a deadline ends, if that is before"),
        pytest.param([], 7300, 7301, id="at once when a deadline is over"),
        pytest.param([suspended("start", timer(600))], 10, 600, id="what only waits: when its first timer is due"),
        pytest.param([suspended("start", timer(600))], 700, 701, id="what only waits: at once when it is overdue"),
        pytest.param([suspended("start", timer(9000))], 10, 3610, id="what only waits: at least once an hour"),
        pytest.param([suspended("start", signal("go"))], 10, 3610, id="who waits without a time: once an hour"),
        pytest.param([suspended("start", timer(600)), fact("pause")], 10, 3610, id="a pause stops timers"),
        pytest.param([fact("pause")], 7000, 10600, id="a pause stops deadlines"),
        pytest.param([done("start"), both(at(90), done("a"))], 100, 155, id="the run scheduled last counts"),
    ],
)
def test_the_next_reconciliation_is_at_the_expected_time(before: list[News], now: int, then: int) -> None:
    history = History(parsed(TIMED))
    for news in (None, *before):
        history.decide(news)
    found = next_reconciliation(history.playbook, history.state, START + now * SECOND)
    assert found == START + then * SECOND
