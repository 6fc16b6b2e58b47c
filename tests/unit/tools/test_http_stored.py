"""`kind: http` with `store`: bodies that go to the store as they come."""

from __future__ import annotations

import hashlib
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.local.results import LazyTempResultStore
from noetl_core.engine.outcome import Outcome
from noetl_core.expr import Secret
from noetl_core.log.stored_values import stored_outline
from noetl_core.tools.base import ToolCall
from noetl_core.tools.http import storing
from noetl_core.tools.http.tool import HttpTool
from noetl_core.tools.invoke import invoke
from noetl_core.tools.network.addresses import AddressPolicy

from .conftest import Server, kind
from .http_calls import Http


@pytest.fixture
def stored(store: LazyTempResultStore) -> Iterator[Http]:
    tool = HttpTool(AddressPolicy(allow_private=True))

    def call(url: str, spec: dict[str, Any] | None = None, secrets: Any = None, timeout_s: float = 60, **inputs: Any) -> Outcome:
        fields: Any = {"results": store, "secrets": secrets, "timeout_s": timeout_s}
        return invoke(
            tool, ToolCall("http", {"url": url, **inputs}, {"store": True, **(spec or {})}, "1", "s", "t", "run-1", **fields)
        )

    yield call
    tool.close()


def wait_for(holds: Callable[[], bool]) -> None:
    """Wait until something done on another thread is done."""
    for _ in range(500):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come")


def files(store: LazyTempResultStore) -> list[str]:
    return [str(path) for path in Path(store.url("any")).parent.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("kind_", "path", "form"),
    [
        ("application/json; charset=utf-8", "raw", "json"),
        ("application/problem+json", "raw", "json"),
        ("application/x-ndjson", "raw", "jsonl"),
        ("text/csv", "raw", "csv"),
        ("application/vnd.apache.parquet", "raw", "parquet"),
        ("text/html", "raw", "text"),
        ("image/png", "raw", "bytes"),
    ],
)
def test_a_stored_body_is_a_reference_with_its_format(
    stored: Http, store: LazyTempResultStore, server: Server, kind_: str, path: str, form: str
) -> None:
    outcome = stored(f"{server.base}/{path}", method="POST", params={"type": kind_}, body="a,b\n1,2\n")
    reference = outcome.result["data"]
    digest = "sha256:" + hashlib.sha256(b"a,b\n1,2\n").hexdigest()
    assert reference == {
        "kind": "result_ref",
        "store": "s3",
        "key": f"1/http/run-1.{form}",
        "size": 8,
        "checksum": digest,
        "format": form,
    }
    assert store.get(reference["key"]) == b"a,b\n1,2\n"
    assert outcome.result["status"] == 200


def test_stored_json_is_outlined_as_it_comes(stored: Http, store: LazyTempResultStore, server: Server) -> None:
    rows = [{"n": n, "name": "x" * 50} for n in range(20_000)]
    for form, body in (("json", json.dumps(rows, indent=1)), ("jsonl", "".join(json.dumps(row) + "\n" for row in rows))):
        kept = stored(f"{server.base}/raw", method="POST", params={"type": "text/plain"}, body=body, spec={"store": form})
        assert kept.error is None, kept.error
        reference = kept.result["data"]
        container = stored_outline(store, reference)
        assert container is not None and container.length == 20_000
        assert reference["schema_hint"] == {"type": "list", "length": 20_000}


def test_store_can_set_the_format_of_a_stored_body(stored: Http, server: Server) -> None:
    outcome = stored(server.base + "/raw", {"store": "jsonl"}, method="POST", body="{}\n")
    assert outcome.result["data"]["format"] == "jsonl"
    outcome = stored(server.base + "/raw", {"store": "xml"}, method="POST", body="{}\n")
    assert kind(outcome) == "schema" and outcome.error is not None and "json, jsonl, csv" in outcome.error.message
    assert kind(stored(server.base + "/raw", {"response": "json"})) == "schema"


def test_the_file_extension_gives_the_format_when_the_content_type_does_not() -> None:
    assert storing.format_of({"content-type": "binary/octet-stream"}, "/data/flights.parquet") == "parquet"
    assert storing.format_of({}, "/data/rows.ndjson") == "jsonl"
    assert storing.format_of({"content-type": "text/csv"}, "/data/rows.json") == "csv"
    assert storing.format_of({}, "/") == "bytes"


def test_a_compressed_body_is_stored_decompressed(stored: Http, store: LazyTempResultStore, server: Server) -> None:
    assert store.get(stored(server.base + "/gzip").result["data"]["key"]) == b'{"packed": true}'


@pytest.mark.parametrize(
    ("path", "spec", "expected"),
    [
        ("/endless", {"max_response_bytes": 5_000_000}, "limit"),
        ("/truncated_gzip", {}, "parse"),
        ("/drip", {"timeout": {"total": 0.5}}, "timeout"),
        ("/status?code=500", {}, "server_error"),
    ],
)
def test_a_body_that_does_not_come_whole_is_not_stored(
    stored: Http, store: LazyTempResultStore, server: Server, path: str, spec: dict[str, Any], expected: str
) -> None:
    assert kind(stored(server.base + path, spec)) == expected
    wait_for(lambda: files(store) == [])


@pytest.mark.nightly
def test_secrets_echoed_by_a_service_are_masked_in_the_stored_body(
    stored: Http, store: LazyTempResultStore, server: Server
) -> None:
    secret = "s3cret-wörd-of-theirs"
    row = f"x{secret}y".encode() + b"." * 977
    body = (b"." * 500 + row * 3000).decode()
    outcome = stored(
        server.base + "/raw", {"timeout": 60}, method="POST", body=Secret(body), headers={"X-T": Secret("t0ken-in-a-header")}
    )
    assert outcome.status == "ok"
    outcome = stored(server.base + "/raw", method="POST", body=body, headers={"X-T": Secret(secret.encode().decode("latin-1"))})
    found = store.get(outcome.result["data"]["key"])
    assert b"s3cret" not in found and found.count(b"x***y") == 3000
    assert outcome.result["data"]["size"] == len(found)


def test_a_large_body_is_stored_in_constant_memory(stored: Http, store: LazyTempResultStore, server: Server) -> None:
    tracemalloc.start()
    try:
        outcome = stored(f"{server.base}/large?mb=64")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outcome.result["data"]["size"] == 64 << 20
    assert peak < 16 << 20
