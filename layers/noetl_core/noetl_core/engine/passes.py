"""One routing pass: the working state of a decision, and what its rules may read.

Every change is an event that is folded into the working state the moment it is emitted, so that the rules read one state and
replaying the commit gives the same one. Pure: `now` is given, values behind references are given or asked for (`NeedValues`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from noetl_core.dsl.model import Playbook
from noetl_core.engine.fold import fold
from noetl_core.engine.records import Event
from noetl_core.engine.state import Run, State, StepState
from noetl_core.engine.workload import workload_of
from noetl_core.events.table import ends_run
from noetl_core.expr import LimitExceeded, Pointer, Scope, TemplateError, is_reference, load
from noetl_core.result_refs import reference_to

Need = tuple[Any, ...]
"""`("boundary", run_id, seq)`: the data of that commit's last event; `("writes", run_id, seq)`: only its `ctx_writes`, which
are small; `("object", key)`: the value behind a reference."""


class NeedValues(Exception):
    """The decision reads values it was not given; fetch them and decide again. Who acts: the shell, at once.

    `objects` are those that the decision itself would store: what it asks for may lie in them.
    """

    def __init__(self, needs: Sequence[Need], objects: Sequence[tuple[str, bytes]] = ()) -> None:
        super().__init__(str(needs[0]))
        self.needs = tuple(needs)
        self.objects = tuple(objects)


@dataclass(frozen=True, slots=True)
class TooMuch:
    """Given in place of a value that is too large to decide on (`size` bytes); reading it fails with `kind: limit`."""

    size: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Given in place of a value that is not there, or is no data; reading it fails with `kind: template`."""

    reason: str


MOST_AT_ONCE: Final = 200
"""Values behind references that a decision asks for in one go."""


class StepsView(Mapping[str, Mapping[str, Any]]):
    """`steps.<name>.result|status|loop` of finished steps, built only when read (resolution 14)."""

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

    def plain(self, names: Iterable[str] | None) -> dict[str, Any]:
        """As a command carries it: pointers stay pointers. Of the finished steps, those in `names`; None: all."""
        found = self._steps.items() if names is None else ((n, self._steps[n]) for n in names if n in self._steps)
        return {name: {"status": s.status, "at": s.at, "loop": s.loop} for name, s in found if s.at is not None}


def result_at(at: Mapping[str, Any] | None) -> Any:
    """What a stored pointer stands for in a scope: a lazy `Pointer`, or the value the control plane made itself."""
    if at is None:
        return None
    return at["value"] if "value" in at else Pointer(at)


