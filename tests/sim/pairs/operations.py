"""The operations that meet. Each returns the evidence that must be in the log at the end, because it was acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from noetl_core.control import callbacks
from noetl_core.control.admit import StartRequest, admit
from noetl_core.control.core import Control
from noetl_core.control.fence import boundary_of
from noetl_core.control.lifecycle import operate
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.control.sweeping.sweep import Swept, reconcile_safely, sweep
from noetl_core.engine.fold.control_stream import fold_commits
from noetl_core.engine.records import StreamId
from noetl_core.engine.redrive.plan import From, Redrive
from noetl_core.engine.state import State
from noetl_core.service import batch as batches
from tests.raw_events import Stored
from tests.sim.pairs.scenes import FIXED, NEWEST, Scene, record_of
from tests.sim.ports import SECOND

Evidence: TypeAlias = Callable[[], bool] | None
"""Returns whether the log contains the acknowledged fact; None if nothing was acknowledged."""
Operation: TypeAlias = Callable[[Scene, Control], Evidence]


def events(scene: Scene, execution_id: str, begin: int = 0) -> list[Stored]:
    """Return the events of a control stream from position `begin`."""
    commits = scene.world.store.streams.get(StreamId(execution_id), [])
    return [event for commit in commits[begin:] for event in commit.events]


def statuses(scene: Scene, execution_id: str, begin: int) -> set[str]:
    """Return the statuses of an execution at position `begin` and after it."""
    state, found = State(execution_id), set[str]()
    for commit in scene.world.store.streams[StreamId(execution_id)]:
        fold_commits(state, [commit])
        if commit.seq >= begin:
            found.add(state.status)
    return found


def _was(scene: Scene, execution_id: str, *wanted: str) -> Callable[[], bool]:
    """Return the evidence that an execution had one of these statuses after now."""
    begin = len(scene.world.store.streams[StreamId(execution_id)]) - 1
    return lambda: bool(statuses(scene, execution_id, begin) & set(wanted))


def pause(scene: Scene, control: Control) -> Evidence:
    seen = _was(scene, scene.names["parent"], "paused")
    operate.pause(control, scene.names["parent"])
    return seen


def resume(scene: Scene, control: Control) -> Evidence:
    seen = _was(scene, scene.names["parent"], "running")
    operate.resume(control, scene.names["parent"])
    return seen


def cancel(scene: Scene, control: Control) -> Evidence:
    seen = _was(scene, scene.names["parent"], "cancelled", "cancelling")
    operate.cancel(control, scene.names["parent"], "enough")
    return seen


def compensate(scene: Scene, control: Control) -> Evidence:
    """Cancel with compensation: the log says that finished steps are to be compensated."""
    execution_id = scene.names["parent"]
    operate.cancel(control, execution_id, "undo", compensate=True)
    return lambda: any(e.name == "ExecutionCancelled" and e.data.get("compensate") for e in events(scene, execution_id))


def pause_child(scene: Scene, control: Control) -> Evidence:
    seen = _was(scene, scene.names["child"], "paused")
    operate.pause(control, scene.names["child"])
    return seen


def signal(scene: Scene, control: Control) -> Evidence:
    return _signalled(scene, control, "parent", "go")


def signal_child(scene: Scene, control: Control) -> Evidence:
    return _signalled(scene, control, "child", "asks")


def _signalled(scene: Scene, control: Control, execution: str, name: str) -> Evidence:
    execution_id, id = scene.names[execution], f"s{scene.world.clock.nonce()}"
    operate.signal(control, execution_id, name, 1, id)
    return lambda: any(e.name == "SignalReceived" and e.data["id"] == id for e in events(scene, execution_id))


def callback(scene: Scene, control: Control) -> Evidence:
    execution_id, data = scene.names["parent"], {"n": scene.world.clock.nonce()}
    callbacks.answer(control, scene.names["token"], data)
    return lambda: any(e.name == "SignalReceived" and e.data.get("data") == data for e in events(scene, execution_id))


def heartbeat(scene: Scene, control: Control) -> Evidence:
    callbacks.heartbeat(control, scene.names["token"])
    return None


def start(scene: Scene, control: Control) -> Evidence:
    """Start an execution that wants a place in the limits of the scene."""
    return _start(scene, control, f"new{scene.world.clock.nonce()}")


def start_same(scene: Scene, control: Control) -> Evidence:
    """Start the same execution as a concurrent caller."""
    return _start(scene, control, "same")


def _start(scene: Scene, control: Control, key: str) -> Evidence:
    started = admit(control, StartRequest(playbook=NEWEST, idempotency_key=key))
    scene.names.setdefault(started.execution_id, started.execution_id)
    return lambda: events(scene, started.execution_id)[0].name == "PlaybookExecutionRequested"


def redrive_with(asked: Redrive, **more: Any) -> Operation:
    """Return the operation that redrives the execution as `asked`."""

    def operation(scene: Scene, control: Control) -> Evidence:
        execution_id, edits = scene.names["parent"], {**asked.ctx, "by": scene.world.clock.nonce()}
        redrive(control, execution_id, Redrive(asked.begin, edits, asked.args), **more)
        return lambda: any(e.name == "ExecutionRedriven" and e.data.get("set") == edits for e in events(scene, execution_id))

    return operation


def redrive_plain(scene: Scene, control: Control) -> Evidence:
    """Redrive without edits: of several that are acknowledged, each has an event of its own."""
    execution_id = scene.names["parent"]
    redrive(control, execution_id, Redrive(None, {}, {}))
    scene.redriven += 1
    return lambda: _plain_redrives(scene, execution_id) >= scene.redriven


def batch(action: batches.Action) -> Operation:
    """Return the operation that does `action` to the execution in a batch of one."""

    def operation(scene: Scene, control: Control) -> Evidence:
        execution_id = scene.names["parent"]
        seen = _was(scene, execution_id, *_SHOWN[action])
        which = batches.Selection(ids=[execution_id])
        done = batches.batch(control, lambda: b"k" * 32, which, action, batches.Arguments())
        if any(one["outcome"] == "done" for one in _outcomes(done)):
            if action == "redrive":
                scene.redriven += 1
                return lambda: _plain_redrives(scene, execution_id) >= scene.redriven
            return seen
        return None

    return operation


def _plain_redrives(scene: Scene, execution_id: str) -> int:
    return sum(e.name == "ExecutionRedriven" and "set" not in e.data for e in events(scene, execution_id))


_SHOWN: Mapping[str, tuple[str, ...]] = {
    "pause": ("paused",),
    "resume": ("running",),
    "cancel": ("cancelling", "cancelled"),
    "redrive": ("running",),
}


def _outcomes(done: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = done["executions"]
    return found


# --- the engine's own operations ----------------------------------------------------------------------------------------------


def timer(scene: Scene, control: Control) -> Evidence:
    """The wait of ten minutes is over, and its wake arrives."""
    scene.world.clock.time += 601 * SECOND
    reconcile_safely(control, scene.names["parent"], Swept())
    return None


def wake(scene: Scene, control: Control) -> Evidence:
    reconcile_safely(control, scene.names["parent"], Swept())
    return None


def sweeps(scene: Scene, control: Control) -> Evidence:
    """All due items are due."""
    scene.world.clock.time += 100 * SECOND
    sweep(control)
    return None


def sweep_limits(scene: Scene, control: Control) -> Evidence:
    assert control.limits is not None
    for key in list(scene.world.places.held):
        control.limits.sweep(control, key)
    return None


def boundary_of_child(scene: Scene, control: Control) -> Evidence:
    """A child's last boundary is routed."""
    return _routed(scene, control, "brief")


