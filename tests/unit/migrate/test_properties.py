"""For any legacy playbook: what comes out is valid, loses no comment, needs no second pass, and decides as before."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from noetl_core.dsl.dump import dump
from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.pipelines.pipeline import Pipeline, fold, process
from noetl_core.expr import Scope
from noetl_migrate import migrate
from tests.properties import examples
from tests.unit.dsl.models import playbooks as models
from tests.unit.migrate.legacy import HEAD

ROOT = Path(__file__).parents[3]

# --- legacy playbooks -----------------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c")
TEXTS = st.sampled_from(
    ["{{ workload.n }}", "{{ ctx.x | default(1) }}", "it's {{ workload.n }}", 'say "{{ vars.v }}"', 7, None, [1, "b"]]
)
CONDITIONS = st.sampled_from(
    [
        "{{ outcome.status == 'error' }}",
        "{{ outcome.status == 'success' and outcome.http.status == 200 }}",
        "{{ 'success' == outcome.status or (vars.v | default(0)) > 1 }}",
        "{{ iter.n == 1 }}",
    ]
)


def directives(tasks: Sequence[str]) -> st.SearchStrategy[dict[str, Any]]:
    writes = st.dictionaries(st.sampled_from(["v", "w"]), TEXTS, min_size=1, max_size=2)
    do = st.one_of(
        st.sampled_from([{"do": "continue"}, {"do": "break"}, {"do": "fail"}, {}]),
        st.fixed_dictionaries(
            {"do": st.just("retry"), "attempts": st.integers(1, 5)},
            optional={"backoff": st.sampled_from(["fixed", "linear", "exponential"]), "delay": st.integers(0, 3)},
        ),
        st.builds(lambda to: {"do": "jump", "to": to}, st.sampled_from(tasks)),
    )
    written = st.fixed_dictionaries({}, optional={"set_iter": writes, "set_ctx": writes, "set_vars": writes, "set_prev": TEXTS})
    return st.builds(lambda a, b: {**a, **b}, do, written)


@st.composite
def evals(draw: st.DrawFn, tasks: Sequence[str]) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = [{"expr": draw(CONDITIONS), **draw(directives(tasks))} for _ in range(draw(st.integers(0, 2)))]
    if draw(st.booleans()) or not rules:
        rules.append({"else": draw(directives(tasks)) or {"do": "continue"}})
    return rules


@st.composite
def eval_steps(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """A step of the eval dialect."""
    labels = ["one", "two", "three"][: draw(st.integers(1, 3))]
    step: dict[str, Any] = {"step": name}
    if draw(st.booleans()):
        step["spec"] = {"next_mode": draw(st.sampled_from(["exclusive", "inclusive"]))}
    if draw(st.booleans()):
        step["when"] = draw(st.sampled_from(["{{ workload.n > 0 }}", True, "{{ true }}"]))
    if draw(st.booleans()):
        step["loop"] = {"spec": {"mode": "sequential"}, "in": "{{ workload.items }}", "iterator": "item"}
    tools = []
    for label in labels:
        tool: dict[str, Any] = {"kind": "http", "url": "https://x/{{ vars.v }}", "method": "GET"}
        if draw(st.booleans()):
            tool["eval"] = draw(evals(labels))
        tools.append(draw(st.sampled_from([{label: tool}, {"name": label, **tool}])))
    step["tool"] = tools
    targets = draw(st.lists(st.sampled_from(NAMES), max_size=2))
    if targets:
        step["next"] = [
            {
                "step": t,
                **draw(st.sampled_from([{}, {"when": "{{ event.name == 'step.done' }}"}, {"args": {"x": "{{ vars.w }}"}}])),
            }
            for t in targets
        ]
    return step


WHENS = st.sampled_from(
    [
        "event.name == 'step.enter'",
        "event.name == 'call.done'",
        "event.name == 'call.done' and error is defined and error.status in [500, 503]",
        "event.name == 'call.done' and response is defined and response.paging.hasMore",
        "event.name in ['call.done', 'call.error'] and not error is defined",
        "event.name == 'step.exit' and workload.n > 1",
        "event.name == 'step.exit'",
    ]
)


@st.composite
def entries(draw: st.DrawFn, looped: bool) -> dict[str, Any]:
    """An entry of a case, with actions that go with its event."""
    when = draw(WHENS)
    then: dict[str, Any] = {}
    if "error is defined and" in when and draw(st.booleans()):
        return {"when": f"{{{{ {when} }}}}", "then": {"retry": {"max_attempts": draw(st.integers(1, 4)), "initial_delay": 0}}}
    exit_of_loop = looped and "step.exit" in when
    if draw(st.booleans()):
        then["set"] = draw(st.sampled_from([{"ctx": {"x": 1, "y": "{{ workload.n }}"}}, {"x": [1]}, {"ctx.z": None}]))
    if draw(st.booleans()) and not exit_of_loop:
        then["collect"] = {"from": "workload.n", "into": "seen", "mode": draw(st.sampled_from(["append", "extend"]))}
    if draw(st.booleans()) and not exit_of_loop:
        then["sink"] = {"tool": {"kind": "postgres", "auth": "pg", "command": "INSERT"}, "args": {"v": "{{ workload.n }}"}}
    if draw(st.booleans()):
        then["result"] = {"from": "seen" if not exit_of_loop else "result"}
    if draw(st.booleans()):
        then["next"] = [{"step": draw(st.sampled_from(NAMES)), "args": {"seen": "{{ seen }}", "n": 1}}]
    if "call.done" in when and draw(st.booleans()):
        then["call"] = {"params": {"page": "{{ (response.paging.page | int) + 1 }}"}}
    if not exit_of_loop and draw(st.integers(0, 4)) == 0:
        then[draw(st.sampled_from(["fail", "skip"]))] = True
    return {"when": f"{{{{ {when} }}}}", "then": then}


@st.composite
def case_steps(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """A step of the case dialect."""
    step: dict[str, Any] = {"step": name, "desc": "fetches"}
    looped = draw(st.booleans())
    step["tool"] = {"kind": "http", "url": "https://x/{{ item }}" if looped else "https://x", "params": {"page": 1, "size": 5}}
    if looped:
        step["loop"] = {"in": "{{ workload.items }}", "iterator": "item"}
    if draw(st.booleans()):
        step["vars"] = {"v": "{{ result.x }}"}
    step["case"] = draw(st.lists(entries(looped), min_size=1, max_size=4))
    if draw(st.booleans()):
        step["next"] = draw(st.sampled_from(["a", ["a", "b"], [{"step": "b", "args": {"x": 1}}]]))
    return step


@st.composite
def playbooks(draw: st.DrawFn, steps: Callable[[str], st.SearchStrategy[dict[str, Any]]]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "demo", "path": "team/demo"},
        "workload": {"n": 1, "items": [1, 2]},
    }
    if draw(st.booleans()):
        document["vars"] = {"v": 1}
    document["workflow"] = [draw(steps(name)) for name in NAMES]
    return document


class Indented(yaml.SafeDumper):
    """Lists stand in from their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


