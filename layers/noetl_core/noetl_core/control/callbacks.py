"""Records answers to `kind: callback` by token (docs/callbacks.md).

Answers are verified, checked against the schema and recorded once. Early, repeated and late answers get an exact reply. An answer
is first recorded as a signal in the control stream (mailbox rule), so an answer that comes before the run is suspended is not
lost. Of several answers the log records one; replies to the others contain it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from noetl_core.control.core import Control
from noetl_core.engine.callbacks import CallbackTarget, Forged, callback_tasks, target_of, token_of
from noetl_core.engine.outcome import ERROR_KINDS
from noetl_core.engine.records import StreamId
from noetl_core.engine.state import Run, State
from noetl_core.engine.waits import callback_signal, due_at
from noetl_core.events.event import fact
from noetl_core.events.shapes import Wait
from noetl_core.events.waiting import SignalReceived
from noetl_core.expr import is_reference, is_template
from noetl_core.log.stored_values import Values
from noetl_core.ports import NotFound, Unavailable
from noetl_core.values.answer_forms import decision_of
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import to_rfc3339
from noetl_core.values.json_schema import BadSchema, check_schema, problems


class Gone(Exception):
    """The callback no longer waits: it timed out, or the execution ended (HTTP 410). Who acts: nobody."""


class Answered(Exception):
    """Another answer came first (HTTP 409). Who acts: the caller, if the answer mattered."""


class Unfit(Exception):
    """The answer does not conform to the callback's schema; the callback still waits (HTTP 422). Who acts: the caller."""

    def __init__(self, wrong: list[str]) -> None:
        super().__init__("the answer does not match the callback's schema: " + "; ".join(wrong))
        self.wrong = wrong


Became = Literal["answered", "early", "recorded", "alive"]
"""The effect of the answer: it answers an open wait; it is kept for a later wait; the same answer was recorded before; it is a
heartbeat."""


@frozen
class Reply:
    """The status of the execution after an answer or a heartbeat."""

    execution_id: str
    became: Became


@dataclass(slots=True)
class _VisitStatus:
    """The log's information about the visit that a token names: its open wait, an answer, why it ended."""

    state: State
    run: Run | None
    wait: Wait | None = None
    waits: int = 0
    answered: bool = False
    over: str = ""


@frozen
class Question:
    """A callback as the holder of its token sees it. `over` is the reason why it no longer waits; `ready` is False before it
    waits."""

    asked: Mapping[str, Any]
    answered: bool = False
    over: str = ""
    ready: bool = True


def question(control: Control, token: str) -> Question:
    """Return the question of a callback. Nothing is written. Raises `Forged`, `NotFound`, `Unavailable`."""
    target = target_of(token, _key(control))
    visit = _visit_status(control, target)
    view = {} if visit.wait is None or visit.run is None else callback_view(visit.run, visit.wait)
    asked = {"path": visit.state.path, "step": "", **view}
    return Question(asked, visit.answered, visit.over, visit.wait is not None)


def answer(control: Control, token: str, data: Any = None, error: Mapping[str, Any] | None = None) -> Reply:
    """Answer a callback with `data`, or with `error {kind?, message?, code?, retryable?, details?}`.

    Raises `Forged`, `NotFound`, `Unfit`, `Answered`, `Gone`, `Unavailable`.
    """
    target = target_of(token, _key(control))
    visit = _visit_status(control, target)
    response: dict[str, Any] = {"data": data} if error is None else {"error": _error(error)}
    if visit.answered:
        return _again(control, target, response)
    if visit.over:
        raise Gone(visit.over)
    if error is None:
        wrong = problems(data, schema) if (schema := _schema(control, visit, target)) is not None else []
        if wrong:
            raise Unfit(wrong)
    execution_id = target.execution_id
    which = visit.wait["wait_id"] if visit.wait is not None else f"early{visit.waits}"
    signal_id, mine = f"{target.task_run}.{which}", control.clock.nonce()
    if error is None:
        response = {"data": _kept(control, visit.state, signal_id, data)}
    control.due_soon(execution_id)
    received: SignalReceived = {"id": signal_id, "name": callback_signal(target.task_run), "nonce": mine, "by": control.by}
    if error is not None:
        received["error"] = response["error"]
    elif response["data"] is not None:
        received["data"] = response["data"]
    control.route(execution_id, facts=[fact(SignalReceived, **received)])
    recorded = _recorded(control, target, visit.state.seq)
    if recorded is None:
        raise Gone(f"execution {execution_id} ended in the meantime")
    if recorded.get("nonce") != mine:
        return _same(recorded, response, execution_id)
    if visit.wait is not None and not recorded["matched"] and not _waits_still(control, target, visit.wait):
        raise Gone("the callback timed out")
    return Reply(execution_id, "answered" if visit.wait is not None else "early")


