"""Every case on the local runner."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.cases import Case, all_cases
from tests.conformance.wirings import Local, judge, observe


@pytest.fixture
def local() -> Iterator[Local]:
    wiring = Local()
    yield wiring
    wiring.close()


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.id)
def test_the_case_holds_on_the_local_runner(case: Case, local: Local) -> None:
    wrong = judge(case, local, observe(case, local))
    assert not wrong, f"{case.file}\n" + "\n".join(wrong)
