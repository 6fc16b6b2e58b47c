"""Generated playbook models, normalised as parsing leaves them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from noetl_core.dsl.model import (
    UNSET,
    Admission,
    AdmitRule,
    Arc,
    Cursor,
    Executor,
    Join,
    KeychainEntry,
    Limits,
    Loop,
    Playbook,
    Router,
    Rule,
    Step,
    Task,
    TaskPolicy,
    Then,
)
from noetl_core.values.mappings import deep_merge

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn", "Co"]), max_size=12).map(
    lambda s: s.replace("{", "(").replace("﻿", "")
)
AWKWARD = st.sampled_from(
    ["yes", "012", "1e3", "0o17", "null", "~", "<<", "a: b", "# c", " x ", "- y", "line\nnext\n", "1_000", ".inf", "="]
)
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(allow_nan=False, allow_infinity=False), TEXT, AWKWARD
)
SCALARS = PLAIN | st.sampled_from(["{{ ctx.a }}", "n={{ args.n }}", "{{ workload.list[0] }}"])


def values(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Lists and mappings of such scalars, too."""
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT | AWKWARD, inner, max_size=3), max_leaves=6
    )


VALUES = values(SCALARS)
MAPS = st.dictionaries(NAMES, VALUES, max_size=3)
DEFAULTS = st.dictionaries(NAMES, values(PLAIN | st.just("of {{ execution_id }}")), max_size=3)
"""Defaults of a workload: what they read is there before anything runs."""
SCHEMAS = st.none() | st.just({"required": ["n"], "properties": {"n": {"type": ["integer", "null"], "minimum": 1}}})
WHEN = st.sampled_from(["{{ ctx.a == 1 }}", "{{ true }}", "{{ outcome.status == 'error' }}", "{{ iter.x\n   and ctx.y }}"])
SECONDS = st.none() | st.integers(1, 600) | st.floats(0.5, 600) | st.just("{{ ctx.seconds }}")


def thens(names: list[str]) -> st.SearchStrategy[Then]:
    common = {
        "set_iter": MAPS,
        "set_ctx": MAPS,
        "set_prev": st.just(UNSET) | VALUES,
        "error": st.none() | TEXT,
    }
    retry = {
        "attempts": st.integers(1, 9),
        "backoff": st.sampled_from(["none", "linear", "exponential"]),
        "delay": SECONDS,
        "max_delay": SECONDS,
        "jitter": st.none() | st.booleans() | st.floats(0, 1),
        "backoff_multiplier": st.sampled_from([2.0, 1.5]),
    }
    return st.one_of(
        st.builds(Then, do=st.sampled_from(["continue", "break", "fail"]), **common),
        st.builds(Then, do=st.just("retry"), **retry, **common),
        st.builds(Then, do=st.just("jump"), to=st.sampled_from(names), **common),
        st.builds(Then, do=st.just("break"), scope=st.just("loop"), **common),
    )


@st.composite
def policies(draw: st.DrawFn, names: list[str]) -> TaskPolicy:
    rules = [Rule(draw(WHEN), draw(thens(names))) for _ in range(draw(st.integers(0, 2)))]
    if draw(st.booleans()):
        rules.append(Rule(None, draw(thens(names))))
    hooks = draw(st.sampled_from([{}, {"before": [{"a": 1}]}]))
    return TaskPolicy(tuple(rules), draw(st.sampled_from(["continue", "fail"])), hooks)


INPUTS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "noop": {"result": VALUES},
    "python": {"code": st.just("result = 1\n"), "args": MAPS},
    "http": {"url": st.just("https://x/{{ args.n }}"), "method": st.sampled_from(["GET", "POST"]), "params": MAPS},
    "duckdb": {"command": st.just("SELECT 1"), "params": MAPS},
    "wait": {"seconds": SECONDS.filter(lambda value: value is not None)},
}
SPECS = st.dictionaries(st.sampled_from(["tracing", "resources"]), st.dictionaries(NAMES, SCALARS, max_size=2), max_size=2)


@st.composite
def tasks(draw: st.DrawFn, name: str, names: list[str], outer: dict[str, Any]) -> Task:
    kind = draw(st.sampled_from(sorted(INPUTS)))
    return Task(
        name=name,
        kind=kind,
        inputs={k: draw(v) for k, v in INPUTS[kind].items()},
        spec=deep_merge(outer, draw(SPECS)),
        policy=draw(st.none() | policies(names)),
        set_iter=draw(MAPS),
        set_ctx=draw(MAPS),
        timeout_s=draw(SECONDS),
    )


CURSORS = st.builds(
    Cursor,
    kind=st.just("postgres"),
    fields=st.fixed_dictionaries(
        {"auth": st.just("pg"), "table": st.just("items"), "done": st.just("delete") | st.just({"state": "done"})},
        optional={"where": st.just("state = '{{ workload.state }}'"), "set": st.just({"state": "taken"})},
    ),
    lease_s=st.integers(5, 1000),
)


