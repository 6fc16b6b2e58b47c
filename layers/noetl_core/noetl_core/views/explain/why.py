"""Explains why a step ran or did not, and how an execution got its status: the facts of `observe.why` and `observe.causes`, with
the log, results and text they come from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from noetl_core.api.refused import BadCursor, BadRequest, nearest
from noetl_core.control.core import Control
from noetl_core.dsl.reading.positions import Positions
from noetl_core.engine.records import Commit, StreamId
from noetl_core.engine.state import State
from noetl_core.expr import TemplateError
from noetl_core.log.stored_values import Values
from noetl_core.observe import findings, sentences
from noetl_core.observe.account import Account, Moment, RunAccount
from noetl_core.observe.causes import Failed, cause, failures, failures_of
from noetl_core.observe.diff import shortened_json
from noetl_core.observe.evaluation import Question, evaluate
from noetl_core.observe.guards import arcs, names_beside, place, scope_of
from noetl_core.observe.retries import retry_of
from noetl_core.observe.why import Explanation
from noetl_core.ports import NotFound, Unavailable
from noetl_core.views.executions import executions
from noetl_core.views.executions.shared_limits import awaited
from noetl_core.views.reading.cursor import place_of
from noetl_core.views.reading.log_parts import LIMITS, LogReader, ReadLimits
from noetl_core.views.reading.log_search import LogSearch
from noetl_core.views.reading.loop_streams import loop_streams
from noetl_core.views.steps.render import keys_beside
from noetl_core.views.steps.task_names import TaskSelector

if TYPE_CHECKING:
    from noetl_core.api.shapes import executions as shapes
    from noetl_core.api.shapes import why as why_shapes
    from noetl_core.engine.routing.passes import RoutingPass

GENERATIONS: Final = 5
"""Maximum depth of child executions searched for the root of a failure."""
Planned = TypeVar("Planned")

_UNDEFINED: Final = re.compile(r"'([^'\n]{1,100})' is undefined: there is no such part of the ")
END: Final = 32
"""Commits at the end of a run's stream that are searched for its failed attempt."""


def why(
    control: Control, execution_id: str, step: str | None = None, at: str | None = None, limits: ReadLimits = LIMITS
) -> why_shapes.Why:
    """Explain a step, or without one the execution.

    With `at`, an event, explain the decisions up to it: up to its own, or, for an event of a run, up to the last one before it.
    Raises `NotFound`, `BadCursor`.
    """
    return _Reading(control, execution_id, limits, at).why(step)


