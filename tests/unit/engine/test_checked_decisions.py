"""A decision asks between tokens, before each template and within long ones whether it may go on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl_core.engine.decide import NewExecution, decide, start
from noetl_core.ports import OutOfTime
from tests.unit.engine.table_text import START
from tests.unit.engine.tables import EXECUTION, History, done, parsed

ARCS = 3_000
GUARD = "{{ ctx.n == 1 }}"
LONG = "{% for i in range(200000) %}{% endfor %}"
"""Within the budget of one template, and far from the first check of the clock."""


def arcs(guard: str, number: int) -> str:
    lines = "".join(f'    - {{step: end, when: "{guard}"}}\n' for _ in range(number))
    return f"- step: begin\n  tool: {{kind: noop}}\n  next:\n    arcs:\n{lines}- step: end\n  tool: {{kind: noop}}\n"


def routed(workflow: str, check: Callable[[], None]) -> None:
    """Decide what follows when the step `begin` is done."""
    history = History(parsed(workflow))
    history.decide(None)
    done("begin")(history)
    state, boundaries, values = history.state, history.boundaries, history.values
    decide(history.playbook, state, boundaries, [], START, values, check)


class Checks:
    """Counts checks, and refuses to go on after `most` of them."""

    def __init__(self, most: int = 10**9) -> None:
        self.made, self._most = 0, most

    def __call__(self) -> None:
        self.made += 1
        if self.made > self._most:
            raise OutOfTime("too long")


def test_each_guard_is_checked() -> None:
    checks = Checks()
    routed(arcs(GUARD, ARCS), checks)
    assert checks.made >= ARCS


def test_a_long_template_is_checked_within() -> None:
    few, many = Checks(), Checks()
    routed(arcs(GUARD, 1), few)
    routed(arcs(LONG, 1), many)
    assert many.made > few.made + 20


def test_each_token_is_checked_though_no_template_is_evaluated() -> None:
    checks = Checks()
    steps = "".join(f"- step: s{n}\n  next: {{arcs: [{{step: s{n + 1}}}]}}\n" for n in range(50))
    new = NewExecution(EXECUTION, "tables/t", 1, {}, {}, expires_at=0)
    start(parsed(f"{steps}- step: s50\n  tool: {{kind: noop}}\n"), new, START, {}, checks)
    assert checks.made >= 50


@pytest.mark.one_in(3)
@pytest.mark.parametrize("most", [0, 1, ARCS // 2])
def test_an_exception_of_the_check_ends_the_decision(most: int) -> None:
    checks = Checks(most)
    with pytest.raises(OutOfTime):
        routed(arcs(LONG, ARCS), checks)
    assert checks.made == most + 1
