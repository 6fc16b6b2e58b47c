"""Finds decisions in a long control stream without reading everything before them: runs scheduled or ended, tokens made, the
newest visits of a step, dead ends, failures. A search starts at one of three positions: the one recorded in the first commit of a
run's stream, the instant at which a run ended, or the newest snapshot before the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from noetl_core.dsl.model import Playbook
from noetl_core.engine.records import Snapshot
from noetl_core.engine.state import StepState
from noetl_core.events.event import ControlEvent, closes_run, opens_run
from noetl_core.events.shapes import Failure
from noetl_core.observe.account import VISITS, Account, Missing, dead_ends_of, leads_on
from noetl_core.views.reading.log_parts import LogReader, Predicate


class LogSearch:
    """Reads the parts of a log that an account needs."""

    def __init__(self, log: LogReader, playbook: Playbook) -> None:
        self._log, self._end, self._playbook, self._limits = log, log.end, playbook, log.limits
        self._requested: set[Missing] = set()
        self._newest: dict[str, list[str]] = {}
        self._unchecked = 0
        epoch = self._end.epoch
        if epoch and not log.complete:
            log.search(lambda snap: snap.state["epoch"] < epoch, lambda event: event.name == "ExecutionRedriven")

    def account(self) -> Account:
        """Return the account of the commits that were read."""
        fetched = self._log.fetched
        found = Account(self._end, self._log.complete, self._newest, self._unchecked)
        found.observe(fetched[seq] for seq in sorted(fetched))
        return found

    def search_for(self, missing: Iterable[Missing]) -> bool:
        """Read the parts with the missing facts, within the budget. Return whether anything was searched."""
        looked = False
        for each in missing:
            if each not in self._requested and self._log.searchable:
                self._requested.add(each)
                self._find(each)
                looked = True
        return looked

    def _find(self, missing: Missing) -> None:
        match missing.kind:
            case "run":
                self.scheduled(missing.name, missing.seq)
            case "end":
                self.ended(missing.name, missing.seq)
            case "token":
                self._token(missing.name, missing.seq)
            case "visits":
                self._visits(missing.name)
            case "undone":
                self._undone(missing.name)
            case "left":
                self._left(missing.name)
            case "dead_ends":
                self._dead_ends()
            case "stranded":
                self._stranded()
            case "waiting":
                for run in [run.id for run in self._end.runs.values() if run.waits][: self._limits.steps]:
                    self.scheduled(run)
            case "failure":
                self._failure()

    # --- runs and tokens --------------------------------------------------------------------------------------------------

    def scheduled(self, run: str, seq: int | None = None) -> int | None:
        """Find the commit that scheduled a run; `seq` is where the run ended, if that is known."""

        def matches(event: ControlEvent) -> bool:
            return event.name == "StepScheduled" and event.data["run"] == run

        log = self._log
        known = self._end.runs.get(run)
        at = known.as_of if known is not None else self._as_of(run)
        if at is not None:
            log.fetch(at - self._limits.block // 2, at + self._limits.block // 2)
            if log.scan(at, matches, 1) is not None:
                return at
        if seq is None:
            return None
        found = self._just_before(seq, matches)
        return found if found is not None else log.search(lambda s: s.seq < seq and run not in s.state["runs"], matches)

    def _as_of(self, run: str) -> int | None:
        """Return the position that scheduled a run, from the run's stream; None if no worker began it."""
        first = self._log.commit_of_run(run)
        return next((event.data["as_of"] for event in first.events if event.name == "StepStarted"), None) if first else None

    def _just_before(self, seq: int, matches: Predicate) -> int | None:
        """Return the position of an event among the commits just before `seq`."""
        self._log.fetch(seq - self._limits.block, seq + 1)
        return next(
            (at for at in range(seq, seq - self._limits.block, -1) if any(map(matches, self._log.events(at, at + 1)))), None
        )

    def ended(self, run: str, seq: int) -> int | None:
        """Find the commit where a run ended and its arcs were evaluated; the run was scheduled at `seq`."""

        def matches(event: ControlEvent) -> bool:
            return closes_run(event) and event.data["run"] == run

        log = self._log
        for at in log.fetched:
            if at >= seq and any(map(matches, log.events(at, at + 1))):
                return at
        found = log.scan(seq, matches, self._limits.block)
        if found is None and (ts := self._ended_at(run)) is not None:
            found = log.at_instant(ts, matches)
        return found if found is not None else log.search(lambda s: s.seq < seq or run in s.state["runs"], matches)

    def _ended_at(self, run: str) -> int | None:
        """Return roughly when a run ended, from the state or from the run's stream."""
        ended = self._end.ended
        kept = next((each for each in (*ended.slowest, *ended.failed) if each.run == run), None)
        if kept is not None:
            return kept.began + kept.us
        last = self._log.commit_of_run(run, last=True)
        return None if last is None or not last.wake else last.ts

    def _token(self, token: str, seq: int) -> int | None:
        """Find the commit that made a token which existed at `seq`."""

        def matches(event: ControlEvent) -> bool:
            return event.name == "TokenEnqueued" and event.data["token"] == token

        found = self._just_before(seq, matches)
        if found is not None:
            return found
        return self._log.search(lambda s: s.seq < seq and token not in s.state["tokens"], matches)

    def _gone(self, token: str, seq: int) -> None:
        """Find the end of a token that was made at `seq`."""

        def matches(event: ControlEvent) -> bool:
            match event.name:
                case "StepSkipped" | "TokenExpired":
                    return bool(event.data["token"] == token)
                case "TokenClaimed":
                    return token in event.data["tokens"]
                case "TokenEnqueued":
                    return token in (event.data.get("joined") or ())
            return False

        if token not in self._end.tokens and self._log.scan(seq, matches, self._limits.block) is None:
            self._log.search(lambda s: s.seq < seq or token in s.state["tokens"], matches)

    # --- visits -----------------------------------------------------------------------------------------------------------

    def _visits(self, step: str) -> None:
        """Find the newest visits of a step."""
        count = self._step(step).visits
        most = min(VISITS, count)
        scheduled = [e.data for e in self._tail() if e.name == "StepScheduled"]
        newest = [data["run"] for data in scheduled if data["step"] == step][-most:]
        if len(newest) < most:
            newest = self._known_visits(step, count)[-most:] or self._searched_visits(step, count, most, newest)
        self._newest[step] = newest

    def _known_visits(self, step: str, count: int) -> list[str]:
        """Return the visits of a step if the state names all of them: it keeps open runs and the slowest ones."""
        ended, last = self._end.ended, self._step(step).last_run
        known = {r.id for r in self._end.runs.values() if r.step == step and r.parent is None and r.undoes is None}
        known |= {row.run for row in (*ended.slowest, *ended.failed) if row.kind == "run" and row.step == step}
        known |= set() if last is None else {last}
        if len(known) != count or count > self._limits.steps:
            return []
        found = {run: at for run in known if (at := self.scheduled(run)) is not None}
        return sorted(found, key=lambda run: found[run]) if len(found) == count else []

    def _searched_visits(self, step: str, count: int, most: int, newest: list[str]) -> list[str]:
        """Return the newest visits, of which `newest` are known."""
        found = {count - len(newest) + place + 1: run for place, run in enumerate(newest)}
        for number in range(count - most + 1, count + 1):
            if number not in found and self._log.searchable:
                self.visit(step, number, found)
        return [found[number] for number in sorted(found) if number > count - most]

    def _undone(self, step: str) -> None:
        """Find the newest compensations of a step: they are its newest runs."""
        count, met = self._step(step).opened, 0

        def matches(event: ControlEvent) -> bool:
            nonlocal met
            met += opens_run(event) and event.data["step"] == step
            return met >= count

        compensated = bool(self._playbook.by_name[step].compensate) and count > self._step(step).visits
        if not compensated or any(event.data["step"] == step for event in self._tail() if opens_run(event)):
            return
        snap = self._log.snapshot(lambda s: _opened(s, step) <= count - VISITS)
        met = 0 if snap is None else _opened(snap, step)
        self._log.scan(0 if snap is None else snap.seq + 1, matches)

    def visit(self, step: str, number: int, found: dict[int, str]) -> None:
        """Find the visit of a step with that number, from 1, and visits found on the way."""
        snap = self._log.snapshot(lambda s: _visits(s, step) < number)
        met = 0 if snap is None else _visits(snap, step)

        def matches(event: ControlEvent) -> bool:
            nonlocal met
            if event.name != "StepScheduled" or event.data["step"] != step:
                return False
            met += 1
            found.setdefault(met, event.data["run"])
            return met >= number

        self._log.scan(0 if snap is None else snap.seq + 1, matches)

    def number(self, step: str, seq: int, found: dict[int, str]) -> None:
        """Find which visits of a step a commit scheduled."""
        snap = self._log.snapshot(lambda s: s.seq < seq)
        met = 0 if snap is None else _visits(snap, step)

        def matches(event: ControlEvent) -> bool:
            nonlocal met
            if event.name == "StepScheduled" and event.data["step"] == step:
                met += 1
                found.setdefault(met, event.data["run"])
            return False

        first = 0 if snap is None else snap.seq + 1
        if seq - first < self._limits.scanned:
            self._log.scan(first, matches, seq - first + 1)

    # --- dead ends --------------------------------------------------------------------------------------------------------

    def _left(self, step: str) -> None:
        """Find tokens of a step that nothing consumed: live ones and those with which the execution ended.

        For a step that never ran, also find the newest token of each incoming arc, and its end.
        """
        live = [token.id for token in self._end.tokens.values() if token.step == step]
        for token in live[-VISITS:]:
            self._token(token, self._end.seq)
        self._expired(step)
        if live or self._step(step).visits:
            return
        for source in self._playbook.steps:
            for arc in source.router.arcs if source.router is not None else ():
                count = self._step(source.name).fired.get(str(arc.index), 0)
                if arc.step == step and count and self._log.searchable:
                    self._along(source.name, arc.index, count)

    def _along(self, source: str, arc: int, count: int) -> None:
        """Find the newest token that an arc made, and its end."""
        snap = self._log.snapshot(lambda s: _fired(s, source, arc) < count)
        met = 0 if snap is None else _fired(snap, source, arc)

        def matches(event: ControlEvent) -> bool:
            nonlocal met
            if event.name == "NextEvaluated" and event.data["step"] == source:
                met += any(taken["arc"] == arc for taken in event.data["selected"])
                return met >= count
            return False

        at = self._log.scan(0 if snap is None else snap.seq + 1, matches)
        for event in [] if at is None else [*self._log.events(at, at + 1)]:
            if event.name == "TokenEnqueued" and event.data.get("arc") == arc and at is not None:
                self._gone(event.data["token"], at)

    def _expired(self, step: str | None = None) -> None:
        """Find where tokens were made that expired at the end: of one step, or one for each step and reason."""
        fetched = self._log.fetched
        made = {e.data["token"] for seq in fetched for e in self._log.events(seq, seq + 1) if e.name == "TokenEnqueued"}
        expired: dict[int, dict[str, str]] = {}
        for seq in range(self._log.tail, self._end.seq + 1):
            for event in self._log.events(seq, seq + 1):
                if event.name == "TokenExpired" and event.data["token"] not in made:
                    expired.setdefault(seq, {})[event.data["token"]] = event.data["code"]
        for seq in [*expired][-1:]:
            before = self._log.state(seq - 1)
            seen: dict[tuple[str, str], list[str]] = {}
            for token in before.tokens.values() if before is not None else ():
                if token.id in expired[seq] and step in (None, token.step):
                    seen.setdefault((token.step, expired[seq][token.id]), []).append(token.id)
            for tokens in [*seen.values()][: self._limits.steps]:
                for name in tokens[:1] if step is None else tokens[-VISITS:]:
                    self._token(name, seq)

    def _stranded(self) -> None:
        """Find where live tokens were made, one for each step, and those with which the execution ended."""
        first: dict[str, str] = {}
        for token in self._end.tokens.values():
            first.setdefault(token.step, token.id)
        for name in [*first.values()][: self._limits.steps]:
            self._token(name, self._end.seq)
        self._expired()

    def _dead_ends(self) -> None:
        """Find the newest run that led nowhere, for each step that may have one."""
        looked = 0
        for name, known in self._end.steps.items():
            count = dead_ends_of(known, self._playbook, name)
            if known.last_run is None or count == 0 or not leads_on(self._playbook, name):
                continue
            if any(map(_leads_nowhere(name), self._tail())):
                continue
            if looked >= self._limits.steps or not self._log.searchable:
                self._unchecked += 1
                continue
            looked += 1
            if self._log.searchable and not self._ends_nowhere(known.last_run) and count is not None and self._log.searchable:
                self._log.search(self._before_end(name, count), _leads_nowhere(name))

    def _before_end(self, name: str, count: int) -> Callable[[Snapshot], bool]:
        def before(snap: Snapshot) -> bool:
            stored = snap.state["steps"].get(name)
            return stored is None or (dead_ends_of(StepState(**stored), self._playbook, name) or 0) < count

        return before

    def _ends_nowhere(self, run: str) -> bool:
        at = self.scheduled(run)
        end = None if at is None else self.ended(run, at)
        events = () if end is None else self._log.events(end, end + 1)
        return any(e.name == "NextEvaluated" and e.data["run"] == run and not e.data["selected"] for e in events)

    def _failure(self) -> None:
        """Find the decision with which the execution fails."""
        failure, epoch = self._end.failure, self._end.epoch
        if failure is None:
            return

        def matches(event: ControlEvent) -> bool:
            error = event.data["error"] if event.name == "ExecutionFailing" else None
            error = event.data.get("unhandled") if event.name == "NextEvaluated" else error
            return error is not None and _same(error, failure)

        last = self._step(failure.get("step") or "").last_run
        if last is not None and (at := self.scheduled(last)) is not None:
            self.ended(last, at)
        if not any(map(matches, self._log.events(0, self._end.seq + 1))):
            self._log.search(lambda s: s.state["failure"] is None or s.state["epoch"] < epoch, matches)

    def _tail(self) -> Iterator[ControlEvent]:
        return self._log.events(self._log.tail, self._end.seq + 1)

    def _step(self, name: str) -> StepState:
        return self._end.steps.get(name) or StepState()


def _same(one: Failure, other: Failure) -> bool:
    return (one.get("kind"), one.get("message")) == (other.get("kind"), other.get("message"))


def _visits(snap: Snapshot, step: str) -> int:
    stored = snap.state["steps"].get(step)
    return 0 if stored is None else int(stored["visits"])


def _fired(snap: Snapshot, step: str, arc: int) -> int:
    stored = snap.state["steps"].get(step)
    return 0 if stored is None else int(stored["fired"].get(str(arc), 0))


def _opened(snap: Snapshot, step: str) -> int:
    stored = snap.state["steps"].get(step)
    return 0 if stored is None else int(stored.get("opened", 0))


def _leads_nowhere(name: str) -> Predicate:
    return lambda event: event.name == "NextEvaluated" and event.data["step"] == name and not event.data["selected"]
