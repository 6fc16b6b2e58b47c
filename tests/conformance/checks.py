"""Checks by name, for statements that a playbook and its history alone cannot show. A check gives what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from noetl_infra.template_file import read_template

if TYPE_CHECKING:
    from tests.conformance.cases import Case
    from tests.conformance.observations import Observed
    from tests.conformance.wirings import Wiring

Check = Callable[["Case", "Wiring", "Observed"], list[str]]
CHECKS: dict[str, Check] = {}


def check(f: Check) -> Check:
    """Register under the function's name, with - for _."""
    CHECKS[f.__name__.replace("_", "-")] = f
    return f


ROOT = Path(__file__).parents[2]
ENVELOPE = ("event_id", "execution_id", "timestamp", "source", "name", "event_type", "entity", "entity_id", "status", "data")
ENTITIES = ("playbook", "workflow", "step", "task", "loop", "next")
STATUSES = ("in_progress", "success", "error", "paused")
LARGEST = 8_192


@check
def every_event_has_the_envelope(case: Case, wiring: Wiring, seen: Observed) -> list[str]:
    """Formal 10.1."""
    wrong = []
    for e in seen.events:
        if missing := [k for k in ENVELOPE if e.get(k) in (None, "")]:
            wrong.append(f"{e['name']} has no {', '.join(missing)}")
        elif e["source"] not in ("server", "worker") or e["entity"] not in ENTITIES or e["status"] not in STATUSES:
            wrong.append(f"{e['name']}: {e['source']}, {e['entity']}, {e['status']}")
        elif not isinstance(e["data"], dict) or e["execution_id"] != seen.execution_id:
            wrong.append(f"{e['name']}: {e['execution_id']}, {e['data']}")
    ids = [e["event_id"] for e in seen.events]
    return wrong + [f"{one} stands twice" for one in set(ids) if ids.count(one) > 1]


@check
def the_log_is_append_only(case: Case, wiring: Wiring, seen: Observed) -> list[str]:
    """Formal 11.1: what was read is read again the same, in positions without gaps."""
    _, again = wiring.call("GET", f"executions/{seen.execution_id}/events")
    wrong = [] if again["events"] == seen.events else ["the history read again is another one"]
    places: dict[str, list[int]] = {}
    for e in seen.events:
        _, stream, seq, _ = e["event_id"].removesuffix("s").split(".")
        places.setdefault(stream, []).append(int(seq))
    gaps = [s for s, seqs in places.items() if seqs[0] or any(b - a not in (0, 1) for a, b in pairwise(seqs))]
    return wrong + [f"stream {stream} has gaps: {places[stream]}" for stream in gaps]


@check
def what_was_refused_left_nothing(case: Case, wiring: Wiring, seen: Observed) -> list[str]:
    """Resolution 26."""
    _, found = wiring.call("GET", "executions", path=yaml.safe_load(case.text)["metadata"]["path"])
    return [f"there is an execution: {e}" for e in found["executions"]]


@check
def the_result_is_the_execution_id(case: Case, wiring: Wiring, seen: Observed) -> list[str]:
    """Formal 3.2."""
    return [] if seen.result == seen.execution_id else [f"{seen.result!r} is not {seen.execution_id!r}"]


@check
def no_event_is_large(case: Case, wiring: Wiring, seen: Observed) -> list[str]:
    """Formal 9.1: bodies over the inline limit are not in the log."""
    return [f"{e['name']} has {size} bytes" for e in seen.events if (size := len(json.dumps(e["data"]))) > LARGEST]


@check
def an_api_filter_takes_either_form_of_a_name(case: Case, wiring: Wiring, seen: Observed) -> list[str]:
    """Resolution 3."""
    expected = [e for e in seen.events if e["name"] == "StepDone"]
    answers = [
        wiring.call("GET", f"executions/{seen.execution_id}/events", name=n)[1]["events"] for n in ("StepDone", "step.done")
    ]
    return [f"{len(a)} events, expected {len(expected)}" for a in answers if a != expected or not a]


@check
def the_state_at_every_event_is_a_fold_of_the_log(case: Case, wiring: Wiring, seen: Observed) -> list[str]:
    """Formal 10.3: tokens, runs, ctx and loop position follow the events."""
    wrong = []
    ctx: dict[str, Any] = {}
    for e in seen.events:
        status, state = wiring.call("GET", f"executions/{seen.execution_id}/state", at=e["event_id"])
        if status != 200:
            wrong.append(f"{e['event_id']}: HTTP {status}: {state}")
            continue
        if e["name"] == "CtxPatched":
            ctx |= e["data"]["patch"]
        if e["source"] == "server" and state["ctx"] != ctx:
            wrong.append(f"ctx at {e['name']} {e['event_id']} is {state['ctx']}, the patches say {ctx}")
        if e["name"] == "TokenEnqueued" and e["data"]["token"] not in json.dumps(state["tokens"]):
            wrong.append(f"{e['data']['token']} is not among the tokens {state['tokens']}")
        if e["name"] in ("StepScheduled", "LoopChunkScheduled") and e["step_run_id"] not in json.dumps(state["runs"]):
            wrong.append(f"{e['step_run_id']} is not among the runs {state['runs']}")
        if e["name"] == "PlaybookProcessed" and (state["tokens"] or state["runs"] or state["ctx"] != seen.ctx):
            wrong.append(f"the state at the end is {state}")
    return wrong


VERSIONED = ("AWS::Lambda::Version", "AWS::Lambda::Alias")
"""Resources that name a function and call nothing."""


def _referred(value: Any) -> set[str]:
    """The resources that a property refers to, in any branch of a condition."""
    if isinstance(value, dict):
        return {str(value["Ref"])} if "Ref" in value else {name for inner in value.values() for name in _referred(inner)}
    return {name for inner in value for name in _referred(inner)} if isinstance(value, list) else set()


@check
def workers_have_no_inbound_http(case: Case, wiring: Wiring, seen: Observed) -> list[str]:
    """Formal 1.2 and 11.2: no event of a worker function is a call from outside; the API calls admit alone."""
    resources = read_template(ROOT / "template.yaml")["Resources"]
    wrong = []
    for name in ("WorkerFunction", "PythonWorkerFunction"):
        callers = [
            resource["Type"] + str(resource["Properties"].get("EventSourceArn", ""))
            for resource in resources.values()
            if name in _referred(resource["Properties"].get("FunctionName")) and resource["Type"] not in VERSIONED
        ]
        if len(callers) != 1 or not callers[0].startswith("AWS::Lambda::EventSourceMapping") or "Queue" not in callers[0]:
            wrong.append(f"{name} is called by {callers}")
        if {"Events", "FunctionUrlConfig"} & set(resources[name]["Properties"]):
            wrong.append(f"{name} may be called from outside")
    api = json.dumps(resources["Api"], default=str)
    return wrong + (["the API calls a worker"] if "WorkerFunction" in api else [])


@check
def the_command_line_manages_the_services(case: Case, wiring: Wiring, seen: Observed) -> list[str]:
    """Formal 1.2."""
    from noetl_cli.commands import load

    names = {c.name or getattr(c.callback, "__name__", "") for c in load().registered_commands}
    return [f"there is no command {n}" for n in ("up", "down", "status", "run") if n not in names]


@check
def delays_are_at_most_a_fiftieth(case: Case, wiring: Wiring, seen: Observed) -> list[str]:
    """Resolution 7: jitter takes from the delay, here 0.02 s."""
    delays = [e["data"]["delay"] for e in seen.events if e["name"] == "TaskRetried"]
    return [f"a delay of {d} s" for d in delays if not 0 <= d <= 0.02]
