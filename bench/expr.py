"""Measures a warm evaluation: the budget is 20 microseconds for a simple guard. Run: `python bench/expr.py`."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any, Final

from figures import Figure, print_table, repeat

from noetl_core.expr import Scope, compile_text, render, truthy

NAMES: Final[dict[str, Any]] = {
    "workload": {"api_url": "https://api.example.org", "rows": [{"id": i, "ok": i % 2 == 0} for i in range(1000)]},
    "ctx": {"store_ok": True},
    "iter": {"page": 3, "endpoint": {"path": "/hotels"}},
    "steps": {},
}
OUTCOME: Final[dict[str, Any]] = {
    "outcome": {"status": "error", "http": {"status": 429}, "result": {"data": {"paging": {"page": 4}}}}
}
EVENT: Final[dict[str, Any]] = {"event": {"name": "loop.done", "loop": {"failed": 0}}}

BASE: Final = Scope(NAMES)


def _with(layer: dict[str, Any], run: Callable[[Scope], Any]) -> Callable[[], Any]:
    """`run` on a scope made for it, as worker and router make one per evaluation."""
    return lambda: run(BASE.over(layer))


def _when(source: str) -> Callable[[Scope], Any]:
    return lambda scope: truthy(source, scope)


def _value(source: str) -> Callable[[Scope], Any]:
    return lambda scope: render(source, scope)


CASES: Final[tuple[tuple[str, float | None, Callable[[], Any]], ...]] = (
    ("guard: event.name == 'loop.done'", 20, _with(EVENT, _when("{{ event.name == 'loop.done' }}"))),
    (
        "guard: outcome.status and http.status in [...]",
        20,
        _with(OUTCOME, _when("{{ outcome.status == 'error' and outcome.http.status in [429, 500] }}")),
    ),
    ("guard: path that is missing", 20, _with(OUTCOME, _when("{{ outcome.pg.code in ['40001', '40P01'] }}"))),
    ("value: deep path with default", 20, _with(OUTCOME, _value("{{ outcome.result.data.paging.page | default(iter.page) }}"))),
    ("value: (iter.page | int) + 1", 20, _with({}, _value("{{ (iter.page | int) + 1 }}"))),
    ("text: two expressions", 20, _with({}, _value("{{ workload.api_url }}{{ iter.endpoint.path }}"))),
    ("text: none to evaluate", None, _with({}, _value("https://api.example.org"))),
    (
        "1,000 rows: selectattr, map, list",
        None,
        _with({}, _value("{{ workload.rows | selectattr('ok') | map(attribute='id') | list }}")),
    ),
    ("1,000 rows: tojson", None, _with({}, _value("{{ workload.rows | tojson }}"))),
)

COLD: Final = "{{{{ outcome.status == 'error' and outcome.http.status in [429, {n}] }}}}"


def _microseconds(run: Callable[[], Any]) -> float:
    timer = timeit.Timer(run)
    loops, seconds = timer.autorange()
    return min(seconds, *timer.repeat(2, loops)) / loops * 1e6


def _compiling() -> Callable[[], float]:
    texts = iter(COLD.format(n=n) for n in range(10**6, 10**7))  # each its own, so that none is cached
    return lambda: timeit.timeit(lambda: compile_text(next(texts)), number=200) / 200 * 1e6


def figures(times: int) -> list[Figure]:
    """All figures; some seconds with `times` 3."""
    warm = [Figure(name, "µs", repeat(times, lambda run=run: _microseconds(run)), budget) for name, budget, run in CASES]  # type: ignore[misc]  # the default binds `run` in each turn
    return [*warm, Figure("compiling a guard, once per text", "µs", repeat(times, _compiling()))]


if __name__ == "__main__":
    print_table("Expressions, warm", figures(3))
