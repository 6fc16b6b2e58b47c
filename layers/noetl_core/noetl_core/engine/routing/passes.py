"""One routing pass: the working state of a decision, and the values its rules may read.

Every change is an event, which is folded into the working state when it is emitted. So all rules read one state, and
replaying the commit gives the same state. Pure: the time `now` and the values of references are passed in, or requested by
`NeedValues`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, NoReturn

from noetl_core.dsl.model import Playbook
from noetl_core.engine.fold.control_stream import fold
from noetl_core.engine.large_values import LargeValues, prefetched, too_much
from noetl_core.engine.needs import AskedNeed, BoundaryNeed, Need, NeedValues, TooMuch, Unreadable, without_reference
from noetl_core.engine.records import ControlEvent, Event
from noetl_core.engine.state import Run, State, StepState, trigger_seen
from noetl_core.engine.warnings import blanks_of
from noetl_core.engine.workload import workload_of
from noetl_core.events import control, limits
from noetl_core.events.event import Keys
from noetl_core.events.shapes import Blank, Counts, Failure, ResultPointer, StepSeen, TokenEvent
from noetl_core.events.table import ENDS_RUN, ends_run
from noetl_core.expr import Pointer, Scope, TemplateError, is_reference, load
from noetl_core.expr.scope import Blanks
from noetl_core.values.frozen import mutable
from noetl_core.values.outlines import Part
from noetl_core.values.result_refs import is_partly_readable, reference_to

MOST_AT_ONCE: Final = 200
"""Maximum number of values of references that a decision requests at once."""


class StepsView(Mapping[str, Mapping[str, Any]]):
    """`steps.<name>.result|status|loop` of finished steps, built when a template reads them (resolution 14)."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Mapping[str, StepState]) -> None:
        self._steps = steps

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        step = self._steps[name]
        return {"status": step.status, "result": result_at(step.at), "loop": step.loop}

    def __iter__(self) -> Iterator[str]:
        return (name for name, step in self._steps.items() if step.at is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def plain(self, names: Iterable[str] | None) -> dict[str, StepSeen]:
        """Return the form that a command carries: pointers stay pointers. Only steps in `names` are included; None means all."""
        found = self._steps.items() if names is None else ((n, self._steps[n]) for n in names if n in self._steps)
        return {name: {"status": s.status, "at": s.at, "loop": s.loop} for name, s in found if s.at is not None}


def result_at(at: ResultPointer | None) -> Any:
    """Return the value of a stored pointer in a scope: a lazy `Pointer`, or the value if the control plane computed it."""
    if at is None:
        return None
    return at["value"] if "value" in at else Pointer(at)


@mutable
class RoutingPass:
    """A decision in progress: `emit` advances `state`; `events` will be committed at `seq`."""

    playbook: Playbook
    state: State
    now: int
    seq: int
    values: Mapping[Need, Any]
    check: Callable[[], None] | None = None
    """Called before each token that moves and each template: its exceptions end the pass."""
    events: list[ControlEvent] = field(default_factory=list)
    objects: list[tuple[str, bytes]] = field(default_factory=list)
    judged: int = -1
    """The `ctx_version` at which the parked tokens were last evaluated; -1 lets all be evaluated again."""
    ended: bool = False
    """True if a step has ended since the parked tokens were last evaluated. Admission may read that."""
    advance: list[str] = field(default_factory=list)
    """Lead runs of distributed loops that a redrive continues: their windows must be filled."""
    issued: list[str] = field(default_factory=list)
    """Tokens of this pass that are not evaluated yet. Older tokens are parked, held by a join, or may not move."""
    arcs: int = 0
    """The number of arcs evaluated since tokens began to move."""
    searched: int = field(init=False)
    """The `ctx_version` for which search attributes are recorded."""
    blanks: Blanks = field(default_factory=dict)
    """The undefined names that counted as empty since `take_blanks`."""
    _workload: dict[str, Any] | None = None
    _large: LargeValues | None = None

    def __post_init__(self) -> None:
        self.searched = -1 if self.state.search is None else self.state.ctx_version

    def emit(self, kind: Callable[Keys, object], /, *_: Keys.args, **data: Keys.kwargs) -> None:
        """Record an event of payload type `kind` (`events.control`) and fold it; keys whose value is None are left out."""
        name = kind.__name__
        payload: Any = {k: v for k, v in data.items() if v is not None}
        event: Any = Event(name, self.now, payload)
        self.events.append(event)
        if name == "TokenEnqueued":
            self.issued.append(payload["token"])
        elif name in ENDS_RUN and ends_run(name, payload):
            self.ended = True
        fold(self.state, event, self.seq)
        if self.state.limits and name in ENDS_RUN and ends_run(name, payload):
            held = self.state.limits.get(f"{self.state.execution_id}/{payload['run']}")
            if held is not None:
                self.emit(limits.LimitReleased, holder=held.holder, key=held.key)

    @property
    def workload(self) -> dict[str, Any]:
        if self._workload is None:
            self._workload = workload_of(self.playbook, self.state)
        return self._workload

    def scope(self, args: Mapping[str, Any], event: Mapping[str, Any] | None = None) -> Scope:
        """Return the names that expressions of the control plane see: no secrets and no names of a pipeline (formal specification
        3.2)."""
        return Scope(
            {
                "workload": self.workload,
                "ctx": self.state.ctx,
                "args": args,
                "steps": StepsView(self.state.steps),
                "execution_id": self.state.execution_id,
                "trigger": trigger_seen(self.state.trigger),
                "event": event or {},
            },
            resolve=self.resolve,
            prefetch=self.prefetch,
            open=self.open,
            strict=self.state.strict,
            blanks=self.blanks,
            check=self.check,
        )

    def take_blanks(self) -> list[Blank] | None:
        """Return and forget the blanks."""
        found = blanks_of(self.blanks)
        self.blanks.clear()
        return found or None

    def resolve(self, ref: Any) -> Any:
        """Return the value of a pointer or a reference, or raise `NeedValues`."""
        if isinstance(ref, Pointer):
            return self.value(("boundary", ref.at["run"], ref.at["seq"])).get("result")
        value = self._object(ref)
        if isinstance(value, TooMuch):
            raise too_much(value.size)
        if isinstance(value, Unreadable):
            raise TemplateError(value.reason)
        looks = is_reference(value) and value["key"] == ref["key"]  # data that only looks like a reference is returned unchanged
        return ref if looks else value

    def open(self, ref: Mapping[str, Any]) -> Part | None:
        """Return a large value of which templates load only the requested parts; None if it is loaded completely."""
        if not is_partly_readable(ref):
            return None
        if self._large is None:  # it refers to this pass, which is then freed by the garbage collector alone
            self._large = LargeValues(self.values, self._ask)
        return self._large.open(ref)

    def behind(self, value: Any, deep: bool) -> Any:
        """Return the value of a reference; with `deep`, also the values of references inside it. Raises as `resolve`."""
        if deep:
            return load(value, self.scope({}))
        return self.resolve(value) if is_reference(value) else value

    def prefetch(self, refs: Iterable[Mapping[str, Any]]) -> None:
        """Request values that are about to be read one after the other: together, because each request restarts the decision."""
        needs = {without_reference(need): need for need in map(prefetched, refs)}
        missing = [need for name, need in needs.items() if name not in self.values]
        if missing:
            self._ask(missing[:MOST_AT_ONCE])

    def value(self, need: BoundaryNeed) -> Any:
        if need not in self.values:
            self._ask([need])
        return self.values[need]

    def _object(self, ref: Mapping[str, Any]) -> Any:
        key: str = ref["key"]
        if ("object", key) not in self.values:
            self._ask([("object", key, ref)])
        return self.values["object", key]

    def _ask(self, needs: Sequence[AskedNeed]) -> NoReturn:
        raise NeedValues(needs, self.objects)

    def carried(self, values: Mapping[str, Any], name: str) -> dict[str, Any]:
        """Return `values` as tokens and ctx carry them: those over the inline limit are references, so that values that are
        passed from step to step do not make events or commands large (resolution 22)."""
        limit = self.playbook.executor.limits.max_payload_bytes
        out = dict(values)
        for n, (key, value) in enumerate(values.items()):
            if type(value) not in (str, list, dict) or not value or is_reference(value):
                continue
            body = json.dumps(value, separators=(",", ":")).encode()
            if len(body) > limit:
                hint = {"type": "list", "length": len(value)} if type(value) is list else {"type": type(value).__name__}
                out[key] = self.stored(f"args/{name}-{n}.json", body, hint)
        return out

    def stored(self, name: str, body: bytes, hint: Any) -> dict[str, Any]:
        """Return a reference to an object of the execution that is stored before the decision is committed."""
        key = f"{self.state.execution_id}/{name}"
        self.objects.append((key, body))
        return {**reference_to(key, body), "schema_hint": hint}

    def require(self, needs: Iterable[BoundaryNeed]) -> None:
        """Ask for all of `needs` at once, where one after the other would be a round each."""
        missing: list[AskedNeed] = [need for need in needs if need not in self.values]
        if missing:
            self._ask(missing)

    def goes_on(self, run: Run) -> bool:
        """Return whether inputs may reach `run`: not while the execution is paused or stuck, and not when the run is to be
        ended."""
        return self.state.status == "running" or (self.state.status == "cancelling" and run.undoes is not None)

    @property
    def is_ending(self) -> bool:
        """Return whether the execution is cancelled, or fails as a whole. Its end evaluates no templates, because they may kill
        processes."""
        failure = self.state.failure
        return self.state.status == "cancelling" or (failure is not None and failure.get("fatal") is True)

    @property
    def evaluates(self) -> bool:
        """Return whether templates may be evaluated: not while the execution is stuck, ending, or marked by an evaluation that
        ended a process."""
        return self.state.status != "stuck" and not self.state.attempts and not self.is_ending

    @property
    def may_schedule(self) -> bool:
        """Return whether runs may be scheduled: not while the execution is paused, cancelling or stuck, and not after an
        unhandled failure (resolution 11) unless `failure.mode` is best_effort."""
        s = self.state
        if s.status != "running":
            return False
        return s.failure is None or (self.playbook.executor.failure_mode == "best_effort" and not s.failure.get("fatal"))

    def fail(self, kind: str, message: str, step: str | None = None, code: str | None = None) -> None:
        """Let the whole execution fail by a decision of the control plane: a template error or a limit."""
        error: Failure = {"kind": kind, "message": message, "retryable": False, "fatal": True}
        if step is not None:
            error["step"] = step
        if code is not None:
            error["code"] = code
        self.emit(control.ExecutionFailing, error=error)


def boundary_event(
    name: str, step: str, run: str, at: ResultPointer | None, *, error: Failure | None = None, loop: Counts | None = None
) -> TokenEvent:
    """Return `event` as tokens store it: `name` in dotted form (resolution 3), and a pointer in place of the result."""
    event: TokenEvent = {"name": name, "step": step, "run_id": run, "at": at}
    if error is not None:
        event["error"] = error
    if loop is not None:
        event["loop"] = loop
    return event


def event_namespace(event: TokenEvent) -> dict[str, Any]:
    """Return `event` as guards read it."""
    out: dict[str, Any] = {k: v for k, v in event.items() if k != "at"}
    out["result"] = result_at(event.get("at"))
    out["status"] = "error" if event["name"] == "step.failed" else "success"
    return out
