"""The cases of every kind, in one process, with AWS mocked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.matrix.cases import modules
from tests.matrix.run import wrong_here
from tests.matrix.service import service


@pytest.fixture(scope="module")
def http() -> Iterator[str]:
    with service() as url:
        yield url


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", modules())
def test_the_cases_of_a_kind_hold_in_one_process(kind: str, http: str) -> None:
    found = wrong_here(kind, http)
    assert found
    assert {name: told for name, told in found.items() if told} == {}
