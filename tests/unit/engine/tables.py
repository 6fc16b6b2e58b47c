"""Tables of the pure core: each row is a state that a history led to, the news, and the events and effects they lead to.

A `Table` has the text of a playbook; a `Row` what came `before` (one decision each) and the `news` that are decided on.
Events and effects are lines of text in which runs go by their step: `load`, `load#2` (its second run), `load[0]` (a chunk),
`undo load` (a compensation). Times are seconds since the start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from textwrap import dedent
from typing import Any

from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import parse_playbook
from noetl_core.engine.decide import Decision, NewExecution, decide, digest_for, start
from noetl_core.engine.dispatch.effects import effects_of
from noetl_core.engine.fold.control_stream import fold_commits
from noetl_core.engine.needs import Need, NeedValues
from noetl_core.engine.records import Boundary, Commit, StreamId, control_events
from noetl_core.engine.redrive.lineage import lineage_of
from noetl_core.engine.redrive.plan import From, Redrive, plan
from noetl_core.engine.state import State
from noetl_core.events import control, waiting
from noetl_core.events.event import Fact, new
from noetl_core.events.shapes import Parent
from tests.raw_events import Stored, stored
from tests.unit.engine.table_text import SECOND, START, effect_line, event_line

EXECUTION = "42"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tables/t}\n"
PARENT: Parent = {"execution_id": "7", "run_id": "r7", "depth": "1"}

FACTS: Mapping[str, Callable[..., Any]] = {
    "pause": control.ExecutionPaused,
    "resume": control.ExecutionResumed,
    "cancel": control.ExecutionCancelled,
    "fail": control.ExecutionFailing,
    "stuck": control.ExecutionStuck,
    "signal": waiting.SignalReceived,
    "child": waiting.ChildFinished,
}
News = Callable[["History"], None]
"""Adds boundaries and facts to what a history decides on next, or moves its clock."""


# --- news ---------------------------------------------------------------------------------------------------------------


def done(run: str, result: Any = None, **data: Any) -> News:
    """A step run ended well; `data` is what its last event says besides."""
    return _boundary(run, "StepDone", result=result, **data)


def failed(run: str, kind: str = "server_error", **data: Any) -> News:
    return _boundary(run, "StepFailed", error={"kind": kind, "message": f"{run} failed"}, **data)


def loop_done(run: str, total: int, failures: int = 0, result: Any = None, **data: Any) -> News:
    """A loop that one worker carried out has ended, or a chunk of a distributed one."""
    return _boundary(run, "LoopChunkDone", total=total, succeeded=total - failures, failed=failures, result=result, **data)


def suspended(run: str, *waits: Mapping[str, Any], **data: Any) -> News:
    """A run waits."""

    def add(history: History) -> None:
        timed = [{k: START + v * SECOND if k in ("at", "beat_by") else v for k, v in wait.items()} for wait in waits]
        history.boundary(run, "StepSuspended", {"waits": timed, **data})

    return add


def sliced(run: str, items: int, size: int, window: int = 2, **plan: Any) -> News:
    """A worker handed its loop over, to be distributed."""
    cut = {"total": items, "chunk_size": size, "chunks": -(-items // size), "window": window, "per_chunk": 1, **plan}
    return suspended(run, loop=cut)


def _boundary(run: str, name: str, **data: Any) -> News:
    return lambda history: history.boundary(run, name, data)


def again(run: str) -> News:
    """The newest boundary of a run, delivered once more."""
    return lambda history: history.boundaries.append(history.last[run])


def fact(kind: str, **data: Any) -> News:
    """Something that happened outside the runs."""
    return lambda history: history.facts.append(new(FACTS[kind], 0, **data))


def redrive(begin: str | None = None, **asked: Any) -> News:
    """An operator runs it again, from where it failed or from `begin`."""
    return lambda history: history.facts.append(history.redriven(Redrive(From.parse(begin) if begin else None, **asked)))


def at(seconds: float) -> News:
    """Time has passed: it is `seconds` after the start."""

    def move(history: History) -> None:
        history.now = START + int(seconds * SECOND)

    return move


def both(*news: News) -> News:
    """Several at once, decided on together."""

    def add(history: History) -> None:
        for one in news:
            one(history)

    return add


def timer(seconds: float, wait_id: str = "w") -> dict[str, Any]:
    return {"wait_id": wait_id, "kind": "timer", "task": "t", "at": seconds}


def signal(name: str, wait_id: str = "w", **more: Any) -> dict[str, Any]:
    return {"wait_id": wait_id, "kind": "signal", "task": "t", "signal": name, **more}


def child(name: str, wait_id: str = "w", **request: Any) -> dict[str, Any]:
    return {"wait_id": wait_id, "kind": "child", "task": "t", "child": name, "path": "sub/p", "args": {}, **request}


# --- a history ----------------------------------------------------------------------------------------------------------


@dataclass
class History:
    """One execution, decided step by step on a fresh fold of its log; `labels` are the names of its runs and tokens."""

    playbook: Playbook
    payload: Mapping[str, Any] = field(default_factory=dict)
    parent: Parent | None = None
    now: int = START
    commits: list[Commit] = field(default_factory=list)
    boundaries: list[Boundary] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    last: dict[str, Boundary] = field(default_factory=dict)
    values: dict[Need, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> State:
        return fold_commits(State(EXECUTION), self.commits)

    def boundary(self, run: str, name: str, data: Mapping[str, Any]) -> None:
        run_id = self.runs[run]
        open_run = self.state.runs[run_id]
        found = Boundary(run_id, open_run.expected_seq + 1, stored(name, self.now, data))
        self.last[run] = found
        self.boundaries.append(found)
        self.values[("boundary", run_id, found.seq)] = found.event.data
        if "ctx_writes" in data:
            self.values[("writes", run_id, found.seq)] = data["ctx_writes"]

    def redriven(self, asked: Redrive) -> Fact:
        return new(
            control.ExecutionRedriven, 0, **plan(self.state, lineage_of(self.commits), self.playbook, self.playbook, asked).data
        )

    def decide(self, news: News | None) -> Decision:
        """Decide on news, and commit; None starts the execution."""
        if news is not None:
            news(self)
        decision = self._decided(first=news is None)
        if decision.events:
            commit = Commit(StreamId(EXECUTION), decision.seq, self.now, "w", decision.events, expires_at=EXPIRES_AT)
            self.commits.append(commit)
            for event in decision.events:
                self._name(event)
        self.boundaries, self.facts = [], []
        return decision

    def _decided(self, *, first: bool) -> Decision:
        while True:
            try:
                if first:
                    new = NewExecution(
                        EXECUTION, "tables/t", 1, self.payload, {}, parent=self.parent, trace_id="trace", expires_at=EXPIRES_AT
                    )
                    return start(self.playbook, new, self.now, self.values)
                state = self.state
                assert digest_for(state, self.facts) == self.playbook.digest
                return decide(self.playbook, state, self.boundaries, self.facts, self.now, self.values)
            except NeedValues as missing:
                raise AssertionError(f"the history does not say {missing.needs}") from None

    def _name(self, event: Stored) -> None:
        """Runs and tokens by names; of several runs of a step the later ones are numbered, and the plain name is the newest's."""
        d = event.data
        match event.name:
            case "TokenEnqueued":
                self.labels[d["token"]] = d["step"]
            case "StepScheduled":
                visits = sum(label.split("#")[0] == d["step"] for run, label in self.labels.items() if run.startswith("r"))
                numbered = f"{d['step']}#{visits + 1}"
                self._name_run(d["run"], d["step"] if visits == 0 else numbered, d["step"], numbered)
            case "LoopChunkScheduled":
                self._name_run(d["run"], f"{self.labels[d['parent']]}[{d['chunk']}]")
            case "CompensationStarted":
                self._name_run(d["run"], f"undo {self.labels[d['of']]}")
            case "StopStarted":
                self._name_run(d["run"], f"stop {self.labels[d['of']]}")

    def _name_run(self, run: str, label: str, *names: str) -> None:
        self.labels[run] = label
        self.runs.update(dict.fromkeys((label, *names), run))


