"""Decisions on joins: what is held, when a join fires, what comes late, rounds of a cycle."""

from __future__ import annotations

import pytest

from tests.unit.engine.tables import Row, Table, at, both, cases, done, failed

BRANCHES = """
- step: start
  tool: { kind: noop }
  next:
    spec: { mode: inclusive }
    arcs: [{ step: a }, { step: b }, { step: c, when: "{{ event.result != 'two' }}" }]
- { step: a, tool: { kind: noop }, next: { arcs: [{ step: meet, when: "{{ event.result != 'lost' and event.status == 'success' }}", args: { who: a, a: 1 } }] } }
- { step: b, tool: { kind: noop }, next: { arcs: [{ step: meet, when: "{{ event.result != 'lost' }}", args: { who: b, b: 1 } }] } }
- { step: c, tool: { kind: noop }, next: { arcs: [{ step: meet, when: "{{ event.result != 'lost' }}", args: { who: c, c: 1 } }] } }
- { step: meet, spec: { join: JOIN }, tool: { kind: noop } }
"""

ALL = Table(
    BRANCHES.replace("JOIN", "all"),
    [
        Row(
            "join all holds a token while another can still come",
            done("b"),
            """
            BoundaryRouted b ok
            NextEvaluated b -> meet
            TokenEnqueued meet {'who': 'b', 'b': 1}
            """,
            before=[done("start", "two")],
        ),
        Row(
            "join all fires once with the last token; args merge in the order of the arcs, whoever was last",
            done("a"),
            """
            BoundaryRouted a ok
            NextEvaluated a -> meet
            TokenEnqueued meet {'who': 'a', 'a': 1}
            TokenEnqueued meet {'who': 'b', 'a': 1, 'b': 1} joined
            TokenClaimed meet
            StepScheduled meet {'who': 'b', 'a': 1, 'b': 1}
            => send meet
            """,
            before=[done("start", "two"), done("b")],
        ),
        Row(
            "join all does not wait for a branch that has ended elsewhere",
            done("a", "lost"),
            """
            BoundaryRouted a ok
            NextEvaluated a -> nothing
            TokenEnqueued meet {'who': 'b', 'b': 1} joined
            TokenClaimed meet
            StepScheduled meet {'who': 'b', 'b': 1}
            => send meet
            """,
            before=[done("start", "two"), done("b")],
        ),
        Row(
            "tokens that come together fire a join at once",
            both(done("b"), done("a")),
            """
            BoundaryRouted b ok
            NextEvaluated b -> meet
            TokenEnqueued meet {'who': 'b', 'b': 1}
            BoundaryRouted a ok
            NextEvaluated a -> meet
            TokenEnqueued meet {'who': 'a', 'a': 1}
            TokenEnqueued meet {'who': 'b', 'a': 1, 'b': 1} joined
            TokenClaimed meet
            StepScheduled meet {'who': 'b', 'a': 1, 'b': 1}
            => send meet
            """,
            before=[done("start", "two")],
        ),
        Row(
            "a failed branch ends the execution with the tokens that a join held",
            failed("a"),
            """
            BoundaryRouted a failed server_error
            NextEvaluated a -> nothing unhandled=server_error
            TokenExpired meet (ended)
            WorkflowFinished failed server_error
            PlaybookProcessed failed
            => head failed: server_error
            => handle the failure
            => not due
            """,
            before=[done("start", "two"), done("b")],
        ),
    ],
)

ANY = Table(
    BRANCHES.replace("JOIN", "any"),
    [
        Row(
            "join any fires with the first token",
            done("b"),
            """
            BoundaryRouted b ok
            NextEvaluated b -> meet
            TokenEnqueued meet {'who': 'b', 'b': 1}
            TokenEnqueued meet {'who': 'b', 'b': 1} joined
            JoinClosed meet fired
            TokenClaimed meet
            StepScheduled meet {'who': 'b', 'b': 1}
            => send meet
            """,
            before=[done("start")],
        ),
        Row(
            "what comes late at a join any expires",
            done("a"),
            """
            BoundaryRouted a ok
            NextEvaluated a -> meet
            TokenEnqueued meet {'who': 'a', 'a': 1}
            TokenExpired meet (join)
            """,
            before=[done("start"), done("b")],
        ),
        Row(
            "a join any is open again once nothing of its round is on the way",
            done("c"),
            """
            BoundaryRouted c ok
            NextEvaluated c -> meet
            TokenEnqueued meet {'who': 'c', 'c': 1}
            TokenExpired meet (join)
            JoinClosed meet open again
            """,
            before=[done("start"), done("b"), done("a")],
        ),
        Row(
            "of tokens that come together a join any takes one",
            both(done("b"), done("a")),
            """
            BoundaryRouted b ok
            NextEvaluated b -> meet
            TokenEnqueued meet {'who': 'b', 'b': 1}
            BoundaryRouted a ok
            NextEvaluated a -> meet
            TokenEnqueued meet {'who': 'a', 'a': 1}
            TokenEnqueued meet {'who': 'b', 'b': 1} joined
            JoinClosed meet fired
            TokenClaimed meet
            StepScheduled meet {'who': 'b', 'b': 1}
            TokenExpired meet (join)
            JoinClosed meet open again
            => send meet
            """,
            before=[done("start", "two")],
        ),
    ],
)