@st.composite
def written(draw: st.DrawFn, documents: st.SearchStrategy[dict[str, Any]]) -> str:
    """A document as text: in one of two indentations, with comments and blank lines in between."""

    dumper = draw(st.sampled_from([yaml.SafeDumper, Indented]))
    plain = yaml.dump(draw(documents), Dumper=dumper, sort_keys=False, width=10_000, default_flow_style=False)
    lines = []
    for number, line in enumerate(plain.splitlines()):
        column = len(line) - len(line.lstrip())
        kind = draw(st.integers(0, 12))
        if kind == 0:
            lines.append(" " * column + f"# above {number}")
        elif kind == 1:
            lines.append("")
        lines.append(line + f"   # beside {number}" if kind == 2 else line)
    return "\n".join(lines) + "\n# the end\n"


LEGACY = st.one_of(written(playbooks(eval_steps)), written(playbooks(case_steps)))


def comments(text: str) -> list[str]:
    return sorted(re.findall(r"# (?:above \d+|beside \d+|the end)", text))


@pytest.mark.nightly
@examples(80)
@given(text=LEGACY)
def test_a_migrated_text_is_valid_keeps_comments_and_needs_no_second_pass(text: str) -> None:
    migrated = migrate(text, "flow.yaml")
    if migrated.failed:
        assert migrated.text == text
        assert {d.code for d in migrated.diagnostics if d.severity == "error"} == {"E127"}, "\n".join(
            map(str, migrated.diagnostics)
        )
        return
    assert check(migrated.text)[0] is not None
    assert comments(migrated.text) == comments(text)
    again = migrate(migrated.text, "flow.yaml")
    assert (again.changed, again.text) == (False, migrated.text)