EXPIRES_AT = START // SECOND + 3_000_000
"""The expiry of every log here (seconds): later than any deadline."""


# --- tables -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One case: its name says what holds, `then` the events and behind `=>` the effects, or `nothing`. News of None: the start."""

    name: str
    news: News | None
    then: str
    before: Sequence[News] = ()


@dataclass(frozen=True)
class Table:
    """Rows about one playbook: its `workflow`, and what stands above it. `parent`: it is a sub-playbook's execution."""

    workflow: str
    rows: Sequence[Row]
    head: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    parent: Parent | None = None

    def check(self, row: Row) -> None:
        """Decide as the row says; and whatever it is, what is derived from the log alone is the same."""
        history = History(parsed(self.workflow, self.head), self.payload, self.parent)
        if row.news is not None:
            for news in (None, *row.before):
                history.decide(news)
        stood = len(history.commits)
        decision = history.decide(row.news)
        came = [event_line(event, history.labels) for event in decision.events]
        came += [f"=> {effect_line(effect, history.labels)}" for effect in decision.effects]
        wanted = _lines(row.then)
        assert (came or ["nothing"]) == wanted, "\n".join(["came:", *came, "wanted:", *wanted])
        self._derive_again(history, stood, decision)

    def _derive_again(self, history: History, stood: int, decision: Decision) -> None:
        state = history.state
        assert asdict(decision.state) == asdict(state), "the state of a decision is the fold of the log behind it"
        if len(history.commits) > stood:
            derived = effects_of(history.playbook, state, control_events(history.commits[-1]), history.now)
            assert derived == decision.effects, "effects follow from the log alone"


def cases(*tables: Table) -> dict[str, Any]:
    """The rows of tables, as `pytest.mark.parametrize` takes them."""
    rows = [(table, row) for table in tables for row in table.rows]
    names = [row.name for _, row in rows]
    assert len(set(names)) == len(names), "names of rows are unique"
    return {"argnames": ("table", "row"), "argvalues": rows, "ids": names}


_known: dict[str, Playbook] = {}


def parsed(workflow: str, head: str = "") -> Playbook:
    text = HEAD + dedent(head) + "workflow:\n" + dedent(workflow).lstrip("\n")
    if text not in _known:
        _known[text] = parse_playbook(text)
    return _known[text]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]
