"""Limits that executions share: the rate of a task, the concurrency of a playbook or a step."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.types import Block, Choice, Field, Text
from noetl_core.dsl.model import Concurrency, Executor, Rate
from noetl_core.dsl.numbers import BURST, CONCURRENT, PER_SECOND, PRIORITY

ON_LIMIT: Final = ("wait", "skip", "cancel_oldest")

RATE: Final = Block(
    "rate",
    "How often tasks run per second, over all iterations, executions and workers that name the same key.",
    "../limits.md#rate",
    Field(
        "key",
        Text(),
        "What shares the rate: all tasks whose key is the same text, of whatever playbook.",
        required=True,
    ),
    Field(
        "per_second",
        PER_SECOND,
        "How many tasks may begin in a second; below 1 for less than one a second.",
        required=True,
    ),
    Field("burst", BURST, "How many may begin at once when none has begun for a while.", default=Rate("", 1).burst),
    prefix="rate of ",
)

CONCURRENCY: Final = Block(
    "concurrency",
    "How many may run at the same time, over all executions that name the same key.",
    "../limits.md#concurrency",
    Field(
        "key",
        Text(),
        "What shares the limit: all playbooks, or steps, whose key is the same text.",
        required=True,
    ),
    Field("max", CONCURRENT, "How many may run at the same time.", required=True),
    Field(
        "on_limit",
        Choice(ON_LIMIT),
        "What becomes of one more: it waits for its turn, it is skipped, or the oldest is cancelled for it.",
        default=Concurrency("", 1).on_limit,
    ),
    prefix="concurrency of ",
)

CONCURRENCY_OF_STEP: Final = Field(
    "concurrency",
    CONCURRENCY,
    "How many runs of steps with the same key may run at the same time, over all executions.",
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
        "Of the executions that wait for a limit, the one with the higher number comes first.",
        default=Executor().priority,
        link="../limits.md#priority",
    ),
)