COUNT = Table(
    BRANCHES.replace("JOIN", "{ count: 2 }"),
    [
        Row(
            "join count holds tokens until there are enough",
            done("a"),
            """
            BoundaryRouted a ok
            NextEvaluated a -> meet
            TokenEnqueued meet {'who': 'a', 'a': 1}
            """,
            before=[done("start")],
        ),
        Row(
            "join count fires with the n-th token",
            done("c"),
            """
            BoundaryRouted c ok
            NextEvaluated c -> meet
            TokenEnqueued meet {'who': 'c', 'c': 1}
            TokenEnqueued meet {'who': 'c', 'a': 1, 'c': 1} joined
            JoinClosed meet fired
            TokenClaimed meet
            StepScheduled meet {'who': 'c', 'a': 1, 'c': 1}
            => send meet
            """,
            before=[done("start"), done("a")],
        ),
        Row(
            "tokens expire at a join count that fewer can reach",
            done("c", "lost"),
            """
            BoundaryRouted c ok
            NextEvaluated c -> nothing
            TokenExpired meet (join)
            WorkflowFinished completed
            PlaybookProcessed completed the result of c
            => head completed
            => not due
            """,
            before=[done("start"), done("a"), done("b", "lost")],
        ),
    ],
)

ROUNDS = Table(
    """
    - step: start
      next: { spec: { mode: inclusive }, arcs: [{ step: fast }, { step: slow }] }
    - { step: fast, tool: { kind: noop }, next: { arcs: [{ step: first }] } }
    - { step: slow, tool: { kind: noop }, next: { arcs: [{ step: first }] } }
    - step: first
      spec: { join: any }
      tool: { kind: noop }
      next: { arcs: [{ step: start }] }
    """,
    [
        Row(
            "the first token of the next round fires a join any whose last round is not over",
            done("fast"),
            """
            BoundaryRouted fast#2 ok
            NextEvaluated fast#2 -> first
            TokenEnqueued first
            TokenEnqueued first joined
            JoinClosed first fired round=1
            TokenClaimed first#2
            StepScheduled first#2
            => send first#2
            """,
            before=[done("fast"), done("first")],
        ),
        Row(
            "a slow token of the first round comes late to it, not to the second",
            done("slow#1"),
            """
            BoundaryRouted slow ok
            NextEvaluated slow -> first
            TokenEnqueued first
            TokenExpired first (join)
            JoinClosed first open again
            """,
            before=[done("fast"), done("first"), done("fast")],
        ),
    ],
)

PARKED = Table(
    """
    - step: start
      next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: guarded }] }
    - { step: a, tool: { kind: noop }, next: { arcs: [{ step: meet }] } }
    - step: guarded
      spec: { policy: { admit: { rules: [{ when: "{{ ctx.open }}", then: { allow: true } }, { else: { then: { allow: false } } }] } } }
      tool: { kind: noop }
      next: { arcs: [{ step: meet }] }
    - { step: meet, spec: { join: all }, tool: { kind: noop } }
    """,
    [
        Row(
            "a join waits no longer for a parked token when nothing runs that could let it in",
            done("a"),
            """
            BoundaryRouted a ok
            NextEvaluated a -> meet
            TokenEnqueued meet
            TokenEnqueued meet joined
            TokenClaimed meet
            StepScheduled meet
            => send meet
            """,
        ),
        Row(
            "a parked token that is let in is waited for",
            done("a", set_ctx={"open": 1}),
            """
            BoundaryRouted a ok
            CtxPatched {'open': 1}
            NextEvaluated a -> meet
            TokenEnqueued meet
            TokenClaimed guarded
            StepScheduled guarded
            => send guarded
            """,
        ),
        Row("time changes nothing about who is waited for", at(3600), "nothing"),
    ],
)


@pytest.mark.parametrize(**cases(ALL, ANY, COUNT, ROUNDS, PARKED))
def test_joins(table: Table, row: Row) -> None:
    table.check(row)
