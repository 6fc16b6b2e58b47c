"""Decisions on what operators ask for, and on what has to be undone."""

from __future__ import annotations

import pytest

from tests.unit.engine.tables import Row, Table, at, both, cases, done, fact, failed, signal, suspended, timer

FLOW = """
- step: start
  next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
- { step: a, tool: { kind: noop }, next: { arcs: [{ step: after }] } }
- { step: b, tool: { kind: noop } }
- { step: after, tool: { kind: noop } }
"""

PAUSE = Table(
    FLOW,
    [
        Row(
            "a pause is shown in lists, and stops nothing that runs",
            fact("pause"),
            """
            ExecutionPaused
            => head paused
            """,
        ),
        Row("what is paused is not paused again", fact("pause"), "nothing", before=[fact("pause")]),
        Row(
            "during a pause boundaries are routed and nothing new starts",
            done("a"),
            """
            BoundaryRouted a ok
            NextEvaluated a -> after
            TokenEnqueued after
            """,
            before=[fact("pause")],
        ),
        Row(
            "nothing ends during a pause",
            done("b"),
            """
            BoundaryRouted b ok
            NextEvaluated b -> nothing
            """,
            before=[fact("pause"), failed("a")],
        ),
        Row(
            "after a pause tokens move, and every open command is sent again",
            fact("resume"),
            """
            ExecutionResumed
            TokenClaimed after
            StepScheduled after
            => due at 90 s
            => send b without context, after
            => wake at day 30
            => head running
            """,
            before=[fact("pause"), done("a")],
        ),
        Row(
            "what came to its end during a pause ends after it",
            fact("resume"),
            """
            ExecutionResumed
            WorkflowFinished failed server_error
            PlaybookProcessed failed
            => head failed: server_error
            => handle the failure
            => not due
            """,
            before=[fact("pause"), failed("a"), done("b")],
        ),
        Row("what runs is not resumed", fact("resume"), "nothing"),
        Row("no timer fires during a pause", at(60), "nothing", before=[suspended("a", timer(5)), fact("pause")]),
        Row(
            "a timer that was due during a pause fires after it",
            both(at(60), fact("resume")),
            """
            ExecutionResumed
            TimerFired a timer
            ResumeScheduled a timer
            => due at 150 s
            => send a (resume) without context, b without context
            => wake at day 30
            => head running
            """,
            before=[suspended("a", timer(5)), fact("pause")],
        ),
        Row(
            "a signal is recorded during a pause",
            fact("signal", id="s", name="go"),
            "SignalReceived go",
            before=[suspended("a", signal("go")), fact("pause")],
        ),
        Row(
            "what was recorded during a pause is handed on after it",
            fact("resume"),
            """
            ExecutionResumed
            SignalMatched a
            ResumeScheduled a signal
            => due at 90 s
            => send a (resume) without context, b without context
            => wake at day 30
            => head running
            """,
            before=[suspended("a", signal("go")), fact("pause"), fact("signal", id="s", name="go")],
        ),
        Row(
            "waits are woken for anew after a pause",
            fact("resume"),
            """
            ExecutionResumed
            => due at 90 s
            => wake at day 30
            => wake at 200 s
            => head running
            """,
            before=[suspended("a", timer(300)), suspended("b", timer(200)), fact("pause")],
        ),
    ],
)

CANCEL = Table(
    FLOW,
    [
        Row(
            "a cancel is shown in lists; open runs are ended by their boundaries",
            fact("cancel", reason="enough"),
            """
            ExecutionCancelled enough
            => head cancelling
            """,
        ),
        Row(
            "what is cancelled is not cancelled again",
            fact("cancel", reason="enough"),
            "nothing",
            before=[fact("cancel", reason="no")],
        ),
        Row(
            "while it is cancelled nothing new starts",
            done("a"),
            """
            BoundaryRouted a ok
            NextEvaluated a -> nothing
            """,
            before=[fact("cancel")],
        ),
        Row(
            "with its last run a cancelled execution ends",
            failed("b", "cancelled"),
            """
            BoundaryRouted b failed cancelled
            NextEvaluated b -> nothing unhandled=cancelled
            WorkflowFinished cancelled
            PlaybookProcessed cancelled
            => head cancelled: cancelled
            => not due
            """,
            before=[fact("cancel"), failed("a", "cancelled")],
        ),
        Row(
            "a paused execution can be cancelled",
            fact("cancel"),
            """
            ExecutionCancelled
            => head cancelling
            """,
            before=[fact("pause")],
        ),
        Row(
            "what has ended takes no more facts, and says its end again",
            fact("cancel"),
            """
            => head failed: server_error
            => handle the failure
            => not due
            """,
            before=[failed("a"), done("b")],
        ),
    ],
)

