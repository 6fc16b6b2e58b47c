"""Claims of lint about a net hold for its executions: random nets are run, and nothing happens that lint calls impossible."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from noetl_core.control.admit import StartRequest
from noetl_core.dsl.parse import check
from noetl_core.runtime.local import LocalWiring
from tests.properties import examples
from tests.running import events_of

HEAD = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "net", "path": "net"}}
LIMITS = {"spec": {"policy": {"limits": {"max_step_visits": 4, "max_tokens": 40}, "failure": {"mode": "best_effort"}}}}
GUARDS = (
    None,
    None,
    "{{ event.name == 'step.done' }}",
    "{{ event.name == 'step.failed' }}",
    "{{ event.status == 'success' and args.n }}",
    "{{ not args.n }}",
    "{{ false }}",
)
RULES = (
    [{"when": "{{ steps.s3.status == 'ok' }}", "then": {"allow": True}}, {"else": {"then": {"allow": False}}}],
    [{"when": "{{ ctx.c2 }}", "then": {"allow": True}}, {"else": {"then": {"allow": False}}}],
    [{"when": "{{ args.n }}", "then": {"allow": False}}],
    [{"else": {"then": {"allow": False}}}],
)


@st.composite
def nets(draw: st.DrawFn) -> dict[str, Any]:
    """A few steps, some of which fail, fork, join, ask for admission; most arcs lead forward."""
    size = draw(st.integers(2, 6))
    workflow = []
    for i in range(size):
        step: dict[str, Any] = {"step": f"s{i}"}
        body = draw(st.sampled_from(["ok", "ok", "fails", "routes"]))
        if body != "routes":
            step["tool"] = {"kind": "noop", "set_ctx": {f"c{i}": True}}
        if body == "fails":
            step["tool"]["spec"] = {"policy": {"rules": [{"else": {"then": {"do": "fail"}}}]}}
        targets = st.one_of(st.integers(min(i + 1, size - 1), size - 1), st.integers(0, size - 1))
        arcs = []
        for _ in range(draw(st.integers(1 if body == "routes" else 0, 3))):
            guard = draw(st.sampled_from(GUARDS))
            arc = {"step": f"s{draw(targets)}", "args": {"n": draw(st.integers(0, 1))}}
            arcs.append(arc if guard is None else {**arc, "when": guard})
        if arcs:
            step["next"] = {"spec": {"mode": draw(st.sampled_from(["exclusive", "inclusive"]))}, "arcs": arcs}
        spec: dict[str, Any] = {}
        if i and draw(st.integers(0, 2)) == 0:
            spec["join"] = draw(st.sampled_from(["all", "any", {"count": 2}, {"count": 3}]))
        if draw(st.integers(0, 3)) == 0:
            spec["policy"] = {
                "admit": {"rules": draw(st.sampled_from(RULES)), "on_deny": draw(st.sampled_from(["park", "skip", "fail"]))}
            }
        workflow.append({**step, "spec": spec} if spec else step)
    return {**HEAD, "executor": LIMITS, "workflow": workflow}


def ran(text: str) -> tuple[set[str], set[tuple[str, int]]]:
    """The steps that ran, and the arcs that fired, as (step, index)."""
    local = LocalWiring()
    try:
        started = local.start(StartRequest(playbook=text))
        assert local.run(started.execution_id, timeout_s=30)
        events = events_of(local.control, started.execution_id)[0]
    finally:
        local.close()
    refused = {e["data"].get("run") or e["entity_id"] for e in events if e["data"].get("error", {}).get("kind") == "admission"}
    steps = {e["step"] for e in events if e["name"] == "StepScheduled" and e["entity_id"] not in refused}
    fired = {(e["step"], arc["arc"]) for e in events if e["name"] == "NextEvaluated" for arc in e["data"]["selected"]}
    return steps, fired


@examples(40)
@given(nets())
def test_steps_and_arcs_that_lint_calls_impossible_never_run(net: dict[str, Any]) -> None:
    text = json.dumps(net)
    playbook, found = check(text)
    assert playbook is not None, found
    steps, fired = ran(text)
    for finding in found:
        if finding.code in ("W501", "W505", "W506", "W507", "W508"):
            name = net["workflow"][finding.path[1]]["step"]
            assert name not in steps, finding
        elif finding.code in ("W502", "W503", "W504") and "never fires" in finding.message:
            place, index = finding.path[1], finding.path[4]
            assert isinstance(index, int)
            assert (net["workflow"][place]["step"], index) not in fired, finding
