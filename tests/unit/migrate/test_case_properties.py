"""Any mixture of entries does what the case dialect's rules say, by a machine of those rules (its section 1 and "1.3", "1.5")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from tests.properties import examples
from tests.unit.migrate.legacy import HEAD, http_error, run

Env = Mapping[str, Any]
CONDITIONS: dict[str, Callable[[Env], bool]] = {
    "event.name == 'step.enter'": lambda e: e["event"] == "step.enter",
    "event.name == 'step.enter' and workload.n == 1": lambda e: e["event"] == "step.enter",
    "event.name == 'call.done' and response is defined": lambda e: e["event"] == "call.done" and e["response"] is not None,
    "event.name == 'call.done' and response is defined and response.more": lambda e: (
        e["event"] == "call.done" and e["response"] is not None and e["response"]["more"]
    ),
    "event.name == 'call.done' and response is defined and not response.more": lambda e: (
        e["event"] == "call.done" and e["response"] is not None and not e["response"]["more"]
    ),
    "event.name == 'call.done' and error is defined": lambda e: e["event"] == "call.done" and e["error"] is not None,
    "event.name == 'call.done' and error.status == 404": lambda e: e["event"] == "call.done" and e["error"] == 404,
    "event.name == 'call.done'": lambda e: e["event"] == "call.done",
    "event.name in ['step.enter', 'step.exit']": lambda e: e["event"] in ("step.enter", "step.exit"),
    "event.name == 'step.exit'": lambda e: e["event"] == "step.exit",
    "event.name == 'step.exit' and (ctx.x | default(0)) > 1": lambda e: e["event"] == "step.exit" and e["ctx"].get("x", 0) > 1,
}
RETRY = "event.name == 'call.done' and error.status == 503"
VALUES: dict[Any, Callable[[Env], Any]] = {
    1: lambda e: 1,
    "{{ (ctx.x | default(0)) + 1 }}": lambda e: e["ctx"].get("x", 0) + 1,
    "{{ workload.n + 1 }}": lambda e: 2,
}
STEPS = ("one", "two", "three")


@st.composite
def entries(draw: st.DrawFn, looped: bool) -> dict[str, Any]:
    when = draw(st.sampled_from(sorted(CONDITIONS)))
    leaving = "step.exit" in when
    then: dict[str, Any] = {}
    if draw(st.booleans()) and not (leaving and looped):
        then["set"] = {"ctx": {"x": draw(st.sampled_from(sorted(VALUES, key=str)))}}
    if draw(st.booleans()) and not (leaving and looped):
        then["collect"] = {"from": draw(st.sampled_from(["workload.n", "ctx.x | default(0)"])), "into": "seen"}
    if draw(st.integers(0, 2)) == 0 and not looped:
        then["result"] = {"from": draw(st.sampled_from(["workload.n", "ctx.x | default(0)"]))}
    if "response.more" in when and "not " not in when and draw(st.booleans()):
        then["call"] = {"params": {"p": draw(st.sampled_from(sorted(VALUES, key=str)))}}
    elif draw(st.integers(0, 2)) == 0:
        then["next"] = [{"step": draw(st.sampled_from(STEPS[:2]))}]
    elif draw(st.integers(0, 5)) == 0 and not (leaving and looped):
        then[draw(st.sampled_from(["skip", "fail"]))] = True
    return {"when": f"{{{{ {when} }}}}", "then": then}


@st.composite
def steps(draw: st.DrawFn) -> dict[str, Any]:
    looped = draw(st.booleans())
    step: dict[str, Any] = {"step": "work", "tool": {"kind": "http", "url": "https://x", "params": {"p": 0}}}
    if looped:
        step["loop"] = {"in": [1, 2], "iterator": "item"}
    step["case"] = draw(st.lists(entries(looped), min_size=1, max_size=4))
    if draw(st.booleans()):
        rule = {"retry": {"max_attempts": draw(st.integers(1, 3)), "initial_delay": 0}}
        step["case"].insert(draw(st.integers(0, len(step["case"]))), {"when": f"{{{{ {RETRY} }}}}", "then": rule})
    if draw(st.booleans()):
        step["next"] = "three"
    if any("fail" in e["then"] for e in step["case"]):  # steps after a failure are tested elsewhere
        for entry in step["case"]:
            entry["then"].pop("next", None)
    return step


ANSWERS = st.lists(st.sampled_from(["more", "last", "last", 404, 503, 500]), min_size=8, max_size=8)


class Failed(Exception):
    """The step has failed."""


class Skipped(Exception):
    """The step is over."""


@dataclass
class Legacy:
    """The dialect's rules. What ended the script early is `exhausted`."""

    step: dict[str, Any]
    answers: Sequence[Any]
    ctx: dict[str, Any] = field(default_factory=dict)
    calls: list[Any] = field(default_factory=list)
    targets: set[str] = field(default_factory=set)
    again: dict[str, Any] | None = None
    handled: bool = False
    result: Any = None

    def run(self) -> str:
        if any("collect" in e["then"] for e in self.step["case"]):
            self.ctx["seen"] = []
        answers = iter(self.answers)
        try:
            self.event("step.enter")
            if not self.targets:
                for _ in self.step.get("loop", {"in": [1]})["in"]:
                    self.visit(answers)
                    if self.targets:
                        break
        except Skipped:
            self.result = None  # its result is lost; step.exit comes all the same
        except Failed:
            return "failed"
        try:
            self.event("step.exit")
        except Failed:
            return "failed"
        if not self.targets and "next" in self.step:
            self.targets.add(self.step["next"])
        return "completed"

    def visit(self, answers: Iterator[Any]) -> None:
        params: dict[str, Any] = {"p": 0}
        while True:
            answer = self.call(params, answers)
            self.forget()
            response = {"more": answer == "more"} if isinstance(answer, str) else None
            self.event("call.done", response, None if isinstance(answer, str) else answer)
            if self.again is None:
                if response is None and not self.handled:
                    raise Failed
                return
            params = {"p": 0, **self.again}

    def forget(self) -> None:
        self.again, self.handled = None, False

    def call(self, params: dict[str, Any], answers: Iterator[Any]) -> Any:
        rule = next((e["then"]["retry"] for e in self.step["case"] if "retry" in e["then"]), {"max_attempts": 1})
        for attempt in range(1, rule["max_attempts"] + 1):
            answer = next(answers)
            self.calls.append(params)
            if answer != 503 or attempt == rule["max_attempts"]:
                return answer
        raise AssertionError

    def event(self, name: str, response: Any = None, error: Any = None) -> None:
        for entry in self.step["case"]:
            env = {"event": name, "response": response, "error": error, "ctx": self.ctx}
            if "retry" in entry["then"] or not CONDITIONS[entry["when"][3:-3]](env):
                continue
            self.handled = True
            for action, options in entry["then"].items():
                if action == "skip" and name == "step.exit":
                    break  # the step is over: only what this entry does ends
                self.act(action, options)

    def act(self, action: str, options: Any) -> None:
        env = {"ctx": self.ctx}
        if action == "set":
            self.ctx["x"] = VALUES[options["ctx"]["x"]](env)
        elif action == "collect":
            self.ctx["seen"] = [*self.ctx["seen"], 1 if options["from"] == "workload.n" else self.ctx.get("x", 0)]
        elif action == "call":
            self.again = {"p": VALUES[options["params"]["p"]](env)}
        elif action == "next":
            self.targets.add(options[0]["step"])
        elif action == "result":
            self.result = 1 if options["from"] == "workload.n" else self.ctx.get("x", 0)
        elif action == "skip":
            raise Skipped
        elif action == "fail":
            raise Failed


