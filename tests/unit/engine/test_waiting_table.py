"""Decisions on waits: timers, signals before and after they are waited for, callbacks that must be heard of."""

from __future__ import annotations

import pytest

from tests.unit.engine.tables import Row, Table, again, at, both, cases, fact, signal, suspended, timer

CALLBACK = {"wait_id": "w", "kind": "callback", "task": "t", "callback": "task1", "heartbeat": 30, "beat_by": 33, "at": 600}
BEAT = {"name": "callback:task1", "heartbeat": True}

WAITS = Table(
    """
    - step: start
      next: { spec: { mode: inclusive }, arcs: [{ step: ask }, { step: other }] }
    - { step: ask, tool: { kind: noop } }
    - { step: other, tool: { kind: noop } }
    """,
    [
        Row(
            "a run that waits for a time is woken then",
            suspended("ask", timer(120)),
            """
            BoundaryRouted ask waits timer
            => wake at 120 s
            """,
        ),
        Row(
            "of several times the first is woken for",
            suspended("ask", timer(120), timer(60, "v")),
            """
            BoundaryRouted ask waits timer timer
            => wake at 60 s
            """,
        ),
        Row(
            "a timer that is due lets its run go on, and has the sweeper reconcile sooner",
            at(120),
            """
            TimerFired ask timer
            ResumeScheduled ask timer
            => due at 210 s
            => send ask (resume) without context
            """,
            before=[suspended("ask", timer(120))],
        ),
        Row(
            "a timer that is due already lets its run go on at once",
            both(at(200), suspended("ask", timer(120))),
            """
            BoundaryRouted ask waits timer
            TimerFired ask timer
            ResumeScheduled ask timer
            => due at 290 s
            => send ask (resume) without context
            => wake at 120 s
            """,
        ),
        Row("a wake that comes early does nothing", at(119), "nothing", before=[suspended("ask", timer(120))]),
        Row(
            "a suspension that comes again sends nothing to who waits",
            again("ask"),
            "=> send other without context",
            before=[suspended("ask", timer(120))],
        ),
        Row(
            "a run that was stopped between two tasks goes on at once",
            suspended("ask", {"wait_id": "w", "kind": "deadline", "at": 0}),
            """
            BoundaryRouted ask waits deadline
            TimerFired ask deadline
            ResumeScheduled ask deadline
            => due at 90 s
            => send ask (resume) without context
            => wake at 0 s
            """,
        ),
        Row(
            "a signal that nobody waits for is kept",
            fact("signal", id="s1", name="go", data=1),
            "SignalReceived go 1",
        ),
        Row(
            "a signal that came before the wait answers it",
            suspended("ask", signal("go")),
            """
            BoundaryRouted ask waits signal
            SignalMatched ask 1
            ResumeScheduled ask signal
            => due at 90 s
            => send ask (resume) without context
            """,
            before=[fact("signal", id="s1", name="go", data=1)],
        ),
        Row(
            "a signal answers the wait of its name",
            fact("signal", id="s1", name="go", data=1),
            """
            SignalReceived go 1
            SignalMatched ask 1
            ResumeScheduled ask signal
            => due at 90 s
            => send ask (resume) without context
            """,
            before=[suspended("ask", signal("go"))],
        ),
        Row(
            "a signal of another name answers nobody",
            fact("signal", id="s1", name="no", data=1),
            "SignalReceived no 1",
            before=[suspended("ask", signal("go"))],
        ),
        Row(
            "a signal that comes twice is recorded once",
            fact("signal", id="s1", name="go", data=1),
            "nothing",
            before=[fact("signal", id="s1", name="go", data=1)],
        ),
        Row(
            "one signal answers one of two that wait for it",
            fact("signal", id="s1", name="go", data=1),
            """
            SignalReceived go 1
            SignalMatched ask 1
            ResumeScheduled ask signal
            => due at 90 s
            => send ask (resume) without context
            """,
            before=[suspended("ask", signal("go")), suspended("other", signal("go", "v"))],
        ),
        Row(
            "signals of one name are handed on in the order they came",
            suspended("ask", signal("go")),
            """
            BoundaryRouted ask waits signal
            SignalMatched ask 1
            ResumeScheduled ask signal
            => due at 90 s
            => send ask (resume) without context
            """,
            before=[fact("signal", id="s1", name="go", data=1), fact("signal", id="s2", name="go", data=2)],
        ),
        Row(
            "who waits for a signal for a limited time is woken at its end",
            suspended("ask", signal("go", at=50)),
            """
            BoundaryRouted ask waits signal
            => wake at 50 s
            """,
        ),
        Row(
            "a signal that did not come in time times out",
            at(50),
            """
            TimerFired ask timeout
            ResumeScheduled ask timeout
            => due at 140 s
            => send ask (resume) without context
            """,
            before=[suspended("ask", signal("go", at=50))],
        ),
        Row(
            "a callback is woken for when it must have been heard of",
            suspended("ask", CALLBACK),
            """
            BoundaryRouted ask waits callback
            => wake at 33 s
            """,
        ),
        Row(
            "a heartbeat puts that off",
            both(at(20), fact("signal", id="h1", **BEAT)),
            """
            SignalReceived callback:task1 heartbeat
            => wake at 51 s
            """,
            before=[suspended("ask", CALLBACK)],
        ),
        Row(
            "heartbeats close to each other are one",
            both(at(0.2), fact("signal", id="h1", **BEAT)),
            "nothing",
            before=[suspended("ask", CALLBACK)],
        ),
        Row("a heartbeat that nobody waits for is nothing", fact("signal", id="h1", **BEAT), "nothing"),
        Row(
            "a callback that is not heard of ends its wait",
            at(33),
            """
            TimerFired ask heartbeat
            ResumeScheduled ask heartbeat
            => due at 123 s
            => send ask (resume) without context
            """,
            before=[suspended("ask", CALLBACK)],
        ),
        Row(
            "a callback that was heard of goes on waiting",
            at(40),
            "nothing",
            before=[suspended("ask", CALLBACK), both(at(20), fact("signal", id="h1", **BEAT))],
        ),
        Row(
            "an answer by token is handed on",
            fact("signal", id="a1", name="callback:task1", data={"yes": True}),
            """
            SignalReceived callback:task1 {'yes': True}
            SignalMatched ask {'yes': True}
            ResumeScheduled ask signal
            => due at 90 s
            => send ask (resume) without context
            """,
            before=[suspended("ask", CALLBACK)],
        ),
        Row(
            "a command that is sent again is what it is now: that of a run that goes on",
            again("ask"),
            "=> send ask (resume) without context, other without context",
            before=[suspended("ask", timer(5)), at(5)],
        ),
    ],
)


@pytest.mark.parametrize(**cases(WAITS))
def test_waiting(table: Table, row: Row) -> None:
    table.check(row)
