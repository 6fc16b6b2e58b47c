"""One stack for all tests of a process that ask for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from noetl_infra.stack import Stack
from tests.stacks import brought_up


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with brought_up(tmp_path_factory.mktemp("stack")) as brought:
        yield brought
