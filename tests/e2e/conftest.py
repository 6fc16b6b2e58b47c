"""End-to-end tests run against the session's stack."""

from __future__ import annotations

import pytest

from noetl_infra.stack import Stack
from tests.e2e.support import Api


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/tests/e2e/" in str(item.path):
            item.add_marker("e2e")


@pytest.fixture(scope="session")
def api(stack: Stack) -> Api:
    return Api(stack.api_url)
