"""Generated playbooks, each with an oracle: a plain interpreter of the specification, independent of the engine.

The answers of tasks are functions of name, visit and attempt, so that crashes and redeliveries change nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from hypothesis import strategies as st

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from tests.sim.ports import Faults

faults = st.one_of(
    st.just(Faults()),
    st.builds(
        Faults,
        seed=st.integers(0, 10_000),
        crash=st.sampled_from([0, 0.03]),
        throttle=st.sampled_from([0, 0.03]),
        lost_answer=st.sampled_from([0, 0.1]),
        duplicate=st.sampled_from([0.2, 1.0]),
        lose_record=st.sampled_from([0, 0.2]),
        delay=st.sampled_from([0, 0.5]),
    ),
)
"""Arbitrary faults of deliveries, except that no message is lost forever."""


def is_abandoned(faults: Faults, error: Mapping[str, Any] | None) -> bool:
    """Return whether so many workers in a row died that the control plane had to give up a run."""
    return faults.crash > 0 and error is not None and error["kind"] == "lost"


def playbook(steps: list[dict[str, Any]], path: str = "sim/generated") -> str:
    head = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "g", "path": path}}
    return yaml.safe_dump({**head, "workflow": steps}, sort_keys=False)


# --- pipelines --------------------------------------------------------------------------------------------------------------

CONDITIONS = {
    "error": "{{ outcome.status == 'error' }}",
    "ok": "{{ outcome.status == 'ok' }}",
    "often": "{{ (iter.n | default(0)) < 3 }}",
    "second": "{{ _attempt == 2 }}",
}
BUMP = {"n": "{{ (iter.n | default(0)) + 1 }}"}


@dataclass(frozen=True)
class GenRule:
    """`when` None: else."""

    when: str | None
    do: str
    to: int = 0
    attempts: int = 1
    delay: float = 0
    ctx: bool = False
    bump: bool = False

    def as_dict(self) -> dict[str, Any]:
        then: dict[str, Any] = {"do": self.do}
        if self.do == "jump":
            then["to"] = f"t{self.to}"
        if self.do == "retry":
            then |= {"attempts": self.attempts, "delay": self.delay}
        if self.bump:
            then["set_iter"] = BUMP
        if self.ctx:
            then["set_ctx"] = {"seen": "{{ (ctx.seen | default([])) + [_task ~ _attempt] }}"}
        return {"else": {"then": then}} if self.when is None else {"when": CONDITIONS[self.when], "then": then}


@dataclass(frozen=True)
class GenTask:
    """`fails` says for each call, in order, whether the tool fails; a wait always succeeds."""

    fails: tuple[bool, ...]
    rules: tuple[GenRule, ...] | None
    wait: int | None = None


@dataclass
class Expected:
    """The expected outcome of a pass: (task, visit, attempt, directive) in order, the error's kind, the result, ctx."""

    trace: list[tuple[str, int, int, str]] = field(default_factory=list)
    error: str | None = None
    result: Any = None
    ctx: dict[str, Any] = field(default_factory=dict)


def failing(task: GenTask, visit: int, attempt: int) -> bool:
    return task.wait is None and task.fails[(visit * 2 + attempt) % len(task.fails)]


def value(name: str, visit: int, attempt: int) -> str:
    return f"{name}/{visit}/{attempt}"


@st.composite
def pipelines(draw: Any) -> tuple[GenTask, ...]:
    count = draw(st.integers(1, 4))
    found = []
    for n in range(count):
        rules = None
        if draw(st.integers(0, 3)):
            rules = tuple(_rule(draw, count, when) for when in draw(st.lists(st.sampled_from(list(CONDITIONS)), max_size=3)))
            if draw(st.booleans()):
                rules = (*rules, _rule(draw, count, None))
            rules = rules or None
        fails = tuple(draw(st.lists(st.booleans(), min_size=1, max_size=4)))
        wait = draw(st.sampled_from([60, 2_000])) if n and draw(st.integers(0, 5)) == 0 else None
        found.append(GenTask(fails, rules, wait))
    return tuple(found)


def _rule(draw: Any, count: int, when: str | None) -> GenRule:
    do = draw(st.sampled_from(["continue", "retry", "break", "fail"] + (["jump"] if when == "often" else [])))
    return GenRule(
        when,
        do,
        to=draw(st.integers(0, count - 1)),
        attempts=draw(st.integers(1, 3)),
        delay=draw(st.sampled_from([0, 1, 300])),
        ctx=draw(st.booleans()),
        bump=do == "jump" or (when == "often" and draw(st.booleans())),
    )


