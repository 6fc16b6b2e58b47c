"""Checks by name, for statements that a playbook and its history alone cannot show. A check gives what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conformance.cases import Case
    from tests.conformance.observed import Observed
    from tests.conformance.wirings import Wiring

Check = Callable[["Case", "Wiring", "Observed"], list[str]]
CHECKS: dict[str, Check] = {}


def check(f: Check) -> Check:
    """Register under the function's name, with - for _."""
    CHECKS[f.__name__.replace("_", "-")] = f
    return f
