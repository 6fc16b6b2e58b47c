"""Decisions on boundaries: arcs, failures, steps without tasks."""

from __future__ import annotations

import pytest

from tests.unit.engine.tables import Row, Table, again, both, cases, done, failed

EXCLUSIVE = Table(
    """
    - step: start
      tool: { kind: noop }
      set_ctx: { seen: "{{ event.result }}" }
      next:
        arcs:
          - { step: big, when: "{{ event.result | default(0) > 10 }}", args: { n: "{{ event.result }}" } }
          - { step: odd, when: "{{ ctx.seen == 7 }}" }
          - { step: small, set_ctx: { size: small } }
          - { step: big }
    - { step: big, tool: { kind: noop } }
    - { step: odd, tool: { kind: noop } }
    - { step: small, tool: { kind: noop } }
    """,
    [
        Row(
            "the first commit schedules the entry step and shows the execution in lists",
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
            """,
        ),
        Row(
            "the first arc whose guard is true fires, alone, with its args",
            done("start", 11),
            """
            BoundaryRouted start ok
            CtxPatched {'seen': 11}
            NextEvaluated start -> big
            TokenEnqueued big {'n': 11}
            TokenClaimed big
            StepScheduled big {'n': 11}
            => send big
            """,
        ),
        Row(
            "a guard reads what the step itself wrote to ctx",
            done("start", 7),
            """
            BoundaryRouted start ok
            CtxPatched {'seen': 7}
            NextEvaluated start -> odd
            TokenEnqueued odd
            TokenClaimed odd
            StepScheduled odd
            => send odd
            """,
        ),
        Row(
            "an arc without a guard fires when none before it does, and writes its ctx",
            done("start", 5),
            """
            BoundaryRouted start ok
            CtxPatched {'seen': 5}
            NextEvaluated start -> small
            CtxPatched {'size': 'small'}
            TokenEnqueued small
            TokenClaimed small
            StepScheduled small
            => send small
            """,
        ),
        Row(
            "an arc without a guard does not fire on a failure, which fails the execution",
            failed("start"),
            """
            BoundaryRouted start failed server_error
            NextEvaluated start -> nothing error={{ event.result | default(0) > 10 }}: null > number has no meaning
            ExecutionFailing template fatal
            WorkflowFinished failed template
            PlaybookProcessed failed
            => head failed: template
            => handle the failure
            => not due
            """,
        ),
        Row(
            "what a failed step says of ctx is written too",
            failed("start", set_ctx={"rows": 1}),
            """
            BoundaryRouted start failed server_error
            CtxPatched {'rows': 1}
            NextEvaluated start -> nothing error={{ event.result | default(0) > 10 }}: null > number has no meaning
            ExecutionFailing template fatal
            WorkflowFinished failed template
            PlaybookProcessed failed
            => head failed: template
            => handle the failure
            => not due
            """,
        ),
        Row(
            "the last run's end is the end, with its result",
            done("big", 12),
            """
            BoundaryRouted big ok
            NextEvaluated big -> nothing
            WorkflowFinished completed
            PlaybookProcessed completed the result of big
            => head completed
            => not due
            """,
            before=[done("start", 11)],
        ),
        Row(
            "a boundary routed before writes nothing and sends open commands again",
            again("start"),
            "=> send small",
            before=[done("start", 5)],
        ),
        Row(
            "a boundary of an ended execution says its end again",
            again("small"),
            """
            => head completed
            => not due
            """,
            before=[done("start", 5), done("small")],
        ),
        Row("a wake without news does nothing", both(), "nothing", before=[done("start", 5)]),
    ],
)


HANDLED = Table(
    """
    - step: load
      tool: { kind: noop }
      next:
        arcs:
          - { step: publish }
          - { step: fallback, when: "{{ event.name == 'step.failed' }}", args: { why: "{{ event.error.kind }}" } }
    - { step: publish, tool: { kind: noop } }
    - { step: fallback, tool: { kind: noop } }
    """,
    [
        Row(
            "a failure is handled by an arc whose guard takes it up",
            failed("load", "timeout"),
            """
            BoundaryRouted load failed timeout
            NextEvaluated load -> fallback
            TokenEnqueued fallback {'why': 'timeout'}
            TokenClaimed fallback
            StepScheduled fallback {'why': 'timeout'}
            => send fallback
            """,
        ),
        Row(
            "an execution whose failure was handled completes",
            done("fallback", 1),
            """
            BoundaryRouted fallback ok
            NextEvaluated fallback -> nothing
            WorkflowFinished completed
            PlaybookProcessed completed the result of fallback
            => head completed
            => not due
            """,
            before=[failed("load")],
        ),
    ],
)


ALWAYS = Table(
    HANDLED.workflow,
    [
        Row(
            "with unconditional_on_failure an arc without a guard handles a failure",
            failed("load"),
            """
            BoundaryRouted load failed server_error
            NextEvaluated load -> publish
            TokenEnqueued publish
            TokenClaimed publish
            StepScheduled publish
            => send publish
            """,
        )
    ],
    head="executor: { spec: { policy: { unconditional_on_failure: true } } }\n",
)


WITHOUT_TASKS = Table(
    """
    - step: start
      next: { arcs: [{ step: count, args: { n: 1 } }] }
    - step: count
      next:
        arcs:
          - { step: count, when: "{{ args.n < 3 }}", args: { n: "{{ args.n + 1 }}" } }
    """,
    [
        Row(
            "steps without tasks follow each other within one commit, and ask no worker",
            None,
            """
            PlaybookExecutionRequested tables/t
            PlaybookRequestEvaluated
            WorkflowStarted start
            TokenEnqueued start
            TokenClaimed start
            StepScheduled start
            StepDone start
            NextEvaluated start -> count
            TokenEnqueued count {'n': 1}
            TokenClaimed count
            StepScheduled count {'n': 1}
            StepDone count
            NextEvaluated count -> count
            TokenEnqueued count {'n': 2}
            TokenClaimed count#2
            StepScheduled count#2 {'n': 2}
            StepDone count#2
            NextEvaluated count#2 -> count
            TokenEnqueued count {'n': 3}
            TokenClaimed count#3
            StepScheduled count#3 {'n': 3}
            StepDone count#3
            NextEvaluated count#3 -> nothing
            WorkflowFinished completed
            PlaybookProcessed completed None
            => head completed
            => not due
            """,
        )
    ],
)


IN_ERROR = Table(
    """
    - step: start
      tool: { kind: noop }
      next: { arcs: [{ step: other, when: "{{ 1 / event.result }}" }] }
    - { step: other, tool: { kind: noop } }
    """,
    [
        Row(
            "a guard in error fails the execution as a whole",
            done("start", 0),
            """
            BoundaryRouted start ok
            NextEvaluated start -> nothing error={{ 1 / event.result }}: division by zero
            ExecutionFailing template fatal
            WorkflowFinished failed template
            PlaybookProcessed failed
            => head failed: template
            => handle the failure
            => not due
            """,
        )
    ],
)


@pytest.mark.parametrize(**cases(EXCLUSIVE, HANDLED, ALWAYS, WITHOUT_TASKS, IN_ERROR))
def test_routing(table: Table, row: Row) -> None:
    table.check(row)
