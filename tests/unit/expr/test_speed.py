"""A simple guard, warm, takes under 20 microseconds (measured in bench/expr.py; here with room for a busy machine)."""

from __future__ import annotations

import timeit

import pytest

from noetl_core.expr import Scope, truthy

BASE = Scope({"workload": {}, "ctx": {}, "iter": {}, "steps": {}})


@pytest.mark.untraced
@pytest.mark.parametrize(
    "guard",
    ["{{ event.name == 'loop.done' }}", "{{ outcome.status == 'error' and outcome.http.status in [429,500,502,503,504] }}"],
)
def test_a_simple_guard_is_cheap(guard: str) -> None:
    layer = {"event": {"name": "loop.done"}, "outcome": {"status": "error", "http": {"status": 503}}}
    seconds = min(timeit.repeat(lambda: truthy(guard, BASE.over(layer)), number=100, repeat=50)) / 100  # 1 ms: often undisturbed
    assert seconds < 20e-6