@examples(15)
@given(playbook=models())
def test_canonical_playbooks_are_left_byte_identical(playbook: Any) -> None:
    text = dump(playbook)
    assert (migrate(text).text, migrate(text).changed) == (text, False)


@pytest.mark.parametrize("file", sorted((ROOT / "examples").rglob("playbook.yaml")), ids=lambda f: f.parent.name)
def test_the_examples_are_left_byte_identical(file: Path) -> None:
    text = file.read_text()
    migrated = migrate(text, str(file))
    assert (migrated.text, migrated.changed, migrated.diagnostics) == (text, False, ())


# --- the eval dialect decides as before -----------------------------------------------------------------------------------

Env = Mapping[str, Any]
PREDICATES: dict[str, Callable[[Env], bool]] = {
    "outcome.status == 'error'": lambda e: e["status"] == "error",
    "outcome.status == 'success'": lambda e: e["status"] == "success",
    "outcome.status != 'success'": lambda e: e["status"] != "success",
    "outcome['status'] in ['success', 'odd'] and outcome.result > 2": lambda e: e["status"] == "success" and e["result"] > 2,
    "outcome.http.status in [429, 503]": lambda e: e["http"] in (429, 503),
    "(iter.n | default(0)) < 2": lambda e: e["iter"].get("n", 0) < 2,
    "(vars.v | default(0)) > 1": lambda e: e["vars"].get("v", 0) > 1,
    "ctx.c is defined": lambda e: "c" in e["ctx"],
    "vars.word == 'success'": lambda e: e["vars"].get("word") == "success",
    "_attempt == 2": lambda e: e["attempt"] == 2,
}
VALUES: dict[Any, Callable[[Env], Any]] = {
    1: lambda e: 1,
    2: lambda e: 2,
    "{{ (iter.n | default(0)) + 1 }}": lambda e: e["iter"].get("n", 0) + 1,
    "{{ (vars.v | default(0)) + 1 }}": lambda e: e["vars"].get("v", 0) + 1,
    "{{ outcome.http.status }}": lambda e: e["http"],
}
SCOPES = {"set_iter": ("iter", "n"), "set_vars": ("vars", "v"), "set_ctx": ("ctx", "c")}
STATUS_WORD = "{{ outcome.status }}"
TASKS = ("t0", "t1", "t2")


@st.composite
def rules_of(draw: st.DrawFn) -> dict[str, Any]:
    do = draw(st.sampled_from(["continue", "continue", "retry", "jump", "break", "fail"]))
    rule: dict[str, Any] = {"do": do}
    if do == "retry":
        rule |= {"attempts": draw(st.integers(1, 3)), "backoff": draw(st.sampled_from(["fixed", "linear"])), "delay": 0}
    if do == "jump":
        rule["to"] = draw(st.sampled_from(TASKS))
    for key, (_, name) in SCOPES.items():
        if draw(st.integers(0, 2)) == 0:
            rule[key] = {name: draw(st.sampled_from(sorted(VALUES, key=str)))}
    if draw(st.integers(0, 3)) == 0:
        rule.setdefault("set_vars", {})["word"] = STATUS_WORD
    return rule


