"""Explains why a step of an execution ran, or why not: back along arcs, joins and admission to the cause (docs/looking.md,
"Why"). Every sentence is about a recorded fact. Guards are evaluated again in the state in which they were decided, so that
the values which they read can be shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from noetl_core.dsl.model import Arc, Playbook, Step
from noetl_core.dsl.reading.positions import Positions
from noetl_core.engine.routing.passes import RoutingPass
from noetl_core.observe import guards, sentences
from noetl_core.observe.account import Account, Moment, RunAccount, TokenAccount, leads_on
from noetl_core.observe.evaluation import Question
from noetl_core.observe.progress import join_progress, limit_wait, loop_progress, standstill
from noetl_core.values.instants import SECOND, to_rfc3339

if TYPE_CHECKING:
    from noetl_core.api.shapes.why import Fact, FactKind

VISITS: Final = 5
"""Maximum number of visits of a step that are explained, from the newest."""
DEEPEST: Final = 25
"""Maximum number of steps followed back to a cause."""
MOST_FACTS: Final = 400
WAITED_S: Final = 1
"""Shortest wait for a place in a limit that is mentioned."""


@dataclass(slots=True)
class Explanation:
    """Facts about one execution.

    They are planned from the account; the questions add the values that guards read; `finish` adds facts from the last state.
    """

    execution_id: str
    playbook: Playbook
    text: Positions
    account: Account
    facts: list[Fact] = field(default_factory=list)
    questions: dict[Moment, list[Question]] = field(default_factory=dict)
    at_the_end: list[Question] = field(default_factory=list)
    more: int = 0
    _explained: set[str] = field(default_factory=set)
    """Steps and runs that were explained already."""

    def step(self, name: str) -> None:
        """Explain a step: the newest of its visits, or why there is none."""
        (runs, ran), (left, remained) = self.account.visits(name), self.account.left(name)
        runs, left = runs[-VISITS:], left[-VISITS:]
        self.more = ran - len(runs) + remained - len(left)
        if ran and not runs:
            self.unread(f"why {name} ran", 0, name)
        for run in runs:
            self._visit(run)
        for token in left:
            self._stranded(token, 0)
        for undo in self.account.undone(name)[-VISITS:]:
            what = "the run that stops the outside work of" if undo.stops else "the compensation of"
            self._ran(undo, "compensated", f"{what} {name} {self._came_to(undo)}")
        if not ran and not remained:
            self._not_reached(name, 0)

    def dead_end(self, run: RunAccount, count: int) -> None:
        """Add that no arc of a run fired."""
        fact = self._fact("dead_end", "", 0, run.step, run.next, run.id)
        step = self._step(run.step)
        if step is not None:
            self._judge(fact, run, step, only=None)
        if count > 1:

            def others(_: RoutingPass) -> None:
                fact["text"] += f" (the newest of {count} such ends)"

            self._ask(run.next, others)

    def stranded(self, token: TokenAccount) -> None:
        """Explain why a token was not consumed."""
        self._stranded(token, 0, origin=False)

    def waits(self, run: RunAccount, depth: int) -> None:
        """Add the waits of a run."""
        for each in run.waits:
            fact = self._fact("wait", f"{run.step}: {sentences.wait(each)}", depth, run.step, None, run.id)
            fact["wait"] = {**each}
            step = self._step(run.step)
            task = next((t for t in step.tasks if t.name == each.get("task")), None) if step is not None else None
            if task is not None:
                guards.place(fact, self.text, task.path)

    # --- a visit ----------------------------------------------------------------------------------------------------------

    def _visit(self, run: RunAccount) -> None:
        self._origin(run, 0)
        self._admitted(run, 0)
        self._waited(run)
        kind: FactKind = "failed" if run.status == "error" else "open" if run.status == "open" else "ran"
        self._ran(run, kind, f"{run.step} {self._came_to(run)}")
        self._outgoing(run)

    def _came_to(self, run: RunAccount) -> str:
        if run.error is not None:
            return f"failed: {run.error.get('kind')}: {run.error.get('message')}"
        counts = run.boundary.get("loop") if run.boundary is not None else None
        let_pass = f"; {counts['failed']:,} of {counts['total']:,} iterations failed" if counts and counts["failed"] else ""
        return sentences.run(run.step, run.status).removeprefix(f"{run.step} ") + let_pass

    def _ran(self, run: RunAccount, kind: FactKind, text: str) -> None:
        fact = self._fact(kind, text, 0, run.step, run.ended or run.at, run.id)
        self._place(fact, self._step(run.step), "step")
        if run.status == "open":
            self.waits(run, 0)
            if not run.waits:
                self.at_the_end.append(loop_progress(fact, run))

    def _outgoing(self, run: RunAccount) -> None:
        step = self._step(run.step)
        if run.next is None or step is None or not leads_on(self.playbook, run.step):
            return
        fact = self._fact("arcs", "", 0, run.step, run.next, run.id)
        self._judge(fact, run, step, only=None)

    def _origin(self, run: RunAccount, depth: int) -> None:
        """Explain the origin of a run, back to the entry."""
        if run.id in self._explained or depth > DEEPEST or len(self.facts) > MOST_FACTS:
            return
        self._explained.add(run.id)
        for name in run.tokens:
            if (token := self.account.token(name, run.at.seq)) is not None:
                self._token_origin(token, depth)
            else:
                self.unread(f"what led to {run.step}", depth, run.step)

    def _token_origin(self, token: TokenAccount, depth: int) -> None:
        if token.joined:
            merged = [each for name in token.joined if (each := self.account.token(name, token.at.seq)) is not None]
            sources = [self._source(t) for t in merged]
            step = self._step(token.step)
            rule = sentences.join(step.join) if step is not None and step.join is not None else "join"
            tokens = "token" if len(merged) == 1 else "tokens"
            self._fact(
                "joined",
                f"the {rule} of {token.step} merged {len(merged)} {tokens}, from {sentences.listed(sources)}",
                depth,
                token.step,
                token.at,
            )
            for each in merged:
                self._token_origin(each, depth + 1)
            if len(merged) < len(token.joined):
                self.unread(f"where the other {len(token.joined) - len(merged)} tokens came from", depth + 1, token.step)
            return
        if token.restored:
            self._fact("redriven", f"a redrive put the token of {token.step} back", depth, token.step, token.at)
        source = None if token.run is None else self.account.run(token.run, token.at.seq)
        if source is None:
            if token.run is not None:
                self.unread(f"what led to {token.step}", depth, token.step)
            elif not token.restored:
                self._fact("entry", f"{token.step} is the step that the execution begins with", depth, token.step, token.at)
            return
        step = self._step(source.step)
        fact = self._fact("arc", f"an arc of {source.step} led to {token.step}", depth, source.step, source.next, source.id)
        if step is not None and source.next is not None:
            self._judge(fact, source, step, only=token.arc)
        self._origin(source, depth + 1)

    def _source(self, token: TokenAccount) -> str:
        run = None if token.run is None else self.account.run(token.run, token.at.seq)
        return run.step if run is not None else "the start" if token.event is None else token.event["step"]

    def _admitted(self, run: RunAccount, depth: int) -> None:
        step = self._step(run.step)
        if step is None or step.admission is None:
            return
        for name in run.tokens:
            token = self.account.tokens.get(name)
            if token is None or token.fated is None or token.restored:
                continue
            if token.parked is not None:
                self._admission(step, token, token.parked, depth, f"{step.name} was not admitted at first")
            word = "was not admitted" if run.error is not None and run.error.get("kind") == "admission" else "was admitted"
            self._admission(step, token, token.fated, depth, f"{step.name} {word}")

    def _waited(self, run: RunAccount) -> None:
        """Add the time that a run waited for its place in a limit, if it was long."""
        for name in run.tokens:
            place = self.account.places.get(name)
            waited = (place.granted.ts - place.requested.ts) / SECOND if place is not None and place.granted is not None else 0
            if place is not None and waited >= WAITED_S:
                text = f"{run.step} waited {waited:,.1f} s for a place in limit {place.key}"
                self._place(self._fact("limit", text, 0, run.step, place.granted, run.id), self._step(run.step), "step")

    def _admission(self, step: Step, token: TokenAccount, at: Moment | None, depth: int, words: str) -> None:
        fact = self._fact("admission", words, depth, step.name, at)
        self._place(fact, step, "spec", "policy", "admit")

        def ask(p: RoutingPass) -> None:
            assert step.admission is not None
            scope = guards.scope_of(p, token.args, token.event)
            fact["guards"], _ = guards.admission(step.admission.rules, scope, self.text)
            because = "; ".join(sentences.judged(g) for g in fact["guards"]) or "no rule has a condition"
            fact["text"] = f"{words}: {because}"

        self._ask(at, ask)

    # --- steps that did not run -------------------------------------------------------------------------------------------

    def _stranded(self, token: TokenAccount, depth: int, *, origin: bool = True) -> None:
        """Explain a token that no run consumed."""
        self._left(token, depth)
        if origin:
            self._token_origin(token, depth + 1)

    def _left(self, token: TokenAccount, depth: int) -> None:
        """Add the wait of a token, or its end."""
        step = self._step(token.step)
        if token.fate == "skipped":
            refused = self.account.places.get(token.id)
            if refused is not None and refused.reason:
                self._fact("skipped", f"{token.step} was skipped: {refused.reason}", depth, token.step, token.fated)
                return
            self._fact("skipped", f"{token.step} was skipped", depth, token.step, token.fated)
            if step is not None and step.admission is not None:
                self._admission(step, token, token.fated, depth, f"{token.step} was not admitted")
        elif token.fate == "expired":
            _, ran = self.account.visits(token.step)
            words = f"a token came to {token.step} and was dropped" if ran else f"{token.step} did not run"
            fact = self._fact("expired", f"{words}: {token.reason}", depth, token.step, token.fated)
            self._place(fact, step, "step")
            if token.code == "denied" and step is not None and step.admission is not None:
                self._admission(step, token, token.fated, depth, f"{token.step} was not admitted")
            elif token.code == "join":
                self._missing(token.step, depth)
            elif token.code == "ended":
                self._ended(depth)
        elif token.parked is not None and step is not None and step.admission is not None:
            self._admission(step, token, None, depth, f"{token.step} is not admitted")
            self._held(token.step, depth)
        elif step is not None and step.join is not None:
            fact = self._fact("join", f"{token.step} waits for tokens", depth, token.step, token.at)
            self._place(fact, step, "spec", "join")
            self.at_the_end.append(join_progress(fact, step))
            self._held(token.step, depth)
        else:
            self._held(token.step, depth, always=True)

    def _missing(self, name: str, depth: int) -> None:
        """Explain which arcs into a step gave no token."""
        for step, arc in self._into(name):
            runs, ran = self.account.visits(step.name)
            if not ran:
                self._not_reached(step.name, depth + 1)
            elif not self.account.fired(step.name, arc.index):
                self._arc_not_taken(step, arc, runs, depth + 1)

    def _not_reached(self, name: str, depth: int) -> None:
        if name in self._explained or depth > DEEPEST or len(self.facts) > MOST_FACTS:
            return
        self._explained.add(name)
        into = list(self._into(name))
        fact = self._fact("not_reached" if into else "unreachable", f"{name} did not run", depth, name)
        self._place(fact, self._step(name), "step")
        if not into:
            fact["text"] += (
                ": no arc leads to it" if name != self.playbook.entry_step else ": the execution has not begun with it"
            )
        for step, arc in into:
            runs, ran = self.account.visits(step.name)
            if ran:
                self._arc_not_taken(step, arc, runs, depth + 1)
            elif step.name in self._explained:
                continue
            else:
                fact["text"] += (
                    f"; {step.name}, from which an arc leads to it, did not run either" if ";" not in fact["text"] else ""
                )
                left, remained = self.account.left(step.name)
                for token in left[-1:]:
                    self._stranded(token, depth + 1)
                if not remained:
                    self._not_reached(step.name, depth + 1)
        self._ended(depth + 1)

    def _arc_not_taken(self, step: Step, arc: Arc, runs: Sequence[RunAccount], depth: int) -> None:
        """Explain why the newest run of a step sent nothing along an arc."""
        if not runs:
            self.unread(f"why the arc of {step.name} to {arc.step} did not fire", depth, step.name)
            return
        run = runs[-1]
        if run.next is None:
            text = f"{step.name} {self._came_to(run)}" if run.status != "open" else f"{step.name} has not ended yet"
            self._fact("open" if run.status == "open" else "failed", text, depth, step.name, run.ended or run.at, run.id)
            self.waits(run, depth)
            if run.status != "open":
                self._fact("held", f"the arcs of {step.name} were not evaluated", depth, step.name)
            return
        fact = self._fact("arc", f"the arc of {step.name} to {arc.step} did not fire", depth, step.name, run.next, run.id)
        self._judge(fact, run, step, only=arc.index)
        if run.error is not None:
            self._fact("failed", f"{step.name} {self._came_to(run)}", depth, step.name, run.ended, run.id)

    def _ended(self, depth: int) -> None:
        """Add why nothing new was scheduled, if the execution failed or was cancelled."""
        if "" in self._explained or (failed := self.account.failed()) is None:
            return
        self._explained.add("")
        at, error = failed
        self._fact("held", f"the execution failed, and nothing new was scheduled: {error.get('message')}", depth, None, at)

    def _held(self, name: str, depth: int, *, always: bool = False) -> None:
        """Add the reason why a live token does not move."""
        fact = self._fact("held", "", depth, name)

        def ask(p: RoutingPass) -> None:
            use = limit_wait(p.state, name)
            if use is not None:
                fact["fact"] = "limit"
                fact["wait"] = {"kind": "limit", "wait_id": use.holder, "limit": use.key, "since": to_rfc3339(use.asked_at)}
                fact["text"] = f"{use.step or 'the execution'} {sentences.limit(fact['wait'])}"
                if use.step is not None:
                    self._place(fact, self._step(use.step), "spec", "policy", "concurrency")
            else:
                fact["text"] = standstill(p.state) or (f"the token of {name} moves with the next decision" if always else "")

        self.at_the_end.append(ask)

    def _into(self, name: str) -> Iterator[tuple[Step, Arc]]:
        for step in self.playbook.steps:
            for arc in step.router.arcs if step.router is not None else ():
                if arc.step == name:
                    yield step, arc

    # --- facts ------------------------------------------------------------------------------------------------------------

    def _judge(self, fact: Fact, run: RunAccount, step: Step, only: int | None) -> None:
        """Add the evaluation of the arcs of a run to a fact: of all, or of one. Until then it states the decision."""
        router, failed = step.router, run.status == "error"
        arcs = {arc.index: arc for arc in router.arcs} if router is not None else {}
        fact["text"] = fact["text"] or sentences.decided(step.name, [arcs[arc].step for arc in run.selected if arc in arcs])
        for arc in [arc for arc in arcs.values() if only is None or arc.index == only][:1]:
            guards.place(fact, self.text, arc.path)

        def ask(p: RoutingPass) -> None:
            assert router is not None
            scope = guards.scope_of(p, run.args, run.boundary)
            found = guards.arcs(router, step, scope, run.selected, self.text)
            fact["arcs"] = [a for a in found if only is None or a["arc"] == only]
            if run.arcs_error:
                fact["text"] = f"the arcs of {step.name} could not be evaluated: {run.arcs_error}"
            elif only is None and not run.selected:
                fact["text"] = sentences.no_arc(step.name, found, failed=failed)
            else:
                evaluations = "; ".join(sentences.arc(a, failed=failed) for a in fact["arcs"])
                fact["text"] = (
                    f"{sentences.run(step.name, run.status)}; {evaluations}"
                    if only is not None
                    else f"of the arcs of {step.name}, {evaluations}"
                )

        self._ask(run.next, ask)

    def unread(self, what: str, depth: int, step: str | None) -> None:
        """Add that something is in a part of a long log that is not read."""
        if not self.account.complete:
            self._fact("unread", f"{what} was {sentences.NOT_READ}", depth, step)

    def _ask(self, at: Moment | None, question: Question) -> None:
        if at is None:
            self.at_the_end.append(question)
        else:
            self.questions.setdefault(at, []).append(question)

    def _fact(
        self, kind: FactKind, text: str, depth: int, step: str | None, at: Moment | None = None, run: str | None = None
    ) -> Fact:
        fact: Fact = {"fact": kind, "text": text, "depth": depth}
        if step is not None:
            fact["step"] = step
        if run is not None:
            fact["step_run_id"] = run
        if at is not None:
            fact["event_id"], fact["timestamp"] = f"{self.execution_id}.control.{at.seq}.{at.place}", to_rfc3339(at.ts)
        self.facts.append(fact)
        return fact

    def _step(self, name: str) -> Step | None:
        return self.playbook.by_name.get(name)

    def _place(self, fact: Fact, step: Step | None, *below: str) -> None:
        if step is not None:
            guards.place(fact, self.text, step.path, *below)

    def stated_facts(self) -> list[Fact]:
        """Return the facts that have content."""
        return [fact for fact in self.facts if fact["text"]]