def claiming(depth: int) -> st.SearchStrategy[Loop]:
    return st.builds(
        lambda loop, cursor, frame: replace(loop, in_=[], cursor=cursor, frame=frame, exec=None, chunk_size=None),
        loops(depth),
        CURSORS,
        st.integers(1, 1000),
    )


def loops(depth: int = 2) -> st.SearchStrategy[Loop]:
    return st.builds(
        Loop,
        in_=st.just("{{ workload.items }}") | st.lists(SCALARS, max_size=2),
        iterator=NAMES.filter(lambda n: n not in ("index", "parent", "args", "ctx", "iter", "loop", "event", "steps")),
        mode=st.sampled_from(["sequential", "parallel"]),
        max_in_flight=st.integers(1, 12),
        exec=st.sampled_from([None, "local", "distributed"]),
        chunk_size=st.none() | st.integers(1, 9),
        commit_every=st.none() | st.integers(1, 9),
        reducers=st.dictionaries(NAMES, st.sampled_from(["last", "sum", "append"]), max_size=2),
        failure_mode=st.sampled_from(["fail_fast", "best_effort"]),
        tolerated_count=st.none() | st.integers(0, 9),
        tolerated_percent=st.none() | st.integers(0, 100),
        inner=st.none() | loops(depth - 1) if depth > 1 else st.none(),
    )


ADMISSIONS = st.builds(
    Admission,
    rules=st.lists(st.builds(AdmitRule, WHEN, st.booleans()), max_size=2).map(lambda r: (*r, AdmitRule(None, True))),
    on_deny=st.sampled_from(["park", "skip", "fail"]),
)
JOINS = st.sampled_from([Join("all"), Join("any"), Join("count", 3)])


@st.composite
def steps(draw: st.DrawFn, name: str, steps_: list[str], outer: dict[str, Any], pool: str) -> Step:
    own = draw(SPECS)
    layers = deep_merge(outer, own)
    labels = draw(st.lists(NAMES.map(lambda n: "t_" + n), min_size=1, max_size=3, unique=True))
    arcs = [
        Arc(i, draw(st.sampled_from(steps_)), draw(st.none() | WHEN), draw(MAPS), draw(MAPS))
        for i in range(draw(st.integers(0, 2)))
    ]
    undo = draw(st.sampled_from([[], ["undo"]]))
    body = tuple(draw(tasks(label, labels, layers)) for label in labels)
    waits = any(task.kind in ("wait", "callback", "playbook") for task in body)
    return Step(
        name=name,
        tasks=body,
        router=draw(st.none() | st.builds(Router, st.just(tuple(arcs)), st.sampled_from(["exclusive", "inclusive"]))),
        loop=draw(st.none() | loops() | claiming(2)) if not waits else draw(st.none() | loops()),
        desc=draw(st.none() | TEXT.filter(str.strip)),
        admission=draw(st.none() | ADMISSIONS),
        join=draw(st.none() | JOINS),
        args=draw(MAPS),
        set_ctx=draw(MAPS),
        pool=draw(st.sampled_from([pool, "other"])),
        timeout_s=draw(SECONDS),
        deadline_s=draw(SECONDS),
        failure_mode=draw(st.sampled_from(["fail_fast", "best_effort"])),
        compensate=tuple(draw(tasks(n, ["undo"], layers)) for n in undo),
        compensate_loop=draw(st.none() | loops().filter(lambda x: x.exec != "distributed")) if undo else None,
        spec=own,
    )


@st.composite
def playbooks(draw: st.DrawFn) -> Playbook:
    outer = draw(SPECS)
    names = draw(st.lists(NAMES.map(lambda n: "s_" + n), min_size=1, max_size=3, unique=True))
    executor = Executor(
        kind=draw(st.none() | NAMES),
        entry_step=draw(st.none() | st.sampled_from(names)),
        result=draw(st.just(UNSET) | VALUES),
        failure_mode=draw(st.sampled_from(["fail_fast", "best_effort"])),
        unconditional_on_failure=draw(st.booleans()),
        reference_first=draw(st.booleans()),
        limits=draw(st.builds(Limits, max_payload_bytes=st.integers(1, 100_000), max_tokens=st.integers(1, 100))),
        timeout_s=draw(SECONDS),
        pool=draw(st.sampled_from(["default", "big"])),
        spec=outer,
    )
    return Playbook(
        name="demo",
        path="team/demo",
        steps=tuple(draw(steps(name, names, outer, executor.pool)) for name in names),
        workload=draw(DEFAULTS),
        inputs=draw(SCHEMAS),
        executor=executor,
        keychain=draw(st.sampled_from([(), (KeychainEntry("k", "secret_manager", {"region": "eu"}),)])),
        workbook={"w": draw(tasks("w", ["w"], {}).filter(lambda t: t.policy is None))} if draw(st.booleans()) else {},
        metadata={"name": "demo", "path": "team/demo", "labels": draw(MAPS)},
    )