@st.composite
def pipelines(draw: st.DrawFn) -> list[dict[str, Any]]:
    tasks = []
    for label in TASKS:
        tool: dict[str, Any] = {"kind": "http", "url": "https://x"}
        if draw(st.integers(0, 4)):
            rules = [
                {"expr": f"{{{{ {draw(st.sampled_from(sorted(PREDICATES)))} }}}}", **draw(rules_of())}
                for _ in range(draw(st.integers(0, 3)))
            ]
            if draw(st.booleans()):
                rules.insert(draw(st.integers(0, len(rules))), {"else": draw(rules_of())})
            if rules:
                tool["eval"] = rules
        tasks.append({label: tool})
    tasks[0]["t0"].setdefault("eval", [{"else": {"do": "continue"}}])
    return tasks


OUTCOMES = st.lists(st.one_of(st.integers(1, 4), st.sampled_from([404, 429, 503])), min_size=12, max_size=12)
"""A result of a success, or the status of an error."""


@dataclass
class Legacy:
    """The eval dialect's rules (its sections 3, 6.3 and 6.4) as a machine of their own."""

    tasks: list[dict[str, Any]]
    scopes: dict[str, dict[str, Any]] = field(default_factory=lambda: {"iter": {}, "vars": {}, "ctx": {}})

    def run(self, outcomes: Sequence[int]) -> list[tuple[str, int, str]]:
        trace, position, attempt = [], 0, 1
        for number in outcomes:
            if position >= len(self.tasks):
                break
            ((label, tool),) = self.tasks[position].items()
            failed = number >= 100
            env = {
                **self.scopes,
                "status": "error" if failed else "success",
                "result": number,
                "http": number if failed else 200,
                "attempt": attempt,
            }
            rule = self._rule(tool.get("eval", []), env) or {"do": "fail" if failed else "continue"}
            for key, (scope, _) in SCOPES.items():
                self.scopes[scope] = {**self.scopes[scope], **{k: self._value(v, env) for k, v in rule.get(key, {}).items()}}
            do = rule["do"]
            if do == "retry" and attempt >= rule["attempts"]:
                do = "fail"
            trace.append((label, attempt, do))
            attempt = attempt + 1 if do == "retry" else 1
            if do == "continue":
                position += 1
            elif do == "jump":
                position = TASKS.index(rule["to"])
            elif do in ("break", "fail"):
                break
        return trace

    @staticmethod
    def _rule(rules: list[dict[str, Any]], env: Env) -> dict[str, Any] | None:
        for rule in rules:
            if "expr" in rule and PREDICATES[rule["expr"][3:-3]](env):
                return rule
        return next((rule["else"] for rule in rules if "else" in rule), None)

    @staticmethod
    def _value(value: Any, env: Env) -> Any:
        return env["status"] if value == STATUS_WORD else VALUES[value](env)


def engine_trace(text: str, outcomes: Sequence[int]) -> tuple[list[tuple[str, int, str]], dict[str, Any]]:
    """Return the pipeline's decisions for the rewritten step."""
    tasks = parse_playbook(text).steps[0].tasks
    pipe = Pipeline("r")
    trace: list[tuple[str, int, str]] = []
    for number in outcomes:
        if pipe.status != "running":
            break
        task = tasks[pipe.pc]
        outcome = (
            Outcome.failed("server_error", "no", http={"status": number})
            if number >= 100
            else Outcome.ok(number, http={"status": 200})
        )
        scope = Scope({"iter": pipe.iter, "ctx": pipe.ctx, "workload": {}}, pipe.locals(task))
        attempt = pipe.attempt
        event, directive = process(pipe, task, outcome, scope, 0, 0)
        fold(pipe, tasks, event)
        trace.append((task.name, attempt, directive.do))
    return trace, pipe.ctx


@examples(150)
@given(tasks=pipelines(), outcomes=OUTCOMES)
def test_pipelines_decide_the_same_directives_as_the_legacy_rules(tasks: list[dict[str, Any]], outcomes: list[int]) -> None:
    text = HEAD + yaml.safe_dump({"workflow": [{"step": "s", "tool": tasks}]}, sort_keys=False)
    migrated = migrate(text)
    assert migrated.changed, migrated.diagnostics
    legacy = Legacy(tasks)
    expected = legacy.run(outcomes)
    trace, ctx = engine_trace(migrated.text, outcomes)
    assert trace == expected
    assert ctx == legacy.scopes["ctx"]
