"""Folds inputs from outside the runs into the state: timers, signals, child executions."""

from __future__ import annotations

from noetl_core.engine.fold.execution import record_author
from noetl_core.engine.fold.table import Folds
from noetl_core.engine.records import ControlEvent
from noetl_core.engine.state import Child, State
from noetl_core.engine.waits import beat_by, signal_name
from noetl_core.events import waiting
from noetl_core.events.shapes import Mail, Signal

folds = Folds()


@folds(waiting.TimerFired)
def _timer_fired(s: State, e: ControlEvent, d: waiting.TimerFired, seq: int) -> None:
    _deliver(s, d["run"], {"wait_id": d["wait_id"], "kind": d["kind"]})


def _deliver(s: State, run_id: str, mail: Mail) -> None:
    run = s.runs.get(run_id)
    if run is not None:
        run.ready.append(mail)


@folds(waiting.SignalReceived)
def _signal_received(s: State, e: ControlEvent, d: waiting.SignalReceived, seq: int) -> None:
    if d.get("heartbeat"):
        for wait in (w for run in s.runs.values() for w in run.waits if "heartbeat" in w and signal_name(w) == d["name"]):
            wait["beat_by"] = beat_by(wait["heartbeat"], e.ts)
        return
    received: Signal = {"id": d["id"], "name": d["name"], "data": d.get("data")}
    if "error" in d:
        received["error"] = d["error"]
    s.signals.append(received)
    s.seen_signals.append(d["id"])
    record_author(s, "answer", d.get("by"))


@folds(waiting.SignalMatched)
def _signal_matched(s: State, e: ControlEvent, d: waiting.SignalMatched, seq: int) -> None:
    s.signals = [x for x in s.signals if x["id"] != d["signal"]]
    mail: Mail = {"wait_id": d["wait_id"], "kind": "signal", "data": d.get("data")}
    if (error := d.get("error")) is not None:
        mail["error"] = error
    _deliver(s, d["run"], mail)


@folds(waiting.ChildRequested)
def _child_requested(s: State, e: ControlEvent, d: waiting.ChildRequested, seq: int) -> None:
    s.children[d["child"]] = Child(d["run"], d["wait_id"], d["request"].copy())


@folds(waiting.ChildFinished)
def _child_finished(s: State, e: ControlEvent, d: waiting.ChildFinished, seq: int) -> None:
    child = s.children.pop(d["child"], None)
    if child is not None:
        data = {k: d[k] for k in ("status", "result", "error", "execution_id") if k in d}
        _deliver(s, child.run, {"wait_id": child.wait_id, "kind": "child", "data": data})
