"""A port that is named is taken, or `noetl up` says why not."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path

import pytest

from noetl_infra import up
from noetl_infra.stack import Stack, StackDown, remember
from tests.servers import Healthy, serving, url_of


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield int(listening.getsockname()[1])


def test_a_named_port_in_use_fails_with_a_remedy(taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    with pytest.raises(StackDown, match=f"port {taken} is in use: name another one with --port, or leave --port out"):
        up.up(port=taken)


def test_a_stack_that_runs_at_another_port_is_not_taken_for_it(tmp_path: Path) -> None:
    with serving(HTTPServer(("127.0.0.1", 0), Healthy)) as emulator:
        remember(tmp_path, Stack(url_of(emulator), os.getpid()))
        with pytest.raises(StackDown, match=f"runs at {url_of(emulator)}: `noetl down` stops it"):
            up.up(tmp_path, port=emulator.server_port + 1)


def test_a_port_and_an_endpoint_are_two_places() -> None:
    with pytest.raises(StackDown, match="--port is for the embedded stack"):
        up.up(endpoint="http://127.0.0.1:1", port=4567)
