"""Decisions that run an ended execution again."""

from __future__ import annotations

import pytest

from tests.unit.engine.tables import (
    Row,
    Table,
    again,
    both,
    cases,
    done,
    fact,
    failed,
    loop_done,
    redrive,
    sliced,
)

FLOW = Table(
    """
    - { step: start, tool: { kind: noop }, next: { arcs: [{ step: second, args: { n: "{{ event.result }}" } }] } }
    - { step: second, tool: { kind: noop }, next: { arcs: [{ step: third }] } }
    - { step: third, tool: { kind: noop } }
    """,
    [
        Row(
            "a redrive runs again what failed, with the args it had",
            redrive(),
            """
            ExecutionRedriven again=second
            TokenEnqueued second {'n': 1}
            TokenClaimed second#2
            StepScheduled second#2 {'n': 1}
            => due at 90 s
            => wake at 90 s
            => send second#2
            => wake at day 30
            => wake at 600 s
            => head running
            """,
            before=[done("start", 1), failed("second")],
        ),
        Row(
            "a redrive from a step runs it again, and what came of it",
            redrive("start"),
            """
            ExecutionRedriven again=start
            TokenEnqueued start
            TokenClaimed start#2
            StepScheduled start#2
            => due at 90 s
            => wake at 90 s
            => send start#2
            => wake at day 30
            => wake at 600 s
            => head running
            """,
            before=[done("start", 1), done("second"), done("third")],
        ),
        Row(
            "a redrive may change ctx",
            redrive(ctx={"mended": True}),
            """
            ExecutionRedriven again=second ctx={'mended': True}
            TokenEnqueued second {'n': 1}
            TokenClaimed second#2
            StepScheduled second#2 {'n': 1}
            => due at 90 s
            => wake at 90 s
            => send second#2
            => wake at day 30
            => wake at 600 s
            => head running
            """,
            before=[done("start", 1), failed("second")],
        ),
        Row(
            "a redriven execution goes on as any",
            done("second#2"),
            """
            BoundaryRouted second#2 ok
            NextEvaluated second#2 -> third
            TokenEnqueued third
            TokenClaimed third
            StepScheduled third
            => send third
            """,
            before=[done("start", 1), failed("second"), redrive()],
        ),
        Row(
            "a boundary of what was taken back is a duplicate: open commands are sent again",
            again("second#1"),
            "=> send second#2",
            before=[done("start", 1), failed("second#1"), redrive()],
        ),
        Row(
            "what runs is not redriven: the plan was made on another state",
            both(redrive(), fact("signal", id="s", name="x")),
            "SignalReceived x",
            before=[done("start", 1), failed("second"), redrive()],
        ),
        Row(
            "a redriven execution that has ended again tells it",
            done("third"),
            """
            BoundaryRouted third ok
            NextEvaluated third -> nothing
            WorkflowFinished completed
            PlaybookProcessed completed the result of third
            => head completed
            => not due
            """,
            before=[done("start", 1), failed("second"), redrive(), done("second#2")],
        ),
    ],
    head="executor: { spec: { policy: { lifecycle: { timeout_s: 600 } } } }\n",
)

JOINED = Table(
    """
    - step: start
      next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
    - { step: a, tool: { kind: noop }, next: { arcs: [{ step: meet, args: { a: 1 } }] } }
    - { step: b, tool: { kind: noop }, next: { arcs: [{ step: meet, args: { b: 1 } }] } }
    - { step: meet, spec: { join: all }, tool: { kind: noop } }
    """,
    [
        Row(
            "a step behind a join that is redriven does not wait to be joined again",
            redrive("meet"),
            """
            ExecutionRedriven again=meet
            TokenEnqueued meet {'a': 1, 'b': 1}
            TokenClaimed meet#2
            StepScheduled meet#2 {'a': 1, 'b': 1}
            => due at 90 s
            => wake at 90 s
            => send meet#2
            => wake at day 30
            => head running
            """,
            before=[done("a"), done("b"), done("meet")],
        ),
        Row(
            "a redriven branch meets the token that its join had taken",
            redrive("a"),
            """
            ExecutionRedriven again=a
            TokenEnqueued a
            TokenEnqueued meet {'b': 1}
            TokenClaimed a#2
            StepScheduled a#2
            => due at 90 s
            => wake at 90 s
            => send a#2
            => wake at day 30
            => head running
            """,
            before=[done("a"), done("b"), done("meet")],
        ),
        Row(
            "a redriven branch fires its join with the other's token",
            done("a#2"),
            """
            BoundaryRouted a#2 ok
            NextEvaluated a#2 -> meet
            TokenEnqueued meet {'a': 1}
            TokenEnqueued meet {'a': 1, 'b': 1} joined
            TokenClaimed meet#2
            StepScheduled meet#2 {'a': 1, 'b': 1}
            => send meet#2
            """,
            before=[done("a"), done("b"), done("meet"), redrive("a")],
        ),
    ],
)

CHUNKS = Table(
    """
    - step: each
      loop: { in: "{{ range(6) }}", iterator: n, spec: { mode: parallel, policy: { exec: distributed } } }
      tool: { kind: noop }
    """,
    [
        Row(
            "a redriven loop runs its failed chunks again, and keeps the others",
            redrive(),
            """
            ExecutionRedriven again=each
            TokenEnqueued each
            TokenClaimed each#2
            StepScheduled each#2
            LoopSliced each#2
            LoopChunkScheduled each#2[1]
            => due at 90 s
            => wake at 90 s
            => send each#2[1]
            => wake at day 30
            => head running
            """,
            before=[
                sliced("each", items=6, size=2, window=3),
                loop_done("each[0]", 2, result=[0, 1]),
                loop_done("each[2]", 2, result=[4, 5]),
                loop_done("each[1]", 2, failures=1, error={"kind": "timeout", "message": "late"}),
            ],
        ),
        Row(
            "a redriven loop is done with the chunks it kept and those that ran again",
            loop_done("each#2[1]", 2, result=[2, 3]),
            """
            BoundaryRouted each#2[1] loop
            LoopDone each#2 6/6/0 [0, 1, 2, 3, 4, 5]
            NextEvaluated each#2 -> nothing
            WorkflowFinished completed
            PlaybookProcessed completed [0, 1, 2, 3, 4, 5]
            => head completed
            => not due
            """,
            before=[
                sliced("each", items=6, size=2, window=3),
                loop_done("each[0]", 2, result=[0, 1]),
                loop_done("each[2]", 2, result=[4, 5]),
                loop_done("each[1]", 2, failures=1, error={"kind": "timeout", "message": "late"}),
                redrive(),
            ],
        ),
        Row(
            "a redriven loop that chunks carry out asks no worker itself, whatever is sent again",
            fact("resume"),
            """
            ExecutionResumed
            => due at 90 s
            => send each#2[1] without context
            => wake at day 30
            => head running
            """,
            before=[
                sliced("each", items=6, size=2, window=3),
                loop_done("each[0]", 2, result=[0, 1]),
                loop_done("each[2]", 2, result=[4, 5]),
                loop_done("each[1]", 2, failures=1, error={"kind": "timeout", "message": "late"}),
                redrive(),
                fact("pause"),
            ],
        ),
    ],
)


@pytest.mark.parametrize(**cases(FLOW, JOINED, CHUNKS))
def test_redrive(table: Table, row: Row) -> None:
    table.check(row)
