"""A stack that listens on the loopback address alone, seen from a container: by another address of this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from noetl_infra.sam_local import NoEngine, gateway, reachable
from tests.servers import Handler, serving, url_of

SIZE = 300_000


@contextmanager
def service(content: bytes = b"x" * SIZE) -> Iterator[str]:
    """Answers every request alike, on 127.0.0.1."""

    class Answer(Handler):
        def do_GET(self) -> None:
            self.say(body=content)

    with serving(HTTPServer(("127.0.0.1", 0), Answer)) as server:
        yield url_of(server)


def test_a_loopback_service_is_reachable_at_the_other_address_within_the_block() -> None:
    with service() as endpoint:
        with reachable(endpoint, "127.0.0.2") as seen_as:
            assert seen_as == endpoint.replace("127.0.0.1", "127.0.0.2")
            for _ in range(3):
                with urlopen(seen_as, timeout=10) as answer:
                    assert len(answer.read()) == SIZE
        with pytest.raises(URLError):
            urlopen(seen_as, timeout=10)


@pytest.mark.parametrize("engine", ["tcp://127.0.0.1:1", "unix:///nowhere/engine.sock"])
def test_a_missing_container_engine_is_reported_with_advice(engine: str) -> None:
    with pytest.raises(NoEngine, match="set DOCKER_HOST"):
        gateway(engine)


def test_containers_see_this_machine_as_the_gateway_of_their_network() -> None:
    networks = [
        {"Name": "mine", "IPAM": {"Config": [{"Gateway": "10.9.0.1"}]}},
        {"Name": "podman", "IPAM": {"Config": [{"Gateway": "10.88.0.1"}]}},
    ]
    with service(json.dumps(networks).encode()) as engine:
        assert gateway(engine.replace("http", "tcp")) == "10.88.0.1"
