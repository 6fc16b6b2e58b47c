"""Decisions on boundaries: arcs, failures, fan-out, admission."""

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

FAN_OUT = Table(
    """
    - step: start
      tool: { kind: noop }
      next:
        spec: { mode: inclusive }
        arcs:
          - { step: a }
          - { step: b, when: "{{ event.result != 2 }}" }
          - { step: a, when: "{{ event.result == 2 }}", args: { n: 2 } }
    - { step: a, tool: { kind: noop }, next: { arcs: [{ step: after }] } }
    - { step: b, tool: { kind: noop } }
    - { step: after, tool: { kind: noop } }
    """,
    [
        Row(
            "an inclusive router makes a token for every guard that is true",
            done("start", 1),
            """
            BoundaryRouted start ok
            NextEvaluated start -> a, b
            TokenEnqueued a
            TokenEnqueued b
            TokenClaimed a
            StepScheduled a
            TokenClaimed b
            StepScheduled b
            => send a, b
            """,
        ),
        Row(
            "two arcs to one step make two runs of it",
            done("start", 2),
            """
            BoundaryRouted start ok
            NextEvaluated start -> a, a
            TokenEnqueued a
            TokenEnqueued a {'n': 2}
            TokenClaimed a
            StepScheduled a
            TokenClaimed a#2
            StepScheduled a#2 {'n': 2}
            => send a, a#2
            """,
        ),
        Row(
            "one branch ends, the others go on",
            done("b"),
            """
            BoundaryRouted b ok
            NextEvaluated b -> nothing
            """,
            before=[done("start", 1)],
        ),
        Row(
            "boundaries that come together are one commit, in their order",
            both(done("b"), done("a")),
            """
            BoundaryRouted b ok
            NextEvaluated b -> nothing
            BoundaryRouted a ok
            NextEvaluated a -> after
            TokenEnqueued after
            TokenClaimed after
            StepScheduled after
            => send after
            """,
            before=[done("start", 1)],
        ),
        Row(
            "after an unhandled failure what runs is finished",
            failed("b"),
            """
            BoundaryRouted b failed server_error
            NextEvaluated b -> nothing unhandled=server_error
            """,
            before=[done("start", 1)],
        ),
        Row(
            "after an unhandled failure nothing new starts; with the last run it ends as failed",
            done("a"),
            """
            BoundaryRouted a ok
            NextEvaluated a -> after
            TokenEnqueued after
            TokenExpired after (ended)
            WorkflowFinished failed server_error
            PlaybookProcessed failed
            => head failed: server_error
            => handle the failure
            => not due
            """,
            before=[done("start", 1), failed("b")],
        ),
        Row(
            "of several boundaries those routed before are left out, and of the others follows what follows",
            both(again("a#1"), done("a#2")),
            """
            BoundaryRouted a#2 ok
            NextEvaluated a#2 -> after
            TokenEnqueued after
            TokenClaimed after#2
            StepScheduled after#2
            => send after#2
            """,
            before=[done("start", 2), done("a#1")],
        ),
    ],
)

BEST_EFFORT = Table(
    FAN_OUT.workflow,
    [
        Row(
            "best effort: the other branches go on after a failure",
            done("a"),
            """
            BoundaryRouted a ok
            NextEvaluated a -> after
            TokenEnqueued after
            TokenClaimed after
            StepScheduled after
            => send after
            """,
            before=[done("start", 1), failed("b")],
        ),
        Row(
            "best effort: the execution has failed all the same",
            done("after"),
            """
            BoundaryRouted after ok
            NextEvaluated after -> nothing
            WorkflowFinished failed server_error
            PlaybookProcessed failed
            => head failed: server_error
            => handle the failure
            => not due
            """,
            before=[done("start", 1), failed("b"), done("a")],
        ),
    ],
    head="executor: { spec: { policy: { failure: { mode: best_effort } } } }\n",
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

DEDUPED = Table(
    """
    - step: start
      tool: { kind: noop }
      next:
        spec: { mode: inclusive, policy: { dedupe: true } }
        arcs:
          - { step: work, args: { n: 1 } }
          - { step: work, args: { n: 2 } }
          - { step: work, args: { n: 1 } }
    - { step: work, tool: { kind: noop }, next: { spec: { policy: { dedupe: true } }, arcs: [{ step: work, args: { n: 2 } }] } }
    """,
    [
        Row(
            "a deduplicating router makes the same token once",
            done("start"),
            """
            BoundaryRouted start ok
            NextEvaluated start -> work, work, work
            TokenEnqueued work {'n': 1}
            TokenEnqueued work {'n': 2}
            TokenClaimed work
            StepScheduled work {'n': 1}
            TokenClaimed work#2
            StepScheduled work#2 {'n': 2}
            => send work, work#2
            """,
        ),
        Row(
            "a token that another deduplicating router has made is not made again",
            done("work"),
            """
            BoundaryRouted work#2 ok
            NextEvaluated work#2 -> work
            """,
            before=[done("start")],
        ),
    ],
)

RANKED = Table(
    """
    - step: start
      next:
        spec: { mode: inclusive }
        arcs: [{ step: low }, { step: high }]
    - { step: low, next: { arcs: [{ step: work, args: { n: 1 } }] } }
    - { step: high, next: { spec: { policy: { priority: 5 } }, arcs: [{ step: work, args: { n: 2 } }] } }
    - { step: work, tool: { kind: noop } }
    """,
    [
        Row(
            "of tokens that may move at the same time the one of higher priority goes first",
            None,
            """
            PlaybookExecutionRequested tables/t
            PlaybookRequestEvaluated
            WorkflowStarted start
            TokenEnqueued start
            TokenClaimed start
            StepScheduled start
            StepDone start
            NextEvaluated start -> low, high
            TokenEnqueued low
            TokenEnqueued high
            TokenClaimed low
            StepScheduled low
            StepDone low
            NextEvaluated low -> work
            TokenEnqueued work {'n': 1}
            TokenClaimed high
            StepScheduled high
            StepDone high
            NextEvaluated high -> work
            TokenEnqueued work {'n': 2} priority=5.0
            TokenClaimed work
            StepScheduled work {'n': 2}
            TokenClaimed work#2
            StepScheduled work#2 {'n': 1}
            => head running
            => send work, work#2
            => wake at day 30
            """,
        )
    ],
)


@pytest.mark.parametrize(**cases(EXCLUSIVE, HANDLED, ALWAYS, FAN_OUT, BEST_EFFORT, WITHOUT_TASKS, IN_ERROR, DEDUPED, RANKED))
def test_routing(table: Table, row: Row) -> None:
    table.check(row)