def tasks_of(tasks: tuple[GenTask, ...]) -> list[dict[str, Any]]:
    out = []
    for n, task in enumerate(tasks):
        one: dict[str, Any] = {"name": f"t{n}", "kind": "http", "url": "http://x"}
        if task.wait is not None:
            one = {"name": f"t{n}", "kind": "wait", "duration": task.wait, "result": "rested"}
        if task.rules is not None:
            one["spec"] = {"policy": {"rules": [rule.as_dict() for rule in task.rules]}}
        out.append(one)
    return out


def tool_for(tasks: tuple[GenTask, ...]) -> Any:
    def tool(call: ToolCall) -> Outcome:
        task = tasks[int(call.task[1:])]
        if failing(task, call.visit, call.attempt):
            return Outcome.failed("server_error", call.task)
        return Outcome.ok(value(call.task, call.visit, call.attempt))

    return tool


def expected(tasks: tuple[GenTask, ...]) -> Expected:
    """The oracle (formal specification 6, resolutions 6, 7 and 8)."""
    out, n, pc, attempt = Expected(), 0, 0, 1
    visits: Counter[int] = Counter()
    while pc < len(tasks):
        task, name, visit = tasks[pc], f"t{pc}", visits[pc] + 1
        failed = failing(task, visit, attempt)
        facts = {"error": failed, "ok": not failed, "often": n < 3, "second": attempt == 2, None: True}
        rule = next((r for r in task.rules or () if facts[r.when]), None)
        do = rule.do if rule is not None else "fail" if failed and task.rules is None else "continue"
        exhausted = do == "retry" and rule is not None and attempt >= rule.attempts
        if rule is not None:
            n += rule.bump
            if rule.ctx:
                out.ctx = {"seen": [*out.ctx.get("seen", []), f"{name}{attempt}"]}
        out.trace.append((name, visit, attempt, "fail" if exhausted else do))
        if do == "retry" and not exhausted:
            attempt += 1
            continue
        visits[pc], attempt_was, attempt = visit, attempt, 1
        if not failed:
            out.result = "rested" if task.wait is not None else value(name, visit, attempt_was)
        if do == "fail" or exhausted:
            out.error = "server_error" if failed else "limit" if exhausted else "unknown"
            return out
        if do == "break":
            return out
        pc = rule.to if do == "jump" and rule is not None else pc + 1
    return out


# --- loops ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GenLoop:
    items: int
    mode: str
    where: str
    window: int
    size: int | None
    failing: frozenset[int]
    fail_fast: bool
    tolerated: int
    inner: int
    wait: bool

    def step(self) -> dict[str, Any]:
        policy: dict[str, Any] = {
            "exec": self.where,
            "failure": {"mode": "fail_fast" if self.fail_fast else "best_effort"},
            "reducers": {"sum": "sum"},
        }
        if self.fail_fast:
            policy["failure"]["tolerated_count"] = self.tolerated
        spec: dict[str, Any] = {"mode": self.mode, "max_in_flight": self.window, "policy": policy}
        if self.size is not None:
            spec["chunk_size"] = self.size
        loop: dict[str, Any] = {"in": f"{{{{ range({self.items}) | list }}}}", "iterator": "i", "spec": spec}
        at = "{{ iter.i }}"
        if self.inner:
            loop["loop"] = {"in": f"{{{{ range({self.inner}) | list }}}}", "iterator": "j", "spec": {"mode": "sequential"}}
            at = "{{ iter.parent.i }}-{{ iter.j }}"
        wait = [{"name": "nap", "kind": "wait", "duration": 100}] if self.wait else []
        sums: dict[str, Any] = {"do": "continue", "set_ctx": {"sum": 1}}
        if self.mode == "sequential" or self.inner:
            sums = {"do": "continue"}
        rules = [{"when": "{{ outcome.status == 'ok' }}", "then": sums}, {"else": {"then": {"do": "fail"}}}]
        body = {"name": "body", "kind": "http", "url": f"http://x/{at}", "spec": {"policy": {"rules": rules}}}
        return {"step": "start", "loop": loop, "tool": [*wait, body]}

    def tool(self, call: ToolCall) -> Outcome:
        at = str(call.inputs["url"]).removeprefix("http://x/")
        if int(at.split("-")[0]) in self.failing:
            return Outcome.failed("server_error", at)
        return Outcome.ok(at)

    @property
    def fails(self) -> bool:
        """Return whether the loop fails (resolution 9): failed iterations over the tolerance, in fail_fast mode."""
        return self.fail_fast and len(self.failed) > self.tolerated

    @property
    def failed(self) -> list[int]:
        return [n for n in range(self.items) if n in self.failing]

    def results(self) -> list[Any]:
        """Results in index order; failed iterations are null (resolution 23)."""
        one = (lambda n: [f"{n}-{j}" for j in range(self.inner)]) if self.inner else (lambda n: str(n))
        return [None if n in self.failing else one(n) for n in range(self.items)]


