"""The tables of docs/scaling.md that follow from the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench.scaling import counted, limits
from bench.scaling.model import (
    Load,
    Stack,
    at_full_width,
    backlog_after,
    ceilings,
    first_bends,
    iterations_per_s,
    looked_at_per_minute,
    per_million_steps,
    per_month,
    pollers_after,
    shares,
    units,
)

from noetl_infra.template_file import read_template

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "scaling.md"
GOAL = 10_000
RATES = (1, 10, 100, 1_000, 10_000)
ONE = Load()
CHAIN = Load(steps=10)
SWEEP_S = 40
"""Seconds that a sweep, which has 55 s in all, spends on executions."""
KEYS: tuple[tuple[str, str, float, str], ...] = (
    ("log: control stream `m#EXECUTION`", "1, and 1 more for each step", 1.0, "not shared: one key for each execution"),
    ("log: runs `r#EXECUTION#0..7`", "2 a step", 2.0, "not shared: eight keys for each execution"),
    ("catalog: due item `due#KEY`", f"{counted.DUE}", counted.DUE, "all executions, over `IndexPartitions` keys"),
    ("catalog: head `x#EXECUTION`", f"{counted.HEAD}", counted.HEAD, "not shared: one key for each execution"),
    ("index `heads`: `heads#running#KEY`", f"{counted.RUNNING}", counted.RUNNING, "all executions, over `IndexPartitions` keys"),
    ("index `heads`: `heads#completed#KEY`", f"{counted.ENDED}", counted.ENDED, "all executions, over `IndexPartitions` keys"),
    (
        "index `heads_by_path`: `PATH#KEY`",
        f"{counted.BY_PATH}",
        counted.BY_PATH,
        "all executions of a path, over `IndexPartitions` keys",
    ),
)


def number(value: float) -> str:
    """Two significant digits below ten, whole numbers above."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def dollars(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def template_parameters() -> dict[str, float]:
    """Numbers among the template's parameters, as it has them by default."""
    parameters = read_template(ROOT / "template.yaml")["Parameters"]
    return {name: float(p["Default"]) for name, p in parameters.items() if p["Type"] == "Number"}


def stack() -> Stack:
    return Stack.of(template_parameters())


def raised(value: Stack) -> Stack:
    """A stack for the goal, with the table quotas that it needs."""
    wide = at_full_width(value, GOAL)
    return replace(wide, table_writes=4 * wide.table_writes, warm_writes=4 * wide.table_writes, concurrency=2 * wide.concurrency)


def keys() -> str:
    rows = ((where, many, whose) for where, many, _, whose in KEYS)
    return _table(("partition key", "write units an execution", "shared by"), rows)


def bends() -> str:
    """Ceilings of a one-step execution, as the stack is by default and raised."""
    wide = raised(stack())
    latest = {c.what: c.per_s for c in ceilings(replace(ONE, by_version=True), wide)}
    rows = [
        (c.what, c.why, number(c.per_s), number(latest[c.what]) if c.what in latest else "-", c.raised_by)
        for c in ceilings(ONE, replace(stack(), warm_writes=limits.NEW_TABLE.value))
    ]
    return _table(("bottleneck", "an execution takes", "executions/s by default", "raised", "raised by"), rows)


def order() -> str:
    """The limits to raise, in order, to reach the goal with tables that have already had the traffic."""
    met = first_bends(ONE, stack(), GOAL)
    return " -> ".join(f"{c.what} ({number(c.per_s)})" for c in met if "new" not in c.what) + "\n"


def partitions() -> str:
    rows = []
    per = limits.PARTITION_WRITES.value
    for n in (8, 16, 32, 64, 128):
        dollars_of = n * 43_800 * 0.125e-6
        rows.append((str(n), number(n * per / counted.DUE), number(n * per / counted.BY_PATH), f"{dollars_of:.2f}", str(n)))
    head = ("`IndexPartitions`", "executions/s", "of one path", "USD a month to sweep", "queries of a list by status")
    return _table(head, rows)


def widths() -> str:
    """Return the table of Lambda's pollers over time, and of the messages that wait meanwhile."""
    wide = raised(stack())
    rows = []
    for seconds in (0, 10, 30, 60, 120, 199):
        waits = [
            backlog_after(seconds, rate, replace(ONE, task_ms=ms), wide, 60)
            for rate, ms in ((1_000, 50.0), (GOAL, 5.0), (GOAL, 50.0))
        ]
        rows.append((str(seconds), number(pollers_after(seconds, wide)), *map(number, waits)))
    head = ("seconds under load", "batches at once", "waiting: 1,000/s of 50 ms", "10,000/s of 5 ms", "10,000/s of 50 ms")
    return _table(head, rows)


def loops() -> str:
    names = {"local": "`exec: local`: one run, one key", "distributed": "`exec: distributed`: runs over eight keys"}
    rows = [
        (names[kind], f"{counted.ITERATIONS[kind]:.3g}", number(iterations_per_s(kind)), number(1e6 / iterations_per_s(kind)))
        for kind in names
    ]
    return _table(("loop", "write units an iteration", "iterations/s its keys take", "s for a million"), rows)


def sweeps() -> str:
    taken = looked_at_per_minute(SWEEP_S)
    rows = [
        ("reconciled by one sweep", number(SWEEP_S * 1000 / 2 / counted.RECONCILE_MS)),
        ("handed to the router by one sweep", number(SWEEP_S * 1000 / 2 / counted.HAND_OVER_MS)),
        ("ceiling of executions that have run for more than 90 s and have a live worker", number(taken)),
    ]
    return _table(("the sweeper, a minute", "executions"), rows)


def costs() -> str:
    rows = []
    for name, load in (("1 step of 50 ms", ONE), ("10 steps of 50 ms", CHAIN), ("10 steps of 5 ms", replace(CHAIN, task_ms=5.0))):
        by = shares(load)
        total = units(load).cost
        part = {
            "DynamoDB": by["dynamodb_write_units"] + by["dynamodb_read_units"],
            "SQS": by["sqs_requests"],
            "Lambda": by["lambda_invocations"] + by["lambda_gb_seconds"],
        }
        rows.append(
            (
                name,
                dollars(per_million_steps(load)),
                *(f"{value / total:.0%}" for value in part.values()),
                *(dollars(per_month(load, r)) for r in RATES),
            )
        )
    head = ("execution", "USD a million steps", "DynamoDB", "SQS", "Lambda", *(f"a month at {r:,}/s" for r in RATES))
    return _table(head, rows)


def published() -> str:
    rows = (
        (one.what, f"{one.value:,.0f} {one.unit}", "yes" if one.raised else "no", f"[page]({one.source})")
        for one in limits.LIMITS
    )
    return _table(("limit", "value", "raised on request", "source"), rows)


def tables() -> Mapping[str, str]:
    """Every table of the page that the model writes, by the name of its marks."""
    return {
        "keys": keys(),
        "bends": bends(),
        "order": order(),
        "partitions": partitions(),
        "widths": widths(),
        "loops": loops(),
        "sweeps": sweeps(),
        "costs": costs(),
        "limits": published(),
    }


def marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: written by `make scaling` -->\n", f"<!-- end of {name} -->\n"
