"""Cases on the stack, many at a time; each gives the history that the local runner gives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from zlib import crc32

import pytest

from noetl_infra.stack import Stack
from tests.conformance.cases import Case, all_cases
from tests.conformance.wirings import AT_ONCE, on_both, on_stack

pytestmark = pytest.mark.e2e
Ended = tuple[list[str], list[str]]


@pytest.fixture(scope="module")
def ended(request: pytest.FixtureRequest, stack: Stack) -> Iterator[dict[str, Future[Ended]]]:
    """Yield the selected cases. All begin when the first is requested."""
    asked = {i.callspec.params["case"].id for i in request.session.items if i.path == request.path and hasattr(i, "callspec")}
    with on_stack(stack) as wiring, ThreadPoolExecutor(AT_ONCE) as pool:
        cases = [case for case in all_cases() if case.id in asked]
        yield {case.id: pool.submit(on_both, case, wiring, small_too=_about_values(case)) for case in cases}
        pool.shutdown(cancel_futures=True)


def _about_values(case: Case) -> bool:
    """Those run a second time there, with an inline limit of a few bytes; `make conformance` does so with all."""
    return "22-values" in str(case.file)


CASES = [c for c in all_cases() if "NOETL_E2E_ENDPOINT" in os.environ or _about_values(c) or crc32(c.id.encode()) % 8 == 1]
"""An eighth of them, chosen by their names, where a suite has minutes: `make conformance` carries all out."""


@pytest.mark.one_in(8)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_case_holds_on_the_stack_as_on_the_local_runner(case: Case, ended: dict[str, Future[Ended]]) -> None:
    wrong = [w for wiring in ended[case.id].result() for w in wiring]
    assert not wrong, f"{case.file}\n" + "\n".join(wrong)
