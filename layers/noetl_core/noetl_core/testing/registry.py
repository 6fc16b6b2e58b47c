"""Answers the tasks of a test by their names. Tasks that touch nothing outside run for real; any other must be scripted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

from noetl_core.dsl.kinds import ENGINE_KINDS, KINDS
from noetl_core.dsl.model import Playbook, Task
from noetl_core.engine.failure_handlers import FOLDER
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Commit
from noetl_core.expr import Scope, TemplateError, is_template, render, truthy
from noetl_core.testing.clock import TestIsOver, VirtualClock
from noetl_core.testing.outcomes import chosen, outcome_of
from noetl_core.testing.runner import WorkerDied
from noetl_core.testing.shapes import CannotHappen, completed
from noetl_core.tools.base import BadInput, Tool, ToolCall
from noetl_core.tools.masking.scrub import Scrubber
from noetl_core.tools.registry import ToolRegistry, UnknownKind

ANSWERS: Final = {
    "http": "{ok: {data: {}}}",
    "postgres": "{ok: {rows: []}}",
    "snowflake": "{ok: {rows: []}}",
    "duckdb": "{ok: {rows: []}}",
}
"""An outcome to paste for a task of a kind."""
SOURCE: Final = "cursor."
"""The prefix of calls that a loop makes to the source of its cursor."""


@dataclass(frozen=True)
class Call:
    """A call of a tool: the name of the task, its kind and its inputs, with secrets masked."""

    task: str
    kind: str
    inputs: Mapping[str, Any]
    attempt: int = 1
    visit: int = 1
    path: tuple[int, ...] = ()
    execution_id: str = ""
    scripted: bool = True
    key: str = ""
    """The idempotency key."""


@dataclass
class Script:
    """The outcomes of one task: entries, or a function of the inputs. `used` are the indexes of the entries that answered."""

    name: str
    entries: list[Any] | Callable[..., Any]
    used: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Unanswered:
    """A call that no entry answers, or only one that cannot happen, or one too many (`answered`)."""

    task: str
    kind: str
    why: str
    answered: bool = False

    @property
    def remedy(self) -> str:
        """Return the lines of the test file that would answer; empty if none would."""
        if self.answered or self.task.rpartition("cursor.")[1]:
            return ""
        return f"tools:\n  {self.task}: {ANSWERS.get(self.kind, '{ok: null}')}"


@dataclass(frozen=True)
class Verbatim:
    """A value whose texts are not templates: the content of a file."""

    value: Any


def rendered(value: Any, scope: Scope) -> Any:
    """Return a scripted value with its templates rendered."""
    if isinstance(value, Verbatim):
        return value.value
    if isinstance(value, Mapping):
        return {key: rendered(each, scope) for key, each in value.items()}
    if isinstance(value, list):
        return [rendered(each, scope) for each in value]
    return render(value, scope) if isinstance(value, str) and is_template(value) else value


def names_of(playbook: Playbook, step: str, task: Task) -> Iterator[str]:
    """Yield the names by which a test may call a task of a step, the most exact one first."""
    for name in (f"{step}.{task.name}", *((f"workbook.{task.entry}",) if task.entry else ())):
        yield f"{playbook.path}#{name}"
        yield name
    if len(playbook.by_name[step].tasks) == 1 and not playbook.by_name[step].compensate:
        yield step


MOST_VISITS: Final = 1_000
"""The most visits of a task by jumps in a test. A pager that never ends would take minutes to come to `max_task_visits`."""


def task_names(playbook: Playbook) -> dict[str, Task]:
    """Return the tasks that a test may script, by all of their names."""
    found: dict[str, Task] = {}
    for step in playbook.steps:
        for task in (*step.tasks, *step.compensate):
            if task.kind not in ENGINE_KINDS:
                found |= dict.fromkeys(names_of(playbook, step.name, task), task)
    return found


class ScriptedRegistry(ToolRegistry):
    """Tools of a test. `calls` are all calls, in order; `unanswered` those that fail the test."""

    def __init__(self, scripts: Iterable[Script], clock: VirtualClock, secrets: Iterable[Any] = ()) -> None:
        super().__init__()
        self.clock = clock
        self.limit: float = inf
        """The most calls that it answers."""
        self.dies_after = 0
        """The call, counted from 1, after whose answer the worker is killed; 0: none."""
        self.twice = False
        """True if each tool is called twice."""
        self.calls: list[Call] = []
        self.unanswered: list[Unanswered] = []
        self._attempts: set[tuple[str, int]] = set()
        """The keys of calls, with the attempt."""
        self.playbook: Callable[[str], Playbook] = _unknown
        """Returns the playbook of an execution."""
        self.scripts = {script.name: script for script in scripts}
        self._standing: dict[str, Tool] = {}
        self._runs: dict[tuple[str, str], list[str]] = {}
        """The runs of each step of each playbook, in the order in which they were scheduled."""
        self.scrubber = Scrubber()
        for secret in secrets:
            self.scrubber.learn(secret)

    def get(self, kind: str) -> Tool:
        return self._standing.setdefault(kind, _ScriptedTool(kind, self))

    def real(self, kind: str) -> Tool:
        """Return the tool that a run has. Raises `UnknownKind`."""
        return super().get(kind)

    def inline(self, kind: str) -> bool:
        return True  # one thread for each command, so that a test gives the same each time

    def warm(self, kinds: Iterable[str]) -> None:
        """Start nothing ahead: most tests run no tool."""

    def is_first(self, call: ToolCall) -> bool:
        """Return whether the attempt has not been made before; a killed worker has made it before its successor."""
        before = len(self._attempts)
        self._attempts.add((call.task_run_id, call.attempt))
        return len(self._attempts) > before

    def see(self, commit: Commit) -> None:
        """Take note of the runs that a commit schedules."""
        for event in commit.events:
            if event.name == "StepScheduled":
                playbook = self.playbook(commit.stream.execution_id)
                self._runs.setdefault((playbook.path, event.data["step"]), []).append(event.data["run"])

    def run_of(self, call: ToolCall) -> int:
        """Return the ordinal of the run of the step, from 1."""
        runs = self._runs.get((self.playbook(call.execution_id).path, call.step), ())
        return runs.index(call.step_run) + 1 if call.step_run in runs else 1

    def script_of(self, call: ToolCall) -> tuple[str, Script | None]:
        """Return the name of the task of a call, and its script if it has one."""
        name = f"{call.step}.{call.task}"
        playbook = self.playbook(call.execution_id)
        step = playbook.by_name.get(call.step)
        tasks = () if step is None else (*step.tasks, *step.compensate)
        task = next((task for task in tasks if task.name == call.task), None)
        names = [f"{playbook.path}#{name}", name] if task is None else names_of(playbook, call.step, task)
        return name, next((self.scripts[each] for each in names if each in self.scripts), None)


def _unknown(execution_id: str) -> Playbook:
    raise LookupError(execution_id)


class _ScriptedTool:
    """Answers every task of a kind."""

    inline = True

    def __init__(self, kind: str, registry: ScriptedRegistry) -> None:
        self.kind, self._registry = kind, registry

    def run(self, call: ToolCall) -> Outcome:
        number = len(self._registry.calls) + 1
        outcome = self._outcome(call)
        if self._registry.twice:
            outcome = self._outcome(call)
        if number == self._registry.dies_after:
            raise WorkerDied
        return outcome

    def _outcome(self, call: ToolCall) -> Outcome:
        registry = self._registry
        if len(registry.calls) >= registry.limit:
            raise TestIsOver
        name, script = registry.script_of(call)
        if call.visit > MOST_VISITS:
            why = f"it is visited more than {MOST_VISITS:,} times: does the jump to it end?"
            registry.unanswered.append(Unanswered(name, self.kind, why, answered=True))
            raise TestIsOver
        inputs = registry.scrubber.value(dict(call.inputs))
        scripted = script is not None
        place = (call.attempt, call.visit, call.path, call.execution_id)
        repeated = not registry.is_first(call)
        registry.calls.append(Call(name, call.kind, inputs, *place, scripted, call.task_run_id))
        known = KINDS.get(call.kind)
        if script is not None:
            return self._answer(name, script, call, repeated)
        if registry.playbook(call.execution_id).path.startswith(FOLDER):
            return Outcome.ok(None)  # a notification of a failure
        if known is not None and known.inside({**call.spec, **call.inputs}):
            try:
                return registry.real(call.kind).run(call)
            except UnknownKind as unknown:
                return self._missing(name, str(unknown))
        if call.task.startswith(SOURCE):
            return self._missing(name, "loops with a cursor cannot be tested: their source cannot be scripted")
        return self._missing(name, "no outcome is scripted, and it would reach outside the test")

    def _answer(self, name: str, script: Script, call: ToolCall, repeated: bool) -> Outcome:
        try:
            entry = self._entry(script, call, repeated)
            outcome = outcome_of(completed(call.kind, entry, call.inputs, call.spec), dict(call.inputs), call.spec)
        except (BadInput, CannotHappen, TemplateError) as error:
            return self._missing(name, str(error))
        seconds = 0.0 if repeated and self._registry.twice else float(entry.get("seconds", 0))
        if call.timeout_s is not None and seconds > call.timeout_s:
            self._registry.clock.sleep(call.timeout_s)
            return Outcome.failed("timeout", f"{call.kind}: no answer within {call.timeout_s:g} s")
        self._registry.clock.sleep(seconds)
        return outcome

    def _entry(self, script: Script, call: ToolCall, repeated: bool) -> Mapping[str, Any]:
        """Return the entry that answers a call, with its templates rendered."""
        if callable(script.entries):
            return _of_function(script.entries(**call.inputs))
        run = self._registry.run_of(call)
        place = {"run": run, "visit": call.visit, "attempt": call.attempt, "path": list(call.path)}
        scope = Scope({"inputs": call.inputs, **place}, call.names)
        entry = chosen(
            script.entries,
            call,
            lambda when: truthy(when, scope) if isinstance(when, str) else bool(when),
            run,
            repeated=repeated,
        )
        script.used.add(next(i for i, each in enumerate(script.entries) if each is entry))
        return {key: rendered(value, scope) if key in ("ok", "error") else value for key, value in entry.items()}

    def _missing(self, name: str, why: str) -> Outcome:
        self._registry.unanswered.append(Unanswered(name, self.kind, why))
        return Outcome.failed("unsupported", f"test: {name}: {why}", retryable=False)


def _of_function(answer: Any) -> Mapping[str, Any]:
    """Return the entry for the return value of a function: an outcome as in a test file, or the result itself."""
    return answer if isinstance(answer, Mapping) and answer.keys() & {"ok", "error"} else {"ok": answer}