@st.composite
def loops(draw: Any) -> GenLoop:
    items = draw(st.sampled_from([0, 1, 2, 3, 5, 8, 12]))
    failing_ones = draw(st.frozensets(st.integers(0, 11), max_size=draw(st.sampled_from([0, 0, 3]))))
    return GenLoop(
        items,
        draw(st.sampled_from(["sequential", "parallel", "parallel"])),
        draw(st.sampled_from(["local", "distributed"])),
        draw(st.integers(1, 6)),
        draw(st.sampled_from([None, 1, 2, 5])),
        failing_ones,
        draw(st.booleans()),
        draw(st.integers(0, 2)),
        inner=0 if failing_ones else draw(st.sampled_from([0, 0, 2])),
        wait=draw(st.booleans()),
    )


# --- joins ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GenStep:
    """`arcs`: (target, taken). `join`: None, all, any, or a count. `admits`: whether its guard lets tokens in."""

    arcs: tuple[tuple[int, bool], ...]
    join: str | int | None
    admits: bool = True
    wait: int = 0


@st.composite
def nets(draw: Any) -> tuple[GenStep, ...]:
    """Steps in layers, with arcs only to lower layers; every run of a step sends tokens along all taken arcs."""
    count = draw(st.integers(2, 7))
    steps = []
    for n in range(count):
        below = list(range(n + 1, count))
        targets = draw(st.lists(st.sampled_from(below), unique=True, max_size=3)) if below else []
        arcs = tuple((t, draw(st.integers(0, 4)) > 0) for t in sorted(targets))
        join = draw(st.sampled_from([None, "all", "all", "any", 2])) if n else None
        steps.append(GenStep(arcs, join, n == 0 or draw(st.integers(0, 6)) > 0, draw(st.sampled_from([0, 0, 30, 700]))))
    return tuple(steps)


def net_steps(net: tuple[GenStep, ...]) -> list[dict[str, Any]]:
    out = []
    for n, step in enumerate(net):
        spec: dict[str, Any] = {}
        if step.join is not None:
            spec["join"] = step.join if isinstance(step.join, str) else {"count": step.join}
        if not step.admits:
            spec["policy"] = {"admit": {"rules": [{"else": {"then": {"allow": False}}}], "on_deny": "skip"}}
        tool: list[dict[str, Any]] = [{"name": "work", "kind": "noop", "args": {"from": "{{ args | default({}) }}"}}]
        if step.wait:
            tool.insert(0, {"name": "nap", "kind": "wait", "duration": step.wait})
        one: dict[str, Any] = {"step": f"s{n}", "tool": tool}
        if spec:
            one["spec"] = spec
        if step.arcs:
            arcs = [{"step": f"s{t}", "when": f"{{{{ {str(taken).lower()} }}}}", "args": {f"s{n}": n}} for t, taken in step.arcs]
            one["next"] = {"spec": {"mode": "inclusive"}, "arcs": arcs}
        out.append(one)
    return out


def net_runs(net: tuple[GenStep, ...]) -> tuple[list[int], dict[int, set[str]]]:
    """The oracle (resolution 13): how often each step runs, and from which steps the only run of a join `all` gets its arguments."""
    tokens: list[list[int]] = [[] for _ in net]
    tokens[0] = [-1]
    runs = [0] * len(net)
    met: dict[int, set[str]] = {}
    for n, step in enumerate(net):
        came = len(tokens[n])
        need = step.join if isinstance(step.join, int) else 1
        times = came if step.join is None else int(came >= need)
        runs[n] = times if step.admits else 0
        if step.join == "all" and runs[n]:
            met[n] = {f"s{m}" for m in tokens[n]}
        for target, taken in step.arcs:
            if taken:
                tokens[target] += [n] * runs[n]
    return runs, met