def heartbeat(control: Control, token: str) -> Reply:
    """Record a heartbeat of the answerer. Raises `Forged`, `NotFound`, `Answered`, `Gone`, `Unavailable`."""
    target = target_of(token, _key(control))
    visit = _visit_status(control, target)
    if visit.answered:
        raise Answered("the callback has been answered")
    if visit.over:
        raise Gone(visit.over)
    if visit.wait is None:
        return Reply(target.execution_id, "early")
    control.due_soon(target.execution_id)
    beat = fact(SignalReceived, id=control.clock.nonce(), name=callback_signal(target.task_run), heartbeat=True)
    _, beaten = control.record(target.execution_id, beat)
    if not beaten:  # a recent answer counts for both waits, an older one is too late
        after = _visit_status(control, target)
        if after.answered:
            raise Answered("the callback has been answered")
        if after.over:
            raise Gone(after.over)
    return Reply(target.execution_id, "alive")


def open_callbacks(control: Control, execution_id: str) -> list[dict[str, Any]]:
    """Return the callbacks by token for which an execution waits, with their tokens, for callers who may answer.

    Raises `NotFound`.
    """
    state = control.load(execution_id)
    if state.seq < 0:
        raise NotFound(f"there is no execution {execution_id}")
    return [{**callback_view(run, wait), "token": token_for(control, state, run, wait)} for run, wait in callback_waits(state)]


def callback_waits(state: State) -> list[tuple[Run, Wait]]:
    """Return the callbacks by token for which an execution waits."""
    return [
        (run, wait)
        for run in state.runs.values()
        for wait in run.waits
        if "callback" in wait and not any(m["wait_id"] == wait["wait_id"] for m in run.ready)
    ]


def callback_view(run: Run, wait: Wait) -> dict[str, Any]:
    """Return a waiting callback, without its token."""
    public_keys = ("wait_id", "task", "iteration", "description", "heartbeat")
    out: dict[str, Any] = {"step": run.step, **{key: value for key, value in wait.items() if key in public_keys}}
    out |= form_of(wait)
    if (due := due_at(wait)) is not None:
        out["until"] = to_rfc3339(due)
    return out


def form_of(wait: Wait) -> dict[str, Any]:
    """Return the schema that an answer must match, and the `decision` of its buttons, if there are any."""
    if "schema" not in wait:
        return {}
    decision = decision_of(wait["schema"])
    return {"schema": wait["schema"]} | ({} if decision is None else {"decision": decision})


def token_for(control: Control, state: State, run: Run, wait: Wait) -> str:
    """Return the token that answers a waiting callback."""
    playbook = control.playbook(state.digest)
    step = playbook.body(run.step, undo=run.undoes is not None)
    place = next(n for n in callback_tasks(step) if step.tasks[n].name == wait["task"])
    return token_of(CallbackTarget(state.execution_id, run.id, wait["callback"], place), _key(control))


def _key(control: Control) -> bytes:
    if control.callback_key is None:
        raise Unavailable("this service has no key for callback tokens")
    return control.callback_key()


# --- state of the visit in the log -----------------------------------------------------------------------------------------


def _visit_status(control: Control, target: CallbackTarget) -> _VisitStatus:
    """Return the state of a visit. Raises `NotFound`."""
    state = control.load(target.execution_id)
    if state.seq < 0:
        raise NotFound(f"execution {target.execution_id} is not kept any more")
    run = state.runs.get(target.run_id)
    found = _VisitStatus(state, run)
    name = callback_signal(target.task_run)
    if any(s["name"] == name for s in state.signals):
        found.answered = True
    elif state.finished:
        found.over = f"execution {target.execution_id} has ended ({state.status})"
    elif run is None:
        found.over = "the step that asked has ended"
    else:
        _classify_run(control, target, found, run)
    if found.over and any(x.startswith(f"{target.task_run}.") for x in state.seen_signals):
        found.answered = True
    return found


def _waits_still(control: Control, target: CallbackTarget, wait: Wait) -> bool:
    """Return whether an undelivered answer will be delivered later, because the execution is paused."""
    run = control.load(target.execution_id).runs.get(target.run_id)
    if run is None or not any(w["wait_id"] == wait["wait_id"] for w in run.waits):
        return False
    return not any(m["wait_id"] == wait["wait_id"] for m in run.ready)


