"""Why a step ran or did not, and why an execution came to what it did: the facts of `observe.why` and `observe.causes`, with the
log, results and text that they are made from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from noetl_core.control import read
from noetl_core.control.core import Control
from noetl_core.control.limit_views import awaited
from noetl_core.control.refusals import nearest
from noetl_core.dsl.positions import Positions
from noetl_core.engine.records import Commit, StreamId
from noetl_core.engine.state import State
from noetl_core.observe import findings, sentences
from noetl_core.observe.account import Account, evaluate
from noetl_core.observe.causes import Failed, cause, failures, failures_of
from noetl_core.observe.guards import arcs, scope_of
from noetl_core.observe.retries import retry_of
from noetl_core.observe.why import Explanation
from noetl_core.ports import NotFound
from noetl_core.values import Values

if TYPE_CHECKING:
    from noetl_core.client import shapes, why_shapes
    from noetl_core.engine.passes import RoutingPass

GENERATIONS: Final = 5
"""How many executions down the root of a failure is searched: a child of a child ..."""
END: Final = 32
"""Commits at the end of a run's stream that are searched for its failed attempt."""


def why(control: Control, execution_id: str, step: str | None = None, at: str | None = None) -> why_shapes.Why:
    """Explain a step; without one, the execution. With `at`, an event, by what was decided up to it: the decision that it belongs
    to, or for an event of a run the last one before it. Raises `NotFound`, `BadCursor`."""
    return _Reading(control, execution_id, at).why(step)


class _Reading:
    """One execution's log, read once; with `at` as far as it went then."""

    def __init__(self, control: Control, execution_id: str, at: str | None = None) -> None:
        self._control, self._execution_id = control, execution_id
        last = None if at is None else _decided(control, execution_id, at)
        self._commits = control.store.read(StreamId(execution_id), limit=None if last is None else last + 1)
        if not self._commits:
            raise NotFound(f"there is no execution {execution_id}")
        self._account = Account()
        self._account.observe(self._commits)
        self._state = read.load(control, execution_id) if last is None else control.load(execution_id, last)
        self._playbook = control.playbook(self._state.digest)
        self._text = Positions(control.catalog.by_digest(self._state.digest).source)

    def why(self, step: str | None) -> why_shapes.Why:
        if step is not None and step not in self._playbook.by_name:
            hint = nearest(step, self._playbook.by_name)
            raise NotFound(f"execution {self._execution_id} has no step {step}" + (f" ({hint})" if hint else ""))
        explanation = Explanation(self._execution_id, self._playbook, self._text, self._account)
        if step is None:
            findings.find(explanation)
        else:
            explanation.step(step)
        values = Values(self._control.store, self._control.results, self._execution_id)
        state = evaluate(
            self._execution_id,
            self._commits,
            explanation.questions,
            explanation.at_the_end,
            self._control.playbook,
            values.supply,
        )
        self._name_retries(explanation)
        self._name_holders(explanation)
        facts = explanation.told()
        if step is None:
            facts = [*self._whole(state), *facts]
        return {
            "execution_id": self._execution_id,
            "status": cast("shapes.ExecutionStatus", read.status_of(self._state)),
            "playbook": {"path": self._state.path, "version": self._state.version, "digest": self._state.digest},
            "step": step,
            "causes": self.causes(step),
            "facts": facts,
            "more": explanation.more,
        }

    def causes(self, step: str | None = None, generation: int = 0) -> list[why_shapes.Cause]:
        """Return the errors that led to the failure of the execution, or of the newest run of a step, the root first."""
        if step is None:
            failed = failures(self._account, self._state.failure)
        else:
            _, runs = self._account.of_step(step)
            failed = failures_of(runs[-1]) if runs else []
        out: list[why_shapes.Cause] = []
        for each in failed:
            out += self._of_child(each, generation)
            out.append(self._cause(each))
        return out

    def _cause(self, failed: Failed) -> why_shapes.Cause:
        stream, prefix = self._stream(failed), ""
        if stream:
            prefix = f"{self._execution_id}.{stream[0].stream.run_id}"
        found = cause(failed, self._playbook, self._text, stream, prefix)
        if failed.by_arcs:
            self._place_of_guard(failed, found)
        return found

    def _stream(self, failed: Failed) -> Sequence[Commit]:
        run = failed.run
        if run is None or failed.by_arcs:
            return ()
        if run.failed_chunk is not None:
            run = self._account.runs.get(run.failed_chunk, run)
        if run.seq < 0:
            return ()
        return self._control.store.read(StreamId(self._execution_id, run.id), after=max(-1, run.seq - END), limit=END + 1)

    def _place_of_guard(self, failed: Failed, found: Any) -> None:
        """Let an error of arcs stand where the guard that failed does."""
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

        values = Values(self._control.store, self._control.results, self._execution_id)
        commits = [c for c in self._commits if c.seq <= run.next.seq]
        evaluate(self._execution_id, commits, {run.next: [ask]}, (), self._control.playbook, values.supply)

    def _of_child(self, failed: Failed, generation: int) -> list[why_shapes.Cause]:
        """Return the causes in the child whose failure it was."""
        if failed.run is None or failed.by_arcs or generation >= GENERATIONS:
            return []
        for child, run in self._account.requested.items():
            end = self._account.children.get(child)
            if run != failed.run.id or end is None or end.get("error") is None:
                continue
            try:
                below = _Reading(self._control, child)
            except NotFound:
                return []
            return [
                {"execution_id": child, "playbook": below._state.path, **found} for found in below.causes(None, generation + 1)
            ]
        return []

    def _name_retries(self, explanation: Explanation) -> None:
        """Say of runs that wait for their next attempt what failed."""
        for fact in explanation.facts:
            wait = fact.get("wait")
            if fact["fact"] != "wait" or wait is None or wait["kind"] != "timer":
                continue
            run = self._account.runs[fact["step_run_id"]]
            stream = self._control.store.read(StreamId(self._execution_id, run.id), after=max(-1, run.seq - END), limit=END + 1)
            found = retry_of(stream, wait)
            if found is not None:
                fact["fact"], fact["text"] = "retry", f"{run.step}: {found}"

    def _name_holders(self, explanation: Explanation) -> None:
        """Say of what waits for a limit who holds its places. What waits is said once, whatever was asked for is behind it."""
        found, said = {wait["wait_id"]: wait for wait in awaited(self._control, self._state)}, set[str]()
        for fact in explanation.facts:
            if fact["fact"] != "limit" or "wait" not in fact:
                continue
            wait_id = fact["wait"]["wait_id"]
            if wait_id in said:
                fact["text"] = ""
            elif wait_id in found:
                fact["wait"] = found[wait_id]
                fact["text"] = f"{fact['wait'].get('step', 'the execution')} {sentences.limit(fact['wait'])}"
            said.add(wait_id)

    def _whole(self, state: State) -> list[why_shapes.Fact]:
        """Return what the state says of the execution as a whole."""
        out: list[why_shapes.Fact] = []
        if said := findings.status(state):
            out.append({"fact": "status", "text": said, "depth": 0})
        for step, text in findings.iterations(state.steps):
            fact: why_shapes.Fact = {"fact": "iterations", "text": text, "depth": 0, "step": step}
            where = self._text.of(self._playbook.by_name[step].path, "loop")
            if where is not None:
                fact["line"], fact["column"] = where
            out.append(fact)
        return out


def _decided(control: Control, execution_id: str, at: str) -> int:
    """Return the last commit of the control stream at an event. What a commit decided was decided at once."""
    state, where = read.state_just_after(control, execution_id, at)
    return state.seq if where is None or where.run is not None else where.seq