class _Reading:
    """One execution's log, as far as the answer needs it; with `at`, only decisions up to that event."""

    def __init__(self, control: Control, execution_id: str, limits: ReadLimits, at: str | None = None) -> None:
        self._control, self._execution_id, self._limits = control, execution_id, limits
        last = None if at is None else _decided(control, execution_id, at)
        self._state = executions.load(control, execution_id) if last is None else control.load(execution_id, last)
        self._playbook = control.playbook(self._state.digest)
        self._text = Positions(control.catalog.by_digest(self._state.digest).source)
        self._log = LogReader(control, self._state, limits)
        self._search = LogSearch(self._log, self._playbook)
        self._account = self._search.account()

    def _planned(self, plan: Callable[[Account], Planned]) -> Planned:
        """Plan from the commits read so far, and again after each further read."""
        found = plan(self._account)
        while self._search.search_for([*self._account.missing]):
            self._account = self._search.account()
            found = plan(self._account)
        return found

    def why(self, step: str | None) -> why_shapes.Why:
        if step is not None and step not in self._playbook.by_name:
            hint = nearest(step, self._playbook.by_name)
            raise NotFound(f"execution {self._execution_id} has no step {step}" + (f" ({hint})" if hint else ""))
        explanation = self._planned(partial(self._explanation, step))
        unput = self._evaluate(explanation.questions, explanation.at_the_end)
        self._name_retries(explanation)
        self._name_holders(explanation)
        facts = explanation.stated_facts()
        if step is None:
            facts = [*self._whole(self._state), *facts]
        found: why_shapes.Why = {
            "execution_id": self._execution_id,
            "status": cast("shapes.ExecutionStatus", executions.status_of(self._state)),
            "playbook": {"path": self._state.path, "version": self._state.version, "digest": self._state.digest},
            "step": step,
            "causes": self.causes(step),
            "facts": facts,
            "more": explanation.more,
        }
        if not self._account.complete:
            found["partial"] = {"commits": self._state.seq + 1, "read": len(self._log.fetched), "unevaluated": unput}
        return found

    def _explanation(self, step: str | None, account: Account) -> Explanation:
        explanation = Explanation(self._execution_id, self._playbook, self._text, account)
        if step is None:
            findings.find(explanation)
        else:
            explanation.step(step)
        return explanation

    def _evaluate(self, questions: Mapping[Moment, Iterable[Question]], at_the_end: Iterable[Question] = ()) -> int:
        values = Values(self._control.store, self._control.results, self._execution_id)
        near = self._log.limits.near
        return evaluate(self._log, questions, at_the_end, self._state, self._control.playbook, values.supply, near)

    def causes(self, step: str | None = None, generation: int = 0) -> list[why_shapes.Cause]:
        """Return the errors that led to the failure of the execution, or of the newest run of a step, the root first."""
        failed = self._planned(partial(self._failures, step))
        out: list[why_shapes.Cause] = []
        for each in failed:
            out += self._of_child(each, generation)
            out.append(self._cause(each))
        return out

    def _failures(self, step: str | None, account: Account) -> Sequence[Failed]:
        if step is None:
            return failures(account, self._state.failure)
        runs, _ = account.visits(step)
        return failures_of(runs[-1]) if runs else []

    def _cause(self, failed: Failed) -> why_shapes.Cause:
        stream, prefix = self._stream(failed), ""
        if stream:
            prefix = f"{self._execution_id}.{stream[0].stream.run_id}"
        found = cause(failed, self._playbook, self._text, stream, prefix)
        if failed.by_arcs:
            self._place_of_guard(failed, found)
        if (lacking := _UNDEFINED.search(found["message"])) and (hint := self._keys_beside(failed, found, lacking[1])):
            found["hint"] = hint
        if "line" in found and not any("line" in frame for frame in found.get("traceback", ())):
            found["source"] = self._text.source(found["line"], found.get("column", 1), block="task" in found)
        if failed.run is not None and found.get("iteration"):
            loop = loop_streams(self._control, self._state, failed.run.step)
            item = {} if loop is None or loop.run != failed.run.id else loop.item(tuple(found["iteration"]))
            if item:
                found["item"] = shortened_json(item["item"])
        return found

    def _keys_beside(self, failed: Failed, found: why_shapes.Cause, name: str) -> str:
        """Return the keys that exist where a template of a task, of arcs or of `loop.in` found no `name`; empty if not known."""
        run = failed.run
        step = None if run is None else self._playbook.by_name.get(run.step)
        if run is None or step is None:
            return ""
        task = next((each for each in step.tasks if each.name == found.get("task")), None)
        if task is not None and "event_id" in found:
            iteration = tuple(found["iteration"]) if "iteration" in found else None
            selector = TaskSelector(step.name, task.name, iteration)
            source = [task.inputs, task.spec, task.set_iter, task.set_ctx]
            with suppress(BadCursor, BadRequest, NotFound, TemplateError, Unavailable):  # it is an addition
                return keys_beside(self._control, self._execution_id, selector, found["event_id"], source, name)
            return ""
        hints: list[str] = []

        def ask(p: RoutingPass) -> None:
            arcs = step.router.arcs if failed.by_arcs and step.router is not None else ()
            source: list[Any] = [[arc.when, arc.args, arc.set_ctx] for arc in arcs]
            if not failed.by_arcs and step.loop is not None:
                source.append(step.loop.in_)
            hints.append(names_beside(source, name, scope_of(p, run.args, run.boundary if failed.by_arcs else None).lenient()))

        self._evaluate({(run.next or run.at) if failed.by_arcs else run.at: [ask]})
        return hints[-1] if hints else ""

    def _stream(self, failed: Failed) -> Sequence[Commit]:
        run = failed.run
        if run is None or failed.by_arcs:
            return ()
        if run.failed_chunk is not None:
            run = self._account.runs.get(run.failed_chunk, run)
        elif (chunk := self._failed_chunk(run)) is not None:
            last = self._control.store.last(StreamId(self._execution_id, chunk))
            return () if last is None else self._end_of(chunk, last.seq)
        return () if run.seq < 0 else self._end_of(run.id, run.seq)

    def _end_of(self, run: str, seq: int) -> Sequence[Commit]:
        """Return the end of a run's stream, up to a position."""
        return self._control.store.read(StreamId(self._execution_id, run), after=max(-1, seq - END), limit=END + 1)

    def _failed_chunk(self, lead: RunAccount) -> str | None:
        """Return the first failed chunk of a loop, from the state."""
        chunks = () if self._account.complete else [each for each in self._state.ended.failed if each.parent == lead.id]
        return min(chunks, key=lambda each: each.began + each.us).run if chunks else None

    def _place_of_guard(self, failed: Failed, found: Any) -> None:
        """Replace the place of an arcs error by the place of the failed guard."""
        run = failed.run
        step = None if run is None else self._playbook.by_name.get(run.step)
        if run is None or run.next is None or step is None or step.router is None:
            return
        router = step.router

        def ask(p: RoutingPass) -> None:
            judged = arcs(router, step, scope_of(p, run.args, run.boundary), (), self._text)
            wrong = next((a["guard"] for a in judged if a.get("guard", {}).get("error")), None)
            if wrong is not None:
                found.update({key: wrong[key] for key in ("line", "column") if key in wrong})

        self._evaluate({run.next: [ask]})

    def _of_child(self, failed: Failed, generation: int) -> list[why_shapes.Cause]:
        """Return the causes in the child execution that failed."""
        if failed.run is None or failed.by_arcs or generation >= GENERATIONS:
            return []
        for child in self._failed_children(failed.run):
            try:
                below = _Reading(self._control, child, self._limits)
            except NotFound:
                return []
            about: Any = {
                "execution_id": child,
                "playbook": below._state.path,
                "input": shortened_json(executions.input_of(self._control, below._state)),
            }
            return [about | found for found in below.causes(None, generation + 1)]
        return []

    def _failed_children(self, run: RunAccount) -> Iterator[str]:
        """Yield the failed children of a run.

        If only parts of the log were read, yield those that the end of its stream waits for.
        """
        if self._account.complete:
            ends = self._account.children
            requested = [child for child, by in self._account.requested.items() if by == run.id]
            yield from (child for child in requested if child in ends and ends[child].get("error") is not None)
            return
        for commit in self._end_of(run.id, run.seq):
            for event in commit.events:
                for wait in event.data["waits"] if event.name == "StepSuspended" else ():
                    if wait["kind"] == "child" and self._control.load(wait["child"]).failure is not None:
                        yield wait["child"]

    def _name_retries(self, explanation: Explanation) -> None:
        """Add the failed attempt to runs that wait for their next attempt."""
        for fact in explanation.facts:
            wait = fact.get("wait")
            if fact["fact"] != "wait" or wait is None or wait["kind"] != "timer":
                continue
            run = self._account.runs[fact["step_run_id"]]
            found = retry_of(self._end_of(run.id, run.seq), wait)
            if found is not None:
                fact["fact"], fact["text"] = "retry", f"{run.step}: {found}"

    def _name_holders(self, explanation: Explanation) -> None:
        """Add the holders of places to waits for a limit. A wait that several steps share is described once."""
        found, described = {wait["wait_id"]: wait for wait in awaited(self._control, self._state)}, set[str]()
        for fact in explanation.facts:
            if fact["fact"] != "limit" or "wait" not in fact:
                continue
            wait_id = fact["wait"]["wait_id"]
            if wait_id in described:
                fact["text"] = ""
            elif wait_id in found:
                fact["wait"] = found[wait_id]
                fact["text"] = f"{fact['wait'].get('step', 'the execution')} {sentences.limit(fact['wait'])}"
            described.add(wait_id)

    def _whole(self, state: State) -> list[why_shapes.Fact]:
        """Return the state's facts about the execution as a whole."""
        out: list[why_shapes.Fact] = []
        if status := findings.status(state):
            out.append({"fact": "status", "text": status, "depth": 0})
        for step, text, first in findings.iterations(state.steps):
            fact: why_shapes.Fact = {"fact": "iterations", "text": text, "depth": 0, "step": step}
            if first is not None:
                fact["iteration"] = list(first)
            where = self._text.of(self._playbook.by_name[step].path, "loop")
            if where is not None:
                fact["line"], fact["column"] = where
            out.append(fact)
        for group, text in findings.warnings(state, self._playbook):
            out.append(self._placed({"fact": "warning", "text": text, "depth": 0}, group.get("step"), group.get("task")))
        return out

    def _placed(self, fact: why_shapes.Fact, name: str | None, task_name: str | None) -> why_shapes.Fact:
        """Return the fact with its step, and the place of the task or of the step."""
        step = None if name is None else self._playbook.by_name.get(name)
        if step is None:
            return fact
        fact["step"] = step.name
        task = next((t for t in step.tasks if t.name == task_name), None)
        place(fact, self._text, *((step.path, "step") if task is None else (task.path,)))
        if task is not None and "line" in fact:
            fact["source"] = self._text.source(fact["line"], fact.get("column", 1), block=True)
        return fact


def _decided(control: Control, execution_id: str, at: str) -> int:
    """Return the last control commit at an event. Events of one commit were decided together."""
    where = place_of(at, execution_id)
    if where.run is None:
        held = control.store.read(StreamId(execution_id), after=where.seq - 1, limit=1)
        if held and where.place - where.derived < len(held[0].events):
            return where.seq
    state, _ = executions.state_just_after(control, execution_id, at)
    return state.seq
