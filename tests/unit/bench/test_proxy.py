"""The counting proxy forwards unchanged and prices as DynamoDB does."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from bench.proxy import Counts, Proxy, count, item_bytes

from tests.servers import serving


def exchange(target: str, asked: dict[str, Any], got: dict[str, Any] | None = None) -> dict[str, float]:
    counts = Counts()
    count(counts, "POST", "/", {"X-Amz-Target": target}, json.dumps(asked).encode(), 200, json.dumps(got or {}).encode())
    return dict(counts.take())


def test_an_item_is_as_large_as_its_names_and_values() -> None:
    assert (
        item_bytes({"pk": {"S": "abc"}, "n": {"N": "12"}, "b": {"B": "AAAA"}, "t": {"BOOL": True}})
        == 2 + 3 + 1 + 3 + 1 + 3 + 1 + 1
    )


@pytest.mark.parametrize(("size", "units"), [(1024 - 3, 1), (1025 - 3, 2)])
def test_a_put_costs_a_write_unit_per_started_kilobyte(size: int, units: int) -> None:
    counted = exchange("DynamoDB_20120810.PutItem", {"Item": {"pk": {"S": "x" * (size + 1)}}})
    assert counted["write_units"] == units
    assert counted["dynamodb.PutItem"] == 1


def test_reads_are_priced_by_size_and_consistency() -> None:
    items = {"Items": [{"pk": {"S": "x" * 5000}}]}
    strong = exchange("DynamoDB_20120810.Query", {"ConsistentRead": True}, items)
    eventual = exchange("DynamoDB_20120810.Query", {}, items)
    assert (strong["read_units"], strong["strong_reads"]) == (2, 1)
    assert (eventual["read_units"], eventual["eventual_reads"]) == (1, 1)


def test_messages_are_counted_beside_requests() -> None:
    counted = exchange("AmazonSQS.SendMessageBatch", {"Entries": [{}, {}, {}]})
    assert counted == {"sqs.SendMessageBatch": 1, "sqs_messages": 3}


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("X-Path", self.path)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[int]:
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Echo)) as server:
        yield server.server_port


def test_requests_pass_unchanged(upstream: int) -> None:
    with Proxy(upstream) as proxy:
        body = bytes(range(256)) * 4000
        request = urllib.request.Request(proxy.url + "/bucket/key?x=1", body, {"Authorization": "a/us-east-1/s3/b"}, method="PUT")
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert (answer.status, answer.headers["X-Path"], answer.read()) == (201, "/bucket/key?x=1", body)
        assert proxy.counts.take() == {"s3.PUT": 1}
        assert proxy.counts.take() == {}
