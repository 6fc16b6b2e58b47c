"""The cases of `container`, on a mocked ECS; on the stack what is asked of nobody. The stack's parameter `ToolClusters` names `matrix-*`."""

from __future__ import annotations

from typing import Any

from tests.matrix.cases import Case
from tests.unit.docs.demo_aws import make_ecs

leaves_out = {
    "large result": "its result is what ECS says of a task, which is small",
}
HERE = ("local",)


def prepare() -> dict[str, Any]:
    """A cluster that tools may use, and one that no parameter names."""
    make_ecs("matrix-jobs", "closed-jobs")
    return {}


def _run(**more: Any) -> dict[str, Any]:
    return {"cluster": "matrix-jobs", "task_definition": "train", "launch_type": "FARGATE", "poll": 1, **more}


CASES = [
    Case("plain", _run(), gives={"{{ _prev.exit_code }}": 0}, on=HERE),
    Case("command", _run(container="main", command=["a"], env={"A": 1}), gives={"{{ _prev.containers[0].name }}": "main"}, on=HERE),
    Case("no_cluster", _run(cluster="matrix-none"), "errors", fails="not_found", retryable=False, on=HERE),
    Case("no_definition", _run(task_definition="none"), "errors", fails="not_found", retryable=False, on=HERE),
    Case("no_container", _run(container="other"), "errors", fails="schema", retryable=False, on=HERE),
    Case("arn", _run(task_definition="arn:aws:ecs:us-east-1:1:task-definition/a"), "errors", fails="schema", says="not an ARN"),
    Case("soon", _run(spec={"timeout": 0.001}), "timeout", fails="timeout", retryable=False, on=HERE),
    Case("secret", _run(container="main", env={"T": "{{ keychain.matrix.token }}"}), "secret", fails="schema", says="refuses secrets"),
    Case("not_named", _run(cluster="closed-jobs"), "rights", fails="auth", retryable=False, on=("stack",),
         says="ToolClusters does not name cluster `closed-jobs` (it names: matrix-*)"),
    Case("profile", _run(cluster="closed-jobs"), "rights", gives={"{{ _prev.exit_code }}": 0}, on=HERE),
]  # fmt: skip
