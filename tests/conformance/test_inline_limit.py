"""Size never changes meaning: every case gives the same with an inline limit of a few bytes (resolution 22)."""

from __future__ import annotations

import pytest

from tests.conformance.cases import Case, all_cases
from tests.conformance.wirings import limits_compared


@pytest.mark.parametrize("case", [c for c in all_cases() if c.runs], ids=lambda case: case.id)
def test_the_case_gives_the_same_with_an_inline_limit_of_64_bytes(case: Case) -> None:
    wrong = limits_compared(case)
    assert not wrong, f"{case.file}\n" + "\n".join(wrong)