def boundary(scene: Scene, control: Control) -> Evidence:
    """The last boundary of the execution is routed."""
    return _routed(scene, control, "parent")


def _routed(scene: Scene, control: Control, execution: str) -> Evidence:
    routed = boundary_of(record_of(scene, execution).commit)
    assert routed is not None
    control.route(scene.names[execution], [routed])
    return None


def grant(scene: Scene, control: Control) -> Evidence:
    """The holder of the limit is cancelled: the next one has its place."""
    seen = _was(scene, scene.names["holder"], "cancelled")
    operate.cancel(control, scene.names["holder"])
    return seen


_OPERATED: Mapping[str, Operation] = {
    "pause": pause,
    "resume": resume,
    "cancel": cancel,
    "signal": signal,
    "sweep": sweeps,
    "wake": wake,
}
_MANY: Mapping[str, Operation] = {
    **_OPERATED,
    "compensate": compensate,
    "signal-child": signal_child,
    "pause-child": pause_child,
    "callback": callback,
    "heartbeat": heartbeat,
    "start": start,
    "redrive": redrive_plain,
    "batch-pause": batch("pause"),
    "batch-resume": batch("resume"),
    "batch-cancel": batch("cancel"),
    "timer": timer,
    "child": boundary_of_child,
    "grant": grant,
    "limits": sweep_limits,
}
OPERATIONS: Mapping[str, Mapping[str, Operation]] = {
    "live": _MANY,
    "paused": _MANY,
    "last": {
        **_OPERATED,
        "end": boundary,
        "redrive": redrive_plain,
        "batch-pause": batch("pause"),
        "batch-cancel": batch("cancel"),
    },
    "ended": {
        **_OPERATED,
        "redrive": redrive_plain,
        "redrive-set": redrive_with(Redrive(None, {"a": 1}, {})),
        "redrive-from": redrive_with(Redrive(From.parse("start"), {}, {})),
        "redrive-version": redrive_with(Redrive(None, {}, {}), version=2),
        "redrive-source": redrive_with(Redrive(None, {}, {}), source=FIXED),
        "batch-redrive": batch("redrive"),
    },
    "line": {**_OPERATED, "start": start, "start-same": start_same, "limits": sweep_limits},
}
"""The operations of each scene, by name: every ordered pair of them is tried."""
