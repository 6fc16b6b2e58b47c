"""Every case on the stack, many at a time; each gives the history that the local runner gives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.conformance.cases import Case, all_cases
from tests.conformance.wirings import AT_ONCE, on_both, stack

GROUP = "stack" if os.environ.get("NOETL_E2E_ENDPOINT") else "conformance"
pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group(GROUP)]  # one stack, one test process
Ended = tuple[list[str], list[str]]


@pytest.fixture(scope="module")
def ended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Ended]]]:
    """The cases selected, all begun when the first is asked for."""
    asked = {i.callspec.params["case"].id for i in request.session.items if i.path == request.path and hasattr(i, "callspec")}
    with stack(tmp_path_factory.mktemp("conformance")) as wiring, ThreadPoolExecutor(AT_ONCE) as pool:
        yield {case.id: pool.submit(on_both, case, wiring) for case in all_cases() if case.id in asked}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.id)
def test_the_case_holds_on_the_stack_as_on_the_local_runner(case: Case, ended: dict[str, Future[Ended]]) -> None:
    wrong = [w for wiring in ended[case.id].result() for w in wiring]
    assert not wrong, f"{case.file}\n" + "\n".join(wrong)