STUCK = Table(
    FLOW,
    [
        Row(
            "what cannot be decided is shown as stuck",
            fact("stuck", reason="no such thing"),
            """
            ExecutionStuck no such thing
            => head stuck
            """,
        ),
        Row("what is stuck is marked once", fact("stuck", reason="more"), "nothing", before=[fact("stuck", reason="x")]),
        Row(
            "a stuck execution evaluates nothing, so what ends stays in its stream",
            done("a"),
            "nothing",
            before=[fact("stuck", reason="x")],
        ),
        Row(
            "a stuck execution is resumed as a paused one is",
            fact("resume"),
            """
            ExecutionResumed
            => due at 90 s
            => send a without context, b without context
            => wake at day 30
            => head running
            """,
            before=[fact("stuck", reason="x"), done("a")],
        ),
        Row(
            "the end of the whole's time ends a pause, and it with it once nothing runs",
            fact("fail", error={"kind": "timeout", "message": "late", "fatal": True}),
            """
            ExecutionFailing timeout fatal
            WorkflowFinished failed timeout
            PlaybookProcessed failed
            => head failed: timeout
            => handle the failure
            => not due
            """,
            before=[done("b"), done("a"), fact("pause"), done("after")],
        ),
        Row(
            "a second failure of the whole changes nothing",
            fact("fail", error={"kind": "x", "message": "y"}),
            "nothing",
            before=[fact("fail", error={"kind": "timeout", "message": "late", "fatal": True})],
        ),
    ],
)

UNDO = Table(
    """
    - { step: first, tool: { kind: noop }, compensate: { kind: noop }, next: { arcs: [{ step: second }] } }
    - { step: second, tool: { kind: noop }, compensate: { kind: noop }, next: { arcs: [{ step: third }] } }
    - { step: third, tool: { kind: noop } }
    """,
    [
        Row(
            "a finished step that can be undone says so",
            done("first"),
            """
            BoundaryRouted first ok undoable
            NextEvaluated first -> second
            TokenEnqueued second
            TokenClaimed second
            StepScheduled second
            => send second
            """,
        ),
        Row(
            "a failure undoes what has been done, the last first",
            failed("third"),
            """
            BoundaryRouted third failed server_error
            NextEvaluated third -> nothing unhandled=server_error
            CompensationStarted undo second
            => send undo second
            => wake at day 30
            """,
            before=[done("first"), done("second")],
        ),
        Row(
            "then the one before",
            done("undo second"),
            """
            BoundaryRouted undo second ok
            CompensationDone undo second
            CompensationStarted undo first
            => send undo first
            => wake at day 30
            """,
            before=[done("first"), done("second"), failed("third")],
        ),
        Row(
            "a compensation that failed is told, and the others run all the same",
            failed("undo second"),
            """
            BoundaryRouted undo second failed server_error
            CompensationDone undo second server_error
            CompensationStarted undo first
            => send undo first
            => wake at day 30
            """,
            before=[done("first"), done("second"), failed("third")],
        ),
        Row(
            "when all is undone the execution ends, as failed, with what could not be undone",
            done("undo first"),
            """
            BoundaryRouted undo first ok
            CompensationDone undo first
            WorkflowFinished failed server_error not_undone=['second']
            PlaybookProcessed failed
            => head failed: server_error
            => handle the failure
            => not due
            """,
            before=[done("first"), done("second"), failed("third"), failed("undo second")],
        ),
        Row(
            "a cancel with compensation undoes too",
            failed("second", "cancelled"),
            """
            BoundaryRouted second failed cancelled
            NextEvaluated second -> nothing unhandled=cancelled
            CompensationStarted undo first
            => send undo first
            => wake at day 30
            """,
            before=[done("first"), fact("cancel", compensate=True)],
        ),
        Row(
            "a cancel without it does not",
            failed("second", "cancelled"),
            """
            BoundaryRouted second failed cancelled
            NextEvaluated second -> nothing unhandled=cancelled
            WorkflowFinished cancelled
            PlaybookProcessed cancelled
            => head cancelled: cancelled
            => not due
            """,
            before=[done("first"), fact("cancel")],
        ),
        Row(
            "what is being undone can be left as it is",
            fact("cancel"),
            """
            ExecutionCancelled
            => head cancelling: cancelled
            """,
            before=[done("first"), fact("cancel", compensate=True), failed("second", "cancelled")],
        ),
        Row(
            "a compensation may wait, while the execution is cancelled",
            at(9),
            """
            TimerFired undo first timer
            ResumeScheduled undo first timer
            => due at 99 s
            => send undo first (resume) without context
            => wake at day 30
            """,
            before=[
                done("first"),
                fact("cancel", compensate=True),
                failed("second", "cancelled"),
                suspended("undo first", timer(9)),
            ],
        ),
    ],
)


@pytest.mark.parametrize(**cases(PAUSE, CANCEL, STUCK, UNDO))
def test_operating(table: Table, row: Row) -> None:
    table.check(row)
