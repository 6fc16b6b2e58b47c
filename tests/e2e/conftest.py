"""End-to-end tests run against the session's stack, in one test process."""

from __future__ import annotations

import os

import pytest

from noetl_infra.stack import Stack
from tests.e2e.support import Api


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/tests/e2e/" in str(item.path):
            item.add_marker("e2e")
            # what mostly waits comes after the conformance kit, on its stack: nobody here waits for it, and it kills no other's workers
            waits = item.get_closest_marker("slow") is not None and "NOETL_E2E_ENDPOINT" not in os.environ
            item.add_marker(pytest.mark.xdist_group("conformance" if waits else "stack"))


@pytest.fixture(scope="session")
def api(stack: Stack) -> Api:
    return Api(stack.api_url)
