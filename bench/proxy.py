"""A counting reverse proxy: it sees the functions' requests to AWS from outside their code.

The embedded stack hands its own `AWS_ENDPOINT_URL` on to every function it runs. With that pointing here, each SDK call of each
function passes through, is counted by service and operation, and continues to the stack unchanged. Sizes are priced as DynamoDB
prices them: a write unit per started KB of item, a read unit per started 4 KB read with strong consistency, half for eventual.

Deliveries are not seen here: Lambda itself polls queues and streams. `bench.stack` counts invocations from the functions' logs.
"""

from __future__ import annotations

import http.client
import json
import threading
from base64 import b64decode
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

WRITES = {"PutItem", "UpdateItem", "DeleteItem"}
HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive"}


def item_bytes(value: Any) -> int:
    """Size of an item or attribute value in DynamoDB's JSON, by DynamoDB's rules: names and values count, types do not. Binary
    values are encoded, as at the wire, or plain, as in a client."""
    if isinstance(value, dict) and len(value) == 1:
        ((kind, inner),) = value.items()
        if kind == "S":
            return len(inner.encode())
        if kind == "N":
            return len(inner.strip("-0.")) // 2 + 2
        if kind == "B":
            return len(inner if isinstance(inner, bytes) else b64decode(inner))
        if kind in ("BOOL", "NULL"):
            return 1
        if kind == "M":
            return 3 + sum(len(k.encode()) + item_bytes(v) + 1 for k, v in inner.items())
        if kind == "L":
            return 3 + sum(item_bytes(v) + 1 for v in inner)
        if kind in ("SS", "NS", "BS"):
            return sum(item_bytes({kind[0]: v}) for v in inner)
    return sum(len(name.encode()) + item_bytes(inner) for name, inner in value.items())


class Counts:
    """Counts of the traffic: operations (`dynamodb.PutItem`), and units (`write_units`, `write_bytes`, `read_units`,
    `strong_reads`, `eventual_reads`, `sqs_messages`)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counter: dict[str, float] = defaultdict(float)

    def add(self, what: str, n: float = 1) -> None:
        with self._lock:
            self._counter[what] += n

    def take(self) -> dict[str, float]:
        """The counts since the last call."""
        with self._lock:
            taken, self._counter = dict(self._counter), defaultdict(float)
        return taken


def count(counts: Counts, method: str, path: str, headers: Any, body: bytes, status: int, answer: bytes) -> None:
    """Record one exchange."""
    target = headers.get("X-Amz-Target", "")
    if target.startswith("DynamoDB_"):
        operation = target.rpartition(".")[2]
        counts.add(f"dynamodb.{operation}")
        count_units(counts, operation, json.loads(body), json.loads(answer or b"{}") if status == 200 else {})
    elif target.startswith("AmazonSQS."):
        operation = target.rpartition(".")[2]
        counts.add(f"sqs.{operation}")
        if operation.startswith("SendMessage"):
            counts.add("sqs_messages", len(json.loads(body).get("Entries", [None])))
    elif target:
        service, _, operation = target.partition(".")
        counts.add(f"{service.split('_')[0].lower()}.{operation}")
    elif "/lambda" in headers.get("Authorization", "") or path.startswith("/2015-03-31/"):
        counts.add("lambda.Invoke")
    elif "/s3/" in headers.get("Authorization", ""):
        counts.add(f"s3.{method}")
    else:
        action = parse_qs(body.decode("latin-1")).get("Action", [urlsplit(path).path])[0]
        counts.add(f"other.{action}")


def count_units(counts: Counts, operation: str, asked: dict[str, Any], got: dict[str, Any]) -> None:
    """Record the units of one request to DynamoDB."""
    if operation in WRITES:  # a refused conditional write is charged like one that happened
        size = item_bytes(asked.get("Item") or asked.get("Key") or {})
        if operation == "UpdateItem":
            size += item_bytes(asked.get("ExpressionAttributeValues") or {})
        _wrote(counts, size)
    elif operation == "BatchWriteItem":
        for requests in asked["RequestItems"].values():
            for request in requests:
                size = item_bytes(request.get("PutRequest", {}).get("Item") or request.get("DeleteRequest", {}).get("Key") or {})
                _wrote(counts, size)
    elif operation == "TransactWriteItems":
        for action in asked["TransactItems"]:
            ((_, inner),) = action.items()
            size = item_bytes(inner.get("Item") or inner.get("Key") or {})
            _wrote(counts, size, factor=2)
    elif operation in ("GetItem", "Query", "Scan"):
        size = sum(item_bytes(item) for item in got.get("Items", [got["Item"]] if "Item" in got else []))
        strong = bool(asked.get("ConsistentRead"))
        counts.add("read_units", max(1, -(-size // 4096)) * (1.0 if strong else 0.5))
        counts.add("strong_reads" if strong else "eventual_reads")


def _wrote(counts: Counts, size: int, factor: int = 1) -> None:
    counts.add("write_units", factor * -(-max(size, 1) // 1024))
    counts.add("write_bytes", size)


class Proxy(ThreadingHTTPServer):
    """Listens on a free loopback port and forwards to `upstream` (`http://127.0.0.1:4566`)."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, upstream_port: int) -> None:
        self.upstream_port = upstream_port
        self.counts = Counts()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Proxy:
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer goes out whole
    server: Proxy

    def setup(self) -> None:
        super().setup()
        self.upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream_port, timeout=120)

    def finish(self) -> None:
        self.upstream.close()
        super().finish()

    def _forward(self) -> None:
        body = self._read_body()
        headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP_BY_HOP | {"expect"}}
        headers["Content-Length"] = str(len(body))
        self.upstream.request(self.command, self.path, body, headers)
        answer = self.upstream.getresponse()
        content = answer.read()
        count(self.server.counts, self.command, self.path, self.headers, body, answer.status, content)
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP | {"content-length"}:
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = _forward

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():  # trailers
            pass
        return b"".join(parts)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: it counts."""