def answered(answers: Sequence[Any]) -> Callable[[ToolCall], Outcome]:
    replies = iter(answers)

    def answer(_: ToolCall) -> Outcome:
        reply = next(replies)
        return http_error(reply) if isinstance(reply, int) else Outcome.ok({"status": 200, "data": {"more": reply == "more"}})

    return answer


@examples(60)
@given(step=steps(), answers=ANSWERS)
def test_entries_act_as_the_dialect_says(step: dict[str, Any], answers: list[Any]) -> None:
    legacy = Legacy(step, answers)
    try:
        status = legacy.run()
    except StopIteration:
        return  # it goes on calling
    others = [{"step": s, "tool": {"kind": "noop"}} for s in STEPS]
    text = HEAD + yaml.safe_dump({"workload": {"n": 1}, "workflow": [step, *others]}, sort_keys=False)
    ended = run(text, {"http": answered(answers)})
    assert [c.inputs["params"] for c in ended.tools["http"].calls] == legacy.calls
    assert ended.status == status
    if status == "completed":
        assert {s for s in STEPS if ended.visits(s)} == legacy.targets
        if legacy.result is not None:
            assert ended.steps["work"] == legacy.result
        assert {k: v for k, v in ended.ctx.items() if k in ("x", "seen")} == legacy.ctx
