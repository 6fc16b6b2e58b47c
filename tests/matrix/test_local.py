"""The cases of every kind, in one process, with AWS mocked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.wirings import Local
from tests.matrix.cases import modules
from tests.matrix.run import prepared, wrong
from tests.matrix.service import service
from tests.unit.tools.aws_playbooks import mocked


@pytest.fixture(scope="module")
def http() -> Iterator[str]:
    with service() as url:
        yield url


@pytest.mark.parametrize("kind", modules())
def test_the_cases_of_a_kind_hold_in_one_process(kind: str, http: str) -> None:
    with mocked():
        local = Local()
        try:
            found = wrong(kind, local, prepared(kind, http))
        finally:
            local.close()
    assert found
    assert {name: told for name, told in found.items() if told} == {}
