"""Rates where workers have no access to them."""

from __future__ import annotations

import pytest

from noetl_core.dsl.parse import check

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t, path: t }\n"
RATE = "rate: { key: a, per_second: 5 }"
OWN = "spec: { policy: { " + RATE + " } }"
STEP = """workflow:
  - step: one
    spec: {{ pool: {pool}{step} }}
    tool: [{{ name: call, kind: {kind}, {inputs}{task} }}]
"""


def found(
    executor: str = "", *, pool: str = "python", step: str = "", task: str = "", kind: str = "noop", inputs: str = "x-n: 1"
) -> list[tuple[str, str]]:
    text = HEAD + executor + STEP.format(pool=pool, step=step, task=f", {task}" if task else "", kind=kind, inputs=inputs)
    return [(d.code, f"{d.message} ({d.hint})") for d in check(text)[1] if d.code.startswith("E")]


MESSAGE = 'task "call" of step "one" has a rate, and workers of pool python have no access to rates'
REMEDY = "let the step run in another pool; or limit how many of its runs there are at a time: spec.policy.concurrency"
REFUSED = [("E114", f"{MESSAGE} ({REMEDY})")]


@pytest.mark.parametrize(
    "parts",
    [
        {"task": OWN},
        {"step": f", policy: {{ task: {{ {RATE} }} }}"},
        {"executor": f"executor: {{ spec: {{ policy: {{ task: {{ {RATE} }} }} }} }}\n"},
    ],
    ids=["of the task", "of the step", "of the executor"],
)
def test_a_rate_in_the_python_pool_is_refused_with_the_remedy(parts: dict[str, str]) -> None:
    assert found(**parts) == REFUSED
    assert found(**parts, pool="default") == []


def test_tasks_without_a_rate_may_run_in_the_python_pool() -> None:
    executor = f"executor: {{ spec: {{ policy: {{ task: {{ {RATE} }} }} }} }}\n"
    assert found(executor, kind="wait", inputs="duration: 1") == []
    assert found() == []
