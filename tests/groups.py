"""Groups of tests, each of which one process runs: tests that share a stack or a browser are together."""

from __future__ import annotations

from collections.abc import Mapping

STACK, CONSOLE = "stack", "console"
GROUPS: Mapping[str, tuple[str, ...]] = {
    STACK: ("tests/e2e/", "tests/conformance/test_stack.py", "tests/matrix/test_stack.py", "tests/console/test_stack.py"),
    "tools": ("tests/unit/tools/", "tests/matrix/"),
    CONSOLE: ("tests/console/",),
    "commands": ("tests/unit/cli/", "tests/conformance/"),
    "rest": ("tests/",),
    "control": ("tests/unit/control/", "tests/unit/api/", "tests/unit/client/", "tests/unit/observe/"),
    "adapters": ("tests/contract/", "tests/unit/adapters/", "tests/unit/functions/"),
    "logs": ("tests/golden/", "tests/unit/worker/", "tests/unit/engine/"),
    "language": ("tests/unit/dsl/", "tests/unit/expr/", "tests/unit/lint/", "tests/unit/migrate/"),
    "simulator": ("tests/sim/",),
    "infrastructure": ("tests/unit/infra/", "tests/unit/bench/"),
}
"""The beginnings of the node ids of each group. A test is in the group with the longest beginning that fits. Groups start in this
order: first those that mostly wait, last the short ones, so that no core is idle at the end."""


def group_of(nodeid: str) -> str:
    """Return the group of a test."""
    fits = {begins: name for name, beginnings in GROUPS.items() for begins in beginnings if nodeid.startswith(begins)}
    return fits[max(fits, key=len)]


def arguments(name: str) -> list[str]:
    """Return pytest's arguments for a group: its own tests, without those of groups within its folders."""
    own = GROUPS[name]
    within = [
        begins
        for other, beginnings in GROUPS.items()
        for begins in beginnings
        if other != name and any(begins.startswith(start) for start in own)
    ]
    return [*own, *(f"--deselect={begins}" if "::" in begins else f"--ignore={begins}" for begins in within)]
