"""The task of every side, and how its seconds are reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Case:
    """`ask` goes to the drivers as it is. `amount` of work in `seconds` is a time for one or a rate, as `better` says.
    `stack_only`: only the sides on the emulated AWS have it."""

    name: str
    title: str
    unit: str
    better: Literal["lower", "higher"]
    amount: int
    ask: Mapping[str, int]
    stack_only: bool = False

    def value(self, seconds: float) -> float:
        if self.better == "higher":
            return self.amount / max(seconds, 1e-9)
        return seconds / self.amount * (1000 if self.unit.startswith("ms") else 1)


IN_FLIGHT = 16
HELLO = "hello"

CASES = (
    Case("chain", "chain of 50 noop steps", "ms a step", "lower", 50, {"steps": 50}),
    Case("client", "chain of 50 noop steps, timed by the client", "ms a step", "lower", 50, {"steps": 50}, stack_only=True),
    Case("python", "chain of 20 Python steps", "ms a step", "lower", 20, {"steps": 20}),
    Case("map", "map of 1,000 noop items, 16 in flight", "items/s", "higher", 1000, {"items": 1000, "in_flight": IN_FLIGHT}),
    Case(
        "each",
        "map of 1,000 noop items, 16 in flight, each committed",
        "items/s",
        "higher",
        1000,
        {"items": 1000, "in_flight": IN_FLIGHT},
    ),
    Case("http", "map of 1,000 HTTP calls, 16 in flight", "calls/s", "higher", 1000, {"items": 1000, "in_flight": IN_FLIGHT}),
    Case("executions", "100 executions at once, 5 noop steps each", "steps/s", "higher", 500, {"executions": 100, "steps": 5}),
    Case(HELLO, "hello: process start to exit", "s", "lower", 1, {}),
)
