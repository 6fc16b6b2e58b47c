"""Certain and uncertain values of conditions."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.dsl.lint.guards import UNDEFINED, Guards

GUARDS = Guards({})
DONE: dict[tuple[str, ...], Any] = {("event", "name"): "step.done", ("event", "status"): "success", ("event", "error"): UNDEFINED}


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        (True, True),
        (False, False),
        ("{{ true }}", True),
        ("{{ false }}", False),
        ("{{ 1 > 2 }}", False),
        ("{{ none }}", False),
        ("{{ ctx.a }}", None),
        ("{{ false and ctx.a }}", False),
        ("{{ ctx.a and false }}", False),
        ("{{ ctx.a or true }}", True),
        ("{{ not (ctx.a or true) }}", False),
        ("{{ event.name == 'step.done' }}", True),
        ("{{ event['name'] == 'step.done' }}", True),
        ("{{ event.name == 'loop.done' }}", False),
        ("{{ event.name != 'step.failed' }}", True),
        ("{{ event.name in ['loop.done', 'step.failed'] }}", False),
        ("{{ event.name not in ('loop.done',) }}", True),
        ("{{ event.status == 'error' and ctx.a }}", False),
        ("{{ event.error }}", False),
        ("{{ event.error.kind == 'timeout' }}", False),
        ("{{ event.error.kind != 'timeout' }}", True),
        ("{{ event.error is defined }}", False),
        ("{{ event.error is not defined }}", True),
        ("{{ event.error.code | default(0) == 0 }}", True),
        ("{{ event.error.code > 3 }}", None),
        ("{{ event.result }}", None),
        ("{{ event[ctx.a] == 'x' }}", None),
        ("{{ event.name[0] == 'x' }}", None),
        ("{{ event.name | upper == 'X' }}", None),
        ("{{ 'a' < 1 }}", None),
        ("{{ true if event.status == 'success' else ctx.a }}", True),
        ("{{ ctx.a if event.status == 'success' else true }}", None),
        ("{{ ctx.a }} and {{ ctx.b }}", None),
        ("{% if false %}x{% endif %}", None),
    ],
)
def test_a_guard_is_judged_only_if_its_value_is_certain(when: object, expected: bool | None) -> None:
    assert GUARDS.holds(when, DONE) is expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("{{ ctx.a }}", "{{ not ctx.a }}", True),
        ("{{ ctx.a == 1 }}", "{{ ctx.a == 2 }}", True),
        ("{{ ctx.a == 1 }}", "{{ ctx.a == 1 }}", False),
        ("{{ ctx.a == 1 }}", "{{ ctx.b == 2 }}", False),
        ("{{ ctx.a == 1 }}", "{{ ctx.a != 1 }}", True),
        ("{{ ctx.a == 'x' }}", "{{ ctx.a in ['y', 'z'] }}", True),
        ("{{ ctx.n < 5 and ctx.b }}", "{{ ctx.c and ctx.n >= 5 }}", True),
        ("{{ ctx.n < 5 }}", "{{ ctx.n > 5 }}", False),
        ("{{ ctx.a is defined }}", "{{ ctx.a is not defined }}", True),
        (None, "{{ ctx.a }}", False),
        ("{{ ctx.a }} ", "{{ ctx.a }}{{ ctx.b }}", False),
    ],
)
def test_two_conditions_that_never_hold_together(a: str | None, b: str | None, expected: bool) -> None:
    assert GUARDS.exclude(a, b) is expected
    assert GUARDS.exclude(b, a) is expected
