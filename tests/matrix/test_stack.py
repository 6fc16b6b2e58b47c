"""The cases of every kind on the stack, by one execution for each kind, several at a time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from noetl_infra.stack import Stack
from tests.conformance.wirings import AT_ONCE, on_stack
from tests.matrix.cases import modules
from tests.matrix.run import prepared, wrong
from tests.matrix.service import service
from tests.properties import some

pytestmark = pytest.mark.e2e
KINDS = some(modules(), 3)
"""A third of them, where a suite has minutes: `make matrix` carries all out."""


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, stack: Stack) -> Iterator[dict[str, Future[dict[str, list[str]]]]]:
    """Yield the deviations from the cases, by selected kind. All of these begin when the first is requested."""
    selected = {i.callspec.params["kind"] for i in request.session.items if i.path == request.path and hasattr(i, "callspec")}
    with on_stack(stack) as wiring, service() as http, ThreadPoolExecutor(AT_ONCE) as pool:
        worlds = {kind: prepared(kind, http) for kind in KINDS if kind in selected}
        yield {kind: pool.submit(wrong, kind, wiring, world) for kind, world in worlds.items()}
        pool.shutdown(cancel_futures=True)


@pytest.mark.one_in(9)
@pytest.mark.sized
@pytest.mark.parametrize("kind", KINDS)
def test_the_cases_of_a_kind_hold_on_the_stack(kind: str, found: dict[str, Future[dict[str, list[str]]]]) -> None:
    cases = found[kind].result()
    assert cases
    assert {name: told for name, told in cases.items() if told} == {}
