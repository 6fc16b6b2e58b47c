"""One server for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.lsp.client import Client, connected


@pytest.fixture(scope="session")
def _connection() -> Iterator[Client]:
    with connected() as client:
        client.initialize()
        yield client


@pytest.fixture
def client(_connection: Client) -> Iterator[Client]:
    """A client without open texts."""
    yield _connection
    for uri in list(_connection._versions):
        _connection.close(uri)
    _connection.ask("textDocument/documentSymbol", {"textDocument": {"uri": "file:///nowhere/none.yaml"}})  # after all findings
    _connection._versions.clear()
    _connection.findings.clear()
    _connection.shown.clear()
