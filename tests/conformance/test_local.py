"""Every case on the local runner."""

from __future__ import annotations

import pytest

from tests.conformance.cases import Case, all_cases
from tests.conformance.wirings import on_local


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.id)
def test_the_case_holds_on_the_local_runner(case: Case) -> None:
    _, wrong = on_local(case)
    assert not wrong, f"{case.file}\n" + "\n".join(wrong)
