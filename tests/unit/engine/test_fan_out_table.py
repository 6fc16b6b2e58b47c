"""Decisions on boundaries that make several tokens: inclusive routers, deduplication, priority."""

from __future__ import annotations

import pytest

from tests.unit.engine.tables import Row, Table, again, both, cases, done, failed

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


@pytest.mark.parametrize(**cases(FAN_OUT, BEST_EFFORT, DEDUPED, RANKED))
def test_fan_out(table: Table, row: Row) -> None:
    table.check(row)
