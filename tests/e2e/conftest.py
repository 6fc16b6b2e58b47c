"""One embedded stack for all end-to-end tests of a session, with a folder and a port of its own.

`NOETL_E2E_ENDPOINT` names another endpoint (LocalStack) to deploy to and test instead.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl_infra.stack import Stack, down
from noetl_infra.up import up
from tests.e2e.support import Api

SCRIPTED_TOOL = Path(__file__).parents[1] / "conformance" / "scripted_tool"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/tests/e2e/" in str(item.path):
            item.add_marker("e2e")
            # one stack, one test process; what mostly waits has another, so that nobody waits for it
            alone = item.get_closest_marker("slow") is not None and "NOETL_E2E_ENDPOINT" not in os.environ
            item.add_marker(pytest.mark.xdist_group("slow stack" if alone else "stack"))


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    endpoint = os.environ.get("NOETL_E2E_ENDPOINT")
    if endpoint:
        yield up(folder, endpoint=endpoint, tools=[str(SCRIPTED_TOOL)])  # as the conformance kit deploys there
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    try:
        yield up(folder, port=port)
    finally:
        down(folder)


@pytest.fixture(scope="session")
def api(stack: Stack) -> Api:
    return Api(stack.api_url)
