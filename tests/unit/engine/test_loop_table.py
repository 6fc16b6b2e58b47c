"""Decisions on loops: in one worker, and cut into chunks that many carry out."""

from __future__ import annotations

import pytest

from tests.unit.engine.tables import (
    History,
    Row,
    Table,
    again,
    at,
    both,
    cases,
    done,
    fact,
    failed,
    loop_done,
    parsed,
    sliced,
    suspended,
)

LOCAL = Table(
    """
    - step: each
      loop: { in: [1, 2, 3], iterator: n }
      tool: { kind: noop }
      next:
        arcs:
          - { step: partly, when: "{{ event.loop.failed > 0 }}", args: { lost: "{{ event.loop.failed }}" } }
          - { step: after }
    - { step: after, tool: { kind: noop } }
    - { step: partly, tool: { kind: noop } }
    """,
    [
        Row(
            "a loop begins as one run",
            None,
            """
            PlaybookExecutionRequested tables/t
            PlaybookRequestEvaluated
            WorkflowStarted each
            TokenEnqueued each
            TokenClaimed each
            StepScheduled each
            LoopStarted each
            => head running
            => send each
            => wake at day 30
            """,
        ),
        Row(
            "the end of a loop is loop.done, with its counts",
            loop_done("each", 3, result=[1, 2, 3]),
            """
            BoundaryRouted each loop
            LoopDone each 3/3/0
            NextEvaluated each -> after
            TokenEnqueued after
            TokenClaimed after
            StepScheduled after
            => send after
            """,
        ),
        Row(
            "arcs read how many iterations failed",
            loop_done("each", 3, failures=1, result=[1, None, 3]),
            """
            BoundaryRouted each loop
            LoopDone each 3/2/1
            NextEvaluated each -> partly
            TokenEnqueued partly {'lost': 1}
            TokenClaimed partly
            StepScheduled partly {'lost': 1}
            => send partly
            """,
        ),
        Row(
            "a loop that failed is step.failed, and still has its counts",
            loop_done("each", 3, failures=3, error={"kind": "timeout", "message": "late"}),
            """
            BoundaryRouted each loop timeout
            LoopDone each 3/0/3 timeout
            NextEvaluated each -> partly
            TokenEnqueued partly {'lost': 3}
            TokenClaimed partly
            StepScheduled partly {'lost': 3}
            => send partly
            """,
        ),
        Row(
            "a loop that could not begin is step.failed",
            failed("each", "template"),
            """
            BoundaryRouted each failed template
            NextEvaluated each -> nothing unhandled=template
            WorkflowFinished failed template
            PlaybookProcessed failed
            => head failed: template
            => handle the failure
            => not due
            """,
        ),
    ],
)

CHUNKS = """
- step: each
  loop:
    in: "{{ range(10) }}"
    iterator: n
    spec: { mode: parallel, policy: { exec: distributed, reducers: { sum: sum }, FAILURE } }
  tool: { kind: noop }
  compensate: { kind: noop }
  next: { arcs: [{ step: after, when: "{{ event.name == 'loop.done' }}" }] }
- { step: after, tool: { kind: noop } }
"""
CUT = sliced("each", items=10, size=4)
"""Three chunks, two of them at a time."""