def _classify_run(control: Control, target: CallbackTarget, found: _VisitStatus, run: Run) -> None:
    """Classify the state of an open run: it waits, has its answer, has left the task, or has not reached it yet."""
    wait = next((w for w in run.waits if w.get("callback") == target.task_run), None)
    mails = {m["wait_id"]: m["kind"] for m in [*run.mail, *run.ready]}
    if wait is None:
        waits, left = _in_stream(control, target)
        found.waits = len(waits)
        if left:
            found.over = "the task that asked has ended"
        elif waits and waits[-1] in mails:
            _delivered(found, mails[waits[-1]])
    elif wait["wait_id"] in mails:
        _delivered(found, mails[wait["wait_id"]])
    else:
        found.wait = wait


def _delivered(found: _VisitStatus, kind: str) -> None:
    if kind == "signal":
        found.answered = True
    else:
        found.over = "the callback timed out"


def _in_stream(control: Control, target: CallbackTarget) -> tuple[list[str], bool]:
    """Return the ids of the waits of the visit so far, in order, and whether the pipeline has left the task."""
    waits: list[str] = []
    left = False
    for commit in control.store.read(StreamId(target.execution_id, target.run_id)):
        for event in commit.events:
            if event.name == "TaskProcessed" and event.data["run"] == target.task_run:
                left = event.data["directive"]["do"] != "retry"
            elif event.name == "StepSuspended":
                waits += [w["wait_id"] for w in event.data["waits"] if w.get("callback") == target.task_run]
    return list(dict.fromkeys(waits)), left


def _recorded(control: Control, target: CallbackTarget, after: int = -1) -> dict[str, Any] | None:
    """Return the newest answer in the control stream after position `after`, and whether a wait received it (`matched`)."""
    name = callback_signal(target.task_run)
    found: dict[str, Any] | None = None
    for commit in control.store.read(StreamId(target.execution_id), after=after):
        for event in commit.events:
            if event.name == "SignalReceived" and event.data["name"] == name and not event.data.get("heartbeat"):
                found = {**event.data, "matched": False}
            elif event.name == "SignalMatched" and found is not None and event.data["signal"] == found["id"]:
                found["matched"] = True
    return found


def _again(control: Control, target: CallbackTarget, response: Mapping[str, Any]) -> Reply:
    recorded = _recorded(control, target)
    if recorded is None:
        raise Gone("the callback was answered")
    if is_reference(recorded.get("data")):
        recorded = {**recorded, "data": Values(control.store, control.results, target.execution_id).reference(recorded["data"])}
    return _same(recorded, response, target.execution_id)


def _same(recorded: Mapping[str, Any], response: Mapping[str, Any], execution_id: str) -> Reply:
    """Accept a repetition of the recorded answer; reject a different one."""
    if (recorded.get("data"), recorded.get("error")) != (response.get("data"), response.get("error")):
        raise Answered("the callback already has a different answer")
    return Reply(execution_id, "recorded")


# --- validation of answers -------------------------------------------------------------------------------------------------


def _schema(control: Control, visit: _VisitStatus, target: CallbackTarget) -> Mapping[str, Any] | None:
    """Return the schema of the open wait. For an early answer, return the schema in the playbook if it has no templates."""
    if visit.wait is not None:
        return visit.wait.get("schema")
    assert visit.run is not None  # a visit without a run is over
    playbook, run = control.playbook(visit.state.digest), visit.run
    step = playbook.body(run.step, undo=run.undoes is not None)
    schema = step.tasks[target.task].inputs.get("schema")
    try:
        check_schema(schema)
    except BadSchema:
        return None
    return None if _has_template(schema) else schema


def _has_template(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_template(v) for v in value.values())
    if isinstance(value, list):
        return any(_has_template(v) for v in value)
    return isinstance(value, str) and is_template(value)


def _error(error: Mapping[str, Any]) -> dict[str, Any]:
    """Return an error answer in the form of a task outcome. Raises `Unfit`."""
    kind = error.get("kind") or "unknown"
    if kind not in ERROR_KINDS:
        raise Unfit([f"error.kind {kind!r} is not one of {', '.join(sorted(ERROR_KINDS))}"])
    message = str(error.get("message") or "answered with an error")
    return {
        **{k: error[k] for k in ("code", "retryable", "details") if error.get(k) is not None},
        "kind": kind,
        "message": message,
    }


def _kept(control: Control, state: State, signal_id: str, data: Any) -> Any:
    """Return the answer, or a reference to it if it exceeds the inline limit."""
    body = json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()
    if len(body) <= control.playbook(state.digest).executor.limits.max_payload_bytes:
        return data
    return dict(control.results.put(f"{state.execution_id}/signals/{signal_id}.json", body))


__all__ = [
    "Answered",
    "Forged",
    "Gone",
    "Reply",
    "Unfit",
    "answer",
    "callback_view",
    "callback_waits",
    "heartbeat",
    "open_callbacks",
    "token_for",
]
