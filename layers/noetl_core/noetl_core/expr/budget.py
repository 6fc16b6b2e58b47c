"""Counts the use of an evaluation's budgets: operations, size, processor time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from jinja2.utils import Namespace

from noetl_core.expr.errors import LimitExceeded
from noetl_core.expr.evaluation_limits import CHECK_EVERY, DATA_DEPTH, ITEM_SIZE, PIECE_SIZE, Limits
from noetl_core.expr.values import SCALARS, Group
from noetl_core.values.result_refs import is_reference

_HEAD: Final = "\xff".__sizeof__() - 1
"""The bytes of a text beside its characters."""


def width(text: str) -> int:
    """Return the bytes that Python takes for each character of `text`: 1, 2 or 4."""
    return 1 if text.isascii() else max(1, (text.__sizeof__() - _HEAD) // len(text))


class Budget:
    """Counts the used budget of an evaluation. Every method raises `LimitExceeded` when that exceeds the limits."""

    __slots__ = ("check", "deadline", "limits", "ops", "size", "weight")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.ops = 0
        self.check = CHECK_EVERY
        """The operation count at which the limits are checked next."""
        self.deadline: float | None = None
        self.size = 0
        self.weight = 0
        """The result of the last `weigh`."""

    def tick(self, n: int = 1) -> None:
        """Count `n` operations."""
        self.ops += n
        if self.ops > self.check:
            self.check_limits()

    def check_limits(self) -> None:
        """Check the budgets now; slow operations that count as one call this."""
        if self.ops > self.limits.ops:
            raise LimitExceeded(f"the template needs more than {self.limits.ops} operations")
        now = time.thread_time()
        if self.deadline is None:
            self.deadline = now + self.limits.seconds
        elif now > self.deadline:
            raise LimitExceeded(f"the template needs more than {self.limits.seconds} s of processor time")
        self.check = self.ops + CHECK_EVERY

    def charge(self, size: int) -> None:
        """Count `size` characters about to be produced. Call before producing them."""
        self.size += size
        if self.size > self.limits.size:
            raise LimitExceeded(f"the template produces more than {self.limits.size} characters of text and data")
        self.tick(1 + (size >> 10))

    def charge_text(self, text: str, times: int = 1) -> None:
        """Count `times` texts as long as `text` about to be produced, by the memory that they take."""
        self.charge(len(text) * times * width(text))

    def charge_joined(self, size: int, *parts: str) -> None:
        """Count a text of `size` characters made of `parts` about to be produced: each takes as much as the widest."""
        self.charge(size * max(map(width, parts), default=1))

    def charge_pieces(self, pieces: int) -> None:
        """Count `pieces` texts in a list about to be produced, besides their characters."""
        self.charge(pieces * PIECE_SIZE)

    def charge_items(self, items: int) -> None:
        """Count `items` list items about to be produced."""
        self.charge(items * ITEM_SIZE)

    def weigh(self, value: Any) -> bool:
        """Count everything in `value`, shared parts repeatedly. Returns whether all of it is plain JSON data without references.

        Call this before code that walks data without counting: printing, comparing, serialising. It sets `weight` to about
        the number of characters of `value` as JSON.
        """
        if type(value) in SCALARS:
            self.weight = len(value) + 2 if type(value) is str else 8
            return True
        weight, plain = 0, True
        level: list[Any] = [value]
        for _ in range(DATA_DEPTH):
            below: list[Any] = []
            for node in level:
                kind = type(node)
                children: Iterable[Any] = ()
                if kind is dict:
                    children = node.values()
                    if "kind" in node and is_reference(node):
                        plain = False
                    if all(type(k) is str for k in node):
                        weight += sum(map(len, node))
                    else:
                        plain = False
                elif kind is list:
                    children = node
                else:
                    plain = False
                    if kind is tuple or kind is range or kind is Group:
                        children = node
                    elif isinstance(node, Mapping) and kind is not Namespace:
                        children = list(node.values())
                self.tick(1 + (len(node) >> 2 if children else 0))
                weight += 4
                for child in children:
                    kind = type(child)
                    if kind is str:
                        weight += len(child) + 4
                    elif kind in SCALARS:
                        weight += 8
                    else:
                        below.append(child)
            if not below:
                self.weight = weight
                return plain
            level = below
        raise LimitExceeded(f"data nests deeper than {DATA_DEPTH}")
