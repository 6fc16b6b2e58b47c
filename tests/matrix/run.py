"""Carries the cases of a kind out on a wiring, by one execution."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from noetl_core.engine.statuses import TERMINAL
from tests.conformance.wirings import Local, Wiring
from tests.matrix.cases import SECRET, Case, cases_of, module_of
from tests.unit.tools.aws_playbooks import mocked

LONGEST_S: Final = 120
GO_ON: Final = {"rules": [{"else": {"then": {"do": "continue"}}}]}
World = Mapping[str, Any]


def prepared(kind: str, http: str) -> dict[str, Any]:
    """Make what the cases of a kind reach, where this process's clients of AWS look; return the workload."""
    world: dict[str, Any] = {"http": http}
    prepare = getattr(module_of(kind), "prepare", None)
    if prepare is not None:
        world |= prepare()
    return world


def wrong(kind: str, wiring: Wiring, world: World) -> dict[str, list[str]]:
    """Return the deviations from the cases of a kind, by case."""
    cases = cases_of(kind, wiring.name)
    for name, fields in {"matrix": {"token": SECRET}, **getattr(module_of(kind), "CREDENTIALS", {})}.items():
        wiring.secret(name, fields)
    status, answer = wiring.call("POST", "executions", {"playbook": json.dumps(_playbook(kind, cases)), "payload": dict(world)})
    if status != 202:
        return {case.name: [f"the playbook of {kind} is refused: {json.dumps(answer)[:2000]}"] for case in cases}
    events = _history(wiring, _ended(wiring, answer["execution_id"]))
    told = json.dumps(events)
    outcomes = {e["task"]: e["data"]["outcome"] for e in events if e["name"] == "TaskProcessed"}
    leaked = ["the secret is in an event"] if SECRET in told else []
    return {case.name: [*_judged(case, outcomes), *(leaked if case.column == "secret" else [])] for case in cases}


def wrong_here(kind: str, http: str) -> dict[str, list[str]]:
    """Return the deviations in this process, with AWS mocked: the containers of an emulator of ECS would run forever."""
    with mocked():
        local = Local()
        try:
            return wrong(kind, local, prepared(kind, http))
        finally:
            local.close()


def _playbook(kind: str, cases: list[Case]) -> dict[str, Any]:
    tasks: list[dict[str, Any]] = []
    for case in cases:
        tasks += [{**task, "name": f"{case.name}_before_{n}"} for n, task in enumerate(case.before)]
        spec = {**case.task.get("spec", {}), "policy": GO_ON}
        tasks.append({"kind": kind, **case.task, "name": case.name, "spec": spec})
        look = {"kind": "noop", "result": list(case.gives), "spec": {"policy": GO_ON}}
        tasks += [{**look, "name": f"{case.name}_gives"}] if case.gives else []
    return {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": kind, "path": f"matrix/{kind}"},
        "keychain": [{"name": "matrix", "kind": "credential"}],
        "workflow": [{"step": "start", "tool": tasks}],
    }


def _judged(case: Case, outcomes: Mapping[str, Any]) -> Iterator[str]:
    outcome = outcomes.get(case.name)
    if outcome is None:
        yield "it did not run"
        return
    error = outcome.get("error")
    if not case.fails:
        if error is not None:
            yield f"it failed: {json.dumps(error)[:500]}"
        elif case.gives:
            got = outcomes[f"{case.name}_gives"].get("result")
            for (template, value), found in zip(case.gives.items(), got or [None] * len(case.gives), strict=True):
                if found != value:
                    yield f"{template} is {found!r:.300}, not {value!r:.300}"
        return
    if error is None:
        yield f"it succeeded: {json.dumps(outcome.get('result'))[:300]}"
        return
    if error["kind"] != case.fails:
        yield f"its error is of kind {error['kind']}, not {case.fails}: {error['message'][:500]}"
    if case.retryable is not None and error["retryable"] != case.retryable:
        yield f"its error says retryable: {error['retryable']}"
    if case.says not in error["message"]:
        yield f"its error does not say {case.says!r}: {error['message'][:500]}"


def _ended(wiring: Wiring, execution_id: str) -> str:
    until = time.monotonic() + LONGEST_S
    while time.monotonic() < until:
        wiring.work(execution_id, LONGEST_S)
        if wiring.call("GET", f"executions/{execution_id}")[1]["status"] in TERMINAL:
            return execution_id
    raise AssertionError(f"execution {execution_id} did not end within {LONGEST_S} s")


def _history(wiring: Wiring, execution_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: dict[str, str] = {}
    while True:
        page = wiring.call("GET", f"executions/{execution_id}/events", limit="1000", **after)[1]
        found += page["events"]
        if page["cursor"] is None or len(page["events"]) < 1000:
            return found
        after = {"after": page["cursor"]}