@dataclass(slots=True)
class RoutingPass:
    """A decision being made: `state` is owned and advanced by `emit`; `events` is what will be committed at `seq`."""

    playbook: Playbook
    state: State
    now: int
    seq: int
    values: Mapping[Need, Any]
    events: list[Event] = field(default_factory=list)
    objects: list[tuple[str, bytes]] = field(default_factory=list)
    judged: int = -1
    """`ctx_version` at which the parked tokens were last judged; -1 judges them all again."""
    ended: bool = False
    """Whether a step has ended since the parked tokens were last judged: admission may read that."""
    advance: list[str] = field(default_factory=list)
    """Leads of distributed loops that a redrive goes on with: their windows are to be filled."""
    issued: list[str] = field(default_factory=list)
    """Tokens of this pass not judged yet: those of passes before are parked, held by a join, or may not move at all."""
    arcs: int = 0
    """How many arcs were judged since tokens began to move."""
    _workload: dict[str, Any] | None = None

    def emit(self, name: str, /, **data: Any) -> None:
        """Record an event and fold it; keys whose value is None are left out."""
        event = Event(name, self.now, {k: v for k, v in data.items() if v is not None})
        self.events.append(event)
        if name == "TokenEnqueued":
            self.issued.append(data["token"])
        elif ends_run(name, data):
            self.ended = True
        fold(self.state, event, self.seq)

    @property
    def workload(self) -> dict[str, Any]:
        if self._workload is None:
            self._workload = workload_of(self.playbook, self.state)
        return self._workload

    def scope(self, args: Mapping[str, Any], event: Mapping[str, Any] | None = None) -> Scope:
        """What control-plane expressions see: no secrets, no pipeline locals (formal spec 3.2)."""
        return Scope(
            {
                "workload": self.workload,
                "ctx": self.state.ctx,
                "args": args,
                "steps": StepsView(self.state.steps),
                "execution_id": self.state.execution_id,
                "event": event or {},
            },
            resolve=self.resolve,
            ahead=self.ahead,
        )

    def resolve(self, ref: Any) -> Any:
        """Value behind a pointer or a reference, or `NeedValues`."""
        if isinstance(ref, Pointer):
            return self.value(("boundary", ref.at["run"], ref.at["seq"])).get("result")
        value = self.value(("object", ref["key"]), ref)
        if isinstance(value, TooMuch):
            raise LimitExceeded(f"a decision reads {value.size} bytes behind one reference; compute what it needs in a task")
        if isinstance(value, Unreadable):
            raise TemplateError(value.reason)
        looks = is_reference(value) and value["key"] == ref["key"]  # what only looks like a reference is given back as it is
        return ref if looks else value

    def behind(self, value: Any, deep: bool) -> Any:
        """The value that a reference stands for; with `deep` those that it holds, too. Raises as `resolve`."""
        if deep:
            return load(value, self.scope({}))
        return self.resolve(value) if is_reference(value) else value

    def ahead(self, refs: Iterable[Mapping[str, Any]]) -> None:
        """Ask for values that are about to be read one after the other: together, as each question is a decision begun anew."""
        missing = {ref["key"]: ("object", ref["key"], ref) for ref in refs if ("object", ref["key"]) not in self.values}
        if missing:
            raise NeedValues(list(missing.values())[:MOST_AT_ONCE], self.objects)

    def value(self, need: Need, ref: Any = None) -> Any:
        try:
            return self.values[need]
        except KeyError:
            raise NeedValues([need if ref is None else (*need, ref)], self.objects) from None

    def carried(self, values: Mapping[str, Any], name: str) -> dict[str, Any]:
        """`values` as tokens and ctx carry them: those over the inline limit are references, so that what is passed on from step
        to step makes no event or command large (resolution 22)."""
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
        """A reference to an object of the execution that is stored before the decision is committed."""
        key = f"{self.state.execution_id}/{name}"
        self.objects.append((key, body))
        return {**reference_to(key, body), "schema_hint": hint}

    def want(self, needs: Iterable[Need]) -> None:
        """Ask for all of `needs` at once, where one after the other would be a round each."""
        missing = [need for need in needs if need not in self.values]
        if missing:
            raise NeedValues(missing, self.objects)

    def goes_on(self, run: Run) -> bool:
        """Whether news may reach `run`: not while paused or stuck, nor once it is to be ended."""
        return self.state.status == "running" or (self.state.status == "cancelling" and run.undoes is not None)

    @property
    def may_schedule(self) -> bool:
        """Nothing new starts while paused, cancelling or stuck, nor after an unhandled failure unless best effort (11)."""
        s = self.state
        if s.status != "running":
            return False
        return s.failure is None or (self.playbook.executor.failure_mode == "best_effort" and not s.failure.get("fatal"))

    def fail(self, kind: str, message: str, step: str | None = None) -> None:
        """The whole execution fails with a decision of its own (a template or limit error)."""
        error = {"kind": kind, "message": message, "retryable": False, "fatal": True}
        if step is not None:
            error["step"] = step
        self.emit("ExecutionFailing", error=error)


def boundary_event(name: str, step: str, run: str, at: Mapping[str, Any] | None, **more: Any) -> dict[str, Any]:
    """`event` as stored with tokens: `name` in dotted form (resolution 3), a pointer instead of the result."""
    return {"name": name, "step": step, "run_id": run, "at": at, **{k: v for k, v in more.items() if v is not None}}


def event_namespace(event: Mapping[str, Any]) -> dict[str, Any]:
    """`event` as guards read it."""
    out = {k: v for k, v in event.items() if k != "at"}
    out["result"] = result_at(event.get("at"))
    out["status"] = "error" if event["name"] == "step.failed" else "success"
    return out
