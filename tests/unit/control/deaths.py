"""A playbook whose template ends the process that evaluates it, as an exception; and marks that outlive such a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from noetl_core.engine.routing import rules
from noetl_core.expr import truthy

POISONED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: poisoned, path: deaths/poisoned }
executor: { spec: { search: { word: "{{ ctx.word | default('poison') }}" } } }
workflow:
- step: start
  tool: { kind: noop, result: 1 }
  next: { spec: { mode: inclusive }, arcs: [{ step: end, when: "{{ event.result == 'poison' }}" }, { step: end }] }
- { step: end, tool: { kind: noop } }
"""


class Died(BaseException):
    """The process ends here."""


class Deadly:
    """Ends the process in each evaluation of a poisoned condition, as long as it is `armed`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.armed = True
        self.died: list[str] = []
        """The conditions that ended their process."""
        patch.setattr(rules, "truthy", self._evaluate)

    def _evaluate(self, text: Any, *args: Any, **named: Any) -> Any:
        if self.armed and "poison" in str(text):
            self.died.append(str(text))
            raise Died
        return truthy(text, *args, **named)


class Kept:
    """Marks that stay when the process ends in them."""

    def __init__(self) -> None:
        self.left: list[str] = []

    @contextmanager
    def mark(self, name: str) -> Iterator[None]:
        try:
            yield
        except Died:
            self.left.append(name)
            raise

    def left_behind(self) -> list[str]:
        left, self.left = self.left, []
        return left
