"""Numbers that expressions give: none, undefined or out of range is a failure that names the setting, never "no limit"."""

from __future__ import annotations

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from tests.sim.world import World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: n, path: sim/n}\n"
TASK = '{name: a, kind: http, url: "http://x"}'
LOOP = "workflow:\n  - step: start\n    loop: {in: [1, 2], iterator: i, spec: {mode: parallel, %s}}\n    tool: [" + TASK + "]\n"
RETRY = (
    "workflow:\n  - step: start\n    tool: [{name: a, kind: http, url: 'http://x', spec: {policy: {rules: "
    "[{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, delay: 1, %s}}]}}}]\n"
)
STEP = "workflow:\n  - step: start\n    spec: {policy: {lifecycle: {%s}}}\n    tool: [" + TASK + "]\n"
OWN = "workflow:\n  - step: start\n    tool: [{name: a, kind: http, url: 'http://x', spec: {%s}}]\n"
WAITING = "workflow:\n  - step: start\n    tool: [{name: a, %s}]\n"
PLAIN = "workflow:\n  - step: start\n    tool: [" + TASK + "]\n"
SETTINGS = {
    "timeout_s of step start": STEP % 'timeout_s: "EXPR"',
    "deadline_s of step start": STEP % 'deadline_s: "EXPR"',
    "step_s": 'executor: {spec: {policy: {defaults: {timeouts: {step_s: "EXPR"}}}}}\n' + PLAIN,
    "execution_s": 'executor: {spec: {policy: {defaults: {timeouts: {execution_s: "EXPR"}}}}}\n' + PLAIN,
    "timeout_s of the execution": 'executor: {spec: {policy: {lifecycle: {timeout_s: "EXPR"}}}}\n' + PLAIN,
    "task_s": 'executor: {spec: {policy: {defaults: {timeouts: {task_s: "EXPR"}}}}}\n' + PLAIN,
    "timeout_s of task a": OWN % 'timeout_s: "EXPR"',
    "timeout": OWN % 'timeout: "EXPR"',
    "timeout.connect": OWN % 'timeout: {connect: "EXPR"}',
    "max_in_flight": LOOP % 'max_in_flight: "EXPR"',
    "chunk_size": LOOP % 'chunk_size: "EXPR", policy: {exec: distributed}',
    "commit_every": LOOP % 'commit_every: "EXPR"',
    "tolerated_count": LOOP % 'policy: {failure: {tolerated_count: "EXPR"}}',
    "tolerated_percent": LOOP % 'policy: {failure: {tolerated_percent: "EXPR"}}',
    "attempts": RETRY % 'attempts: "EXPR"',
    "delay": (RETRY % "attempts: 2, backoff: fixed").replace("delay: 1", 'delay: "EXPR"'),
    "max_delay": RETRY % 'attempts: 2, max_delay: "EXPR"',
    "jitter": RETRY % 'attempts: 2, jitter: "EXPR"',
    "priority": 'workflow:\n  - {step: start, next: {spec: {policy: {priority: "EXPR"}}, arcs: [{step: b}]}}\n  - {step: b, tool: {kind: noop}}\n',
    "duration": WAITING % 'kind: wait, duration: "EXPR"',
    "heartbeat": WAITING % 'kind: callback, heartbeat: "EXPR"',
    "`timeout`": WAITING % 'kind: callback, timeout: "EXPR"',
}
WRONG = {
    "ctx.missing": "template",
    "'soon'": "schema",
    "-1": "schema",
    "'inf'": "schema",
    "'nan'": "schema",
    "[1]": "schema",
    "none": "schema",
}
WITH_ZERO = {"delay", "max_delay", "jitter", "priority", "duration", "tolerated_count", "tolerated_percent"}
NEGATIVE = {"priority"}
NAMES = {
    "step_s": "timeout_s of step start",
    "execution_s": "timeout_s of the execution",
    "task_s": "timeout_s of task a",
    "timeout": "timeout_s of task a",
}
UNNAMED = {(setting, "ctx.missing") for setting in ("duration", "heartbeat", "`timeout`")}
"""An input like any other: its expression is named."""


@pytest.mark.one_in(8)
@pytest.mark.parametrize("wrong", [*WRONG, "0"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_outside_of_its_range_fails_and_is_named(setting: str, wrong: str) -> None:
    calls: list[ToolCall] = []

    def tool(call: ToolCall) -> Outcome:
        calls.append(call)
        return Outcome.failed("server_error", "no")

    world = World(tool=tool)
    state = world.run(world.start(HEAD + SETTINGS[setting].replace("EXPR", f"{{{{ {wrong} }}}}")).execution_id)
    error = state.failure
    if (wrong == "0" and setting in WITH_ZERO) or (wrong == "-1" and setting in NEGATIVE):
        assert error is None or error["kind"] not in ("schema", "template")
        return
    assert state.status == "failed"
    assert error is not None
    assert error["kind"] == WRONG.get(wrong, "schema"), error
    if (setting, wrong) not in UNNAMED:
        assert NAMES.get(setting, setting.strip("`")) in error["message"], error
    if setting not in ("attempts", "delay", "max_delay", "jitter"):  # those are asked for after a first attempt
        assert not calls, "nothing was begun that could not be ended in time"
