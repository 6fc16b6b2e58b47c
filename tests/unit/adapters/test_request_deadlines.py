"""Requests to AWS within a deadline: none begins after it, and none is tried again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from noetl_core.adapters.aws.clients import client, requests_checked_by
from noetl_core.log.concurrent_reads import CONCURRENT_READS, read_concurrently
from noetl_core.ports import Deadline, OutOfTime
from tests.contract.aws import environment


class Broken:
    """A server that closes each connection without an answer, which botocore tries again."""

    def __init__(self) -> None:
        self.requests = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                if not connection.recv(65_536):
                    return
                self.requests += 1

    def close(self) -> None:
        socket.create_connection(self._listening.getsockname()).close()  # wakes the thread
        self._thread.join()
        self._listening.close()


@pytest.fixture
def broken() -> Iterator[Broken]:
    server = Broken()
    with environment(AWS_ENDPOINT_URL=server.url):
        yield server
    server.close()


class Checks:
    def __init__(self, most: int) -> None:
        self.left = most

    def __call__(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OutOfTime("too long")


def test_no_request_begins_after_the_deadline(broken: Broken) -> None:
    with requests_checked_by(Deadline.after(0).check), pytest.raises(OutOfTime):
        client("sqs").list_queues()
    assert broken.requests == 0


def test_no_request_is_tried_again_after_the_deadline(broken: Broken) -> None:
    with requests_checked_by(Checks(2)), pytest.raises(OutOfTime):
        client("sqs").list_queues()
    assert broken.requests == 2


def test_reads_in_several_threads_have_the_deadline_of_their_caller(broken: Broken) -> None:
    def read(_: int) -> None:
        client("sqs").list_queues()

    with requests_checked_by(Deadline.after(0).check), pytest.raises(OutOfTime):
        list(read_concurrently(read, range(CONCURRENT_READS + 1)))
    assert broken.requests == 0


def test_a_deadline_ends_with_its_block(broken: Broken) -> None:
    with requests_checked_by(Deadline.after(0).check):
        pass
    with requests_checked_by(Checks(1)), pytest.raises(OutOfTime):
        client("sqs").list_queues()
    assert broken.requests == 1
