"""Limits that executions share: the rate of a task, the concurrency of a playbook or a step."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.types import Block, Choice, Field, Text
from noetl_core.dsl.model import Concurrency, Executor, Rate
from noetl_core.dsl.numbers import BURST, CONCURRENT, PER_SECOND, PRIORITY

ON_LIMIT: Final = ("wait", "skip", "cancel_oldest")

RATE: Final = Block(
    "rate",
    "How many tasks may begin per second, across all iterations, executions and workers with the same key.",
    "../limits.md#rate",
    Field(
        "key",
        Text(),
        "The name of the rate: all tasks with the same key share it, in any playbook.",
        required=True,
    ),
    Field(
        "per_second",
        PER_SECOND,
        "How many tasks may begin per second; 0.5 means one task in two seconds.",
        required=True,
    ),
    Field("burst", BURST, "How many tasks may begin at once when none has begun for a while.", default=Rate("", 1).burst),
    prefix="rate of ",
)

CONCURRENCY: Final = Block(
    "concurrency",
    "How many may run at the same time, across all executions with the same key.",
    "../limits.md#concurrency",
    Field(
        "key",
        Text(),
        "The name of the limit: all playbooks and steps with the same key share it.",
        required=True,
    ),
    Field("max", CONCURRENT, "How many executions, or step runs, may be in progress at the same time.", required=True),
    Field(
        "on_limit",
        Choice(ON_LIMIT),
        "The treatment of a newcomer at the limit: it waits, it is skipped, or the holder or waiter whose request came first is"
        " ended to make room.",
        default=Concurrency("", 1).on_limit,
    ),
    prefix="concurrency of ",
)

CONCURRENCY_OF_STEP: Final = Field(
    "concurrency",
    CONCURRENCY,
    "How many runs of steps with the same key may run at the same time, across all executions.",
    link="../limits.md#concurrency",
)
LIMITS_OF_EXECUTOR: Final = (
    Field(
        "concurrency",
        CONCURRENCY,
        "How many executions with the same key may run at the same time.",
        link="../limits.md#concurrency",
    ),
    Field(
        "priority",
        PRIORITY,
        "Among executions that wait for a limit, the one with the higher number comes first.",
        default=Executor().priority,
        link="../limits.md#priority",
    ),
)
