"""Decisions of parents and children: asked for, answered, left behind, told about."""

from __future__ import annotations

import pytest

from tests.unit.engine.tables import PARENT, Row, Table, again, at, cases, child, done, fact, failed, suspended

ASKS = Table(
    """
    - step: start
      next: { spec: { mode: inclusive }, arcs: [{ step: call }, { step: other }] }
    - { step: call, tool: { kind: noop }, next: { arcs: [{ step: after }] } }
    - { step: other, tool: { kind: noop } }
    - { step: after, tool: { kind: noop } }
    """,
    [
        Row(
            "a run that waits for a child asks for it",
            suspended("call", child("c1")),
            """
            BoundaryRouted call waits child
            ChildRequested c1 for call
            => start child c1 for call, depth 1
            """,
        ),
        Row(
            "two children of one run are asked for together",
            suspended("call", child("c1"), child("c2", "v")),
            """
            BoundaryRouted call waits child child
            ChildRequested c1 for call
            ChildRequested c2 for call
            => start child c1 for call, depth 1
            => start child c2 for call, depth 1
            """,
        ),
        Row(
            "a suspension that comes again asks for no child again",
            again("call"),
            "=> send other without context",
            before=[suspended("call", child("c1"))],
        ),
        Row(
            "a child's end lets the run go on that waits for it",
            fact("child", child="c1", status="completed", result=7),
            """
            ChildFinished c1 completed
            ResumeScheduled call child
            => due at 90 s
            => send call (resume) without context
            """,
            before=[suspended("call", child("c1"))],
        ),
        Row(
            "a child's end that is told twice is recorded once",
            fact("child", child="c1", status="completed", result=7),
            "nothing",
            before=[suspended("call", child("c1")), fact("child", child="c1", status="completed", result=7)],
        ),
        Row("the end of a child that nobody asked for is nothing", fact("child", child="c9", status="failed"), "nothing"),
        Row(
            "a run that ends without its child leaves an orphan, which is ended",
            failed("call", "timeout"),
            """
            BoundaryRouted call failed timeout
            NextEvaluated call -> nothing unhandled=timeout
            => end child c1
            """,
            before=[suspended("call", child("c1"))],
        ),
        Row(
            "an orphan is ended again until its end is told",
            at(60),
            "=> end child c1",
            before=[suspended("call", child("c1")), failed("call", "timeout")],
        ),
        Row(
            "the end of an orphan is recorded, and it is ended no more",
            fact("child", child="c1", status="cancelled"),
            "ChildFinished c1 cancelled",
            before=[suspended("call", child("c1")), failed("call", "timeout")],
        ),
        Row(
            "no child is asked for during a pause",
            suspended("call", child("c1")),
            "BoundaryRouted call waits child",
            before=[fact("pause")],
        ),
        Row(
            "but after it",
            fact("resume"),
            """
            ExecutionResumed
            ChildRequested c1 for call
            => due at 90 s
            => send other without context
            => wake at day 30
            => start child c1 for call, depth 1
            => head running
            """,
            before=[fact("pause"), suspended("call", child("c1"))],
        ),
        Row(
            "a child's end during a pause is recorded and handed on after it",
            fact("child", child="c1", status="completed"),
            "ChildFinished c1 completed",
            before=[suspended("call", child("c1")), fact("pause")],
        ),
        Row(
            "a run that waits for two goes on with the first that has ended, and waits for the other then",
            suspended("call", child("c2", "v")),
            "BoundaryRouted call waits child",
            before=[suspended("call", child("c1"), child("c2", "v")), fact("child", child="c1", status="completed")],
        ),
    ],
)

CHILD = "- { step: start, tool: { kind: noop } }\n"

IS_ASKED = Table(
    CHILD,
    [
        Row(
            "a child tells its parent how it has ended, and only then is it due no more",
            done("start", 7),
            """
            BoundaryRouted start ok
            NextEvaluated start -> nothing
            WorkflowFinished completed
            PlaybookProcessed completed the result of start
            => head completed
            => tell 7: completed the result of start
            => not due
            """,
        ),
        Row(
            "a child that failed tells its error",
            failed("start"),
            """
            BoundaryRouted start failed server_error
            NextEvaluated start -> nothing unhandled=server_error
            WorkflowFinished failed server_error
            PlaybookProcessed failed
            => head failed: server_error
            => tell 7: failed server_error
            => not due
            """,
        ),
        Row(
            "a child's child is nested one deeper",
            suspended("start", child("c1")),
            """
            BoundaryRouted start waits child
            ChildRequested c1 for start
            => start child c1 for start, depth 2
            """,
        ),
        Row(
            "a child's end is told again by whoever finds it",
            again("start"),
            """
            => head completed
            => tell 7: completed the result of start
            => not due
            """,
            before=[done("start", 7)],
        ),
    ],
    parent=PARENT,
)

DETACHED = Table(
    CHILD,
    [
        Row(
            "a detached child tells nobody",
            done("start", 7),
            """
            BoundaryRouted start ok
            NextEvaluated start -> nothing
            WorkflowFinished completed
            PlaybookProcessed completed the result of start
            => head completed
            => not due
            """,
        )
    ],
    parent={**PARENT, "detached": "True"},
)

LABELLED = Table(
    CHILD,
    [
        Row(
            "a parent that was only named by who started it is told nothing",
            done("start", 7),
            """
            BoundaryRouted start ok
            NextEvaluated start -> nothing
            WorkflowFinished completed
            PlaybookProcessed completed the result of start
            => head completed
            => not due
            """,
        )
    ],
    parent={"execution_id": "7"},
)

MADE_HERE = Table(
    "- { step: start, tool: { kind: noop } }\n",
    [
        Row(
            "a result that the execution itself made is told as it is",
            done("start", 7),
            """
            BoundaryRouted start ok
            NextEvaluated start -> nothing
            WorkflowFinished completed
            PlaybookProcessed completed 14
            => head completed
            => tell 7: completed 14
            => not due
            """,
        )
    ],
    head='executor: { spec: { result: "{{ steps.start.result * 2 }}" } }\n',
    parent=PARENT,
)


@pytest.mark.parametrize(**cases(ASKS, IS_ASKED, DETACHED, LABELLED, MADE_HERE))
def test_children(table: Table, row: Row) -> None:
    table.check(row)