DISTRIBUTED = Table(
    CHUNKS.replace("FAILURE", "failure: { mode: fail_fast, tolerated_count: 1 }").replace("  compensate: { kind: noop }\n", ""),
    [
        Row(
            "a loop handed over begins with a window of chunks, the lowest first",
            CUT,
            """
            BoundaryRouted each waits
            LoopSliced each
            LoopChunkScheduled each[0]
            LoopChunkScheduled each[1]
            => send each[0] without context, each[1] without context
            """,
        ),
        Row(
            "the window stays full: a chunk that ends makes room for the next",
            loop_done("each[1]", 4, result=[4]),
            """
            BoundaryRouted each[1] loop
            LoopChunkScheduled each[2]
            => send each[2] without context
            """,
            before=[CUT],
        ),
        Row(
            "while chunks run the loop waits",
            loop_done("each[0]", 4, result=[0]),
            "BoundaryRouted each[0] loop",
            before=[CUT, loop_done("each[1]", 4)],
        ),
        Row(
            "with its last chunk a loop is done; its results are in order, whatever order they came in",
            loop_done("each[1]", 4, result=[4, 5, 6, 7]),
            """
            BoundaryRouted each[1] loop
            LoopDone each 10/10/0 [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
            NextEvaluated each -> after
            TokenEnqueued after
            TokenClaimed after
            StepScheduled after
            => send after
            """,
            before=[CUT, loop_done("each[0]", 4, result=[0, 1, 2, 3]), loop_done("each[2]", 2, result=[8, 9])],
        ),
        Row(
            "a chunk's boundary that comes again schedules nothing",
            again("each[1]"),
            "=> send each[0] without context, each[2] without context",
            before=[CUT, loop_done("each[1]", 4)],
        ),
        Row(
            "a chunk that failed stops the loop; what runs is finished",
            loop_done("each[0]", 4, failures=2, error={"kind": "timeout", "message": "late"}),
            "BoundaryRouted each[0] loop timeout",
            before=[CUT],
        ),
        Row(
            "a stopped loop fails with its last open chunk, and with the error of the chunk",
            loop_done("each[1]", 4),
            """
            BoundaryRouted each[1] loop
            LoopDone each 10/6/2 timeout
            NextEvaluated each -> nothing unhandled=timeout
            WorkflowFinished failed timeout
            PlaybookProcessed failed
            => head failed: timeout
            => handle the failure
            => not due
            """,
            before=[CUT, loop_done("each[0]", 4, failures=2, error={"kind": "timeout", "message": "late"})],
        ),
        Row(
            "failures within the tolerance of each chunk are counted together",
            loop_done("each[1]", 4, failures=1),
            """
            BoundaryRouted each[1] loop
            LoopDone each 10/6/2 unknown
            NextEvaluated each -> nothing unhandled=unknown
            WorkflowFinished failed unknown
            PlaybookProcessed failed
            => head failed: unknown
            => handle the failure
            => not due
            """,
            before=[CUT, loop_done("each[0]", 4, failures=1)],
        ),
        Row(
            "a loop that was left by break begins no chunk more, and is done",
            loop_done("each[1]", 4, result=[4, None, None, None]),
            """
            BoundaryRouted each[1] loop
            LoopDone each 10/8/0 [0, 1, 2, 3, 4, None, None, None, None, None]
            NextEvaluated each -> after
            TokenEnqueued after
            TokenClaimed after
            StepScheduled after
            => send after
            """,
            before=[CUT, loop_done("each[0]", 4, broke=True, result=[0, 1, 2, 3])],
        ),
        Row(
            "writes of chunks to ctx merge when the loop ends",
            loop_done("each[0]", 2, result=[0, 1], ctx_writes=[[0, {"sum": 1}], [1, {"sum": 2}]]),
            """
            BoundaryRouted each[0] loop
            CtxPatched {'sum': 10}
            LoopDone each 4/4/0 [0, 1, 2, 3]
            NextEvaluated each -> after
            TokenEnqueued after
            TokenClaimed after
            StepScheduled after
            => send after
            """,
            before=[
                sliced("each", items=4, size=2),
                loop_done("each[1]", 2, result=[2, 3], ctx_writes=[[2, {"sum": 3}], [3, {"sum": 4}]]),
            ],
        ),
        Row(
            "writes that no reducer combines fail the loop",
            loop_done("each[0]", 2, ctx_writes=[[0, {"last": 1}]]),
            """
            BoundaryRouted each[0] loop
            LoopDone each 4/4/0 ctx_conflict
            NextEvaluated each -> nothing unhandled=ctx_conflict
            WorkflowFinished failed ctx_conflict
            PlaybookProcessed failed
            => head failed: ctx_conflict
            => handle the failure
            => not due
            """,
            before=[sliced("each", items=4, size=2), loop_done("each[1]", 2, ctx_writes=[[2, {"last": 2}]])],
        ),
        Row(
            "results that the state does not hold are a reference to a list of where they are",
            loop_done("each[0]", 1, result=["x" * 600]),
            """
            BoundaryRouted each[0] loop
            LoopDone each 1/1/0 a reference
            NextEvaluated each -> after
            TokenEnqueued after
            TokenClaimed after
            StepScheduled after
            => send after
            """,
            before=[sliced("each", items=1, size=1)],
        ),
        Row(
            "a loop over nothing is done at once",
            sliced("each", items=0, size=4),
            """
            BoundaryRouted each waits
            LoopSliced each
            LoopDone each 0/0/0 []
            NextEvaluated each -> after
            TokenEnqueued after
            TokenClaimed after
            StepScheduled after
            => send after
            """,
        ),
        Row(
            "nothing new of a loop begins during a pause",
            loop_done("each[1]", 4),
            "BoundaryRouted each[1] loop",
            before=[CUT, fact("pause")],
        ),
        Row(
            "a loop whose running chunks all end during a pause is not over",
            loop_done("each[0]", 4),
            "BoundaryRouted each[0] loop",
            before=[CUT, fact("pause"), loop_done("each[1]", 4)],
        ),
        Row(
            "after a pause the window is filled, and open commands are sent again",
            fact("resume"),
            """
            ExecutionResumed
            LoopChunkScheduled each[2]
            => due at 90 s
            => send each[0] without context, each[2] without context
            => wake at day 30
            => head running
            """,
            before=[CUT, fact("pause"), loop_done("each[1]", 4)],
        ),
        Row(
            "a chunk may wait; the loop waits with it",
            suspended("each[0]", {"wait_id": "w", "kind": "timer", "at": 60}),
            """
            BoundaryRouted each[0] waits timer
            => wake at 60 s
            """,
            before=[CUT],
        ),
        Row(
            "a chunk that waited goes on",
            at(60),
            """
            TimerFired each[0] timer
            ResumeScheduled each[0] timer
            => due at 150 s
            => send each[0] (resume) without context
            """,
            before=[CUT, suspended("each[0]", {"wait_id": "w", "kind": "timer", "at": 60})],
        ),
        Row(
            "chunks that end together are one commit",
            both(loop_done("each[0]", 4, result=[1]), loop_done("each[1]", 4, result=[2])),
            """
            BoundaryRouted each[0] loop
            LoopChunkScheduled each[2]
            BoundaryRouted each[1] loop
            => send each[2] without context
            """,
            before=[CUT],
        ),
    ],
)

AFTER = Table(
    DISTRIBUTED.workflow,
    [
        Row(
            "what follows a distributed loop reads it as it reads any step",
            done("after"),
            """
            BoundaryRouted after ok
            NextEvaluated after -> nothing
            WorkflowFinished completed
            PlaybookProcessed completed [7]
            => head completed
            => not due
            """,
            before=[sliced("each", items=1, size=1), loop_done("each[0]", 1, result=[7])],
        )
    ],
    head='executor: { spec: { result: "{{ steps.each.result }}" } }\n',
)


@pytest.mark.parametrize(**cases(LOCAL, DISTRIBUTED, AFTER))
def test_loops(table: Table, row: Row) -> None:
    table.check(row)


def test_results_of_many_chunks_are_in_the_order_of_the_collection() -> None:
    history = History(parsed(DISTRIBUTED.workflow))
    for news in (None, sliced("each", items=12, size=1, window=12)):
        history.decide(news)
    ends = [loop_done(f"each[{n}]", 1, result=[n]) for n in (11, 2, 10, 1, 0, 3, 4, 5, 9, 8, 7, 6)]
    (ended,) = [e for e in history.decide(both(*ends)).events if e.name == "LoopDone"]
    assert ended.data["result"] == list(range(12))
