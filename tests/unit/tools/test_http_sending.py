"""`kind: http` sends stored results: as the body, and as the files of a form."""

from __future__ import annotations

import email
import email.policy
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.adapters.local.results import LazyTempResultStore
from noetl_core.engine.outcome import Outcome
from noetl_core.ports import TooLarge
from noetl_core.tools.base import ToolCall
from noetl_core.tools.http.tool import HttpTool
from noetl_core.tools.invoke import invoke
from noetl_core.tools.network.addresses import AddressPolicy

from .conftest import Server, kind
from .http_calls import Http


class OwnReferences:
    """References of one execution, whose values a test gives."""

    def __init__(self, store: LazyTempResultStore, limit: int = 1 << 20) -> None:
        self._store, self._limit = store, limit

    def owns(self, value: Any) -> bool:
        return isinstance(value, dict) and value.get("kind") == "result_ref" and str(value["key"]).startswith("1/")

    def opened(self, reference: Any, name: str) -> Any:
        return self.load(reference, name)

    def load(self, value: Any, name: str, limit: int | None = None, *, texts: bool = False) -> Any:
        if not self.owns(value):
            return value
        if value["size"] > self._limit:
            raise TooLarge("too large")
        return json.loads(self._store.get(value["key"]))


@pytest.fixture
def send(store: LazyTempResultStore) -> Iterator[Http]:
    tool = HttpTool(AddressPolicy(allow_private=True))

    def call(url: str, spec: dict[str, Any] | None = None, **inputs: Any) -> Outcome:
        fields: Any = {"results": store, "references": OwnReferences(store), "timeout_s": 60}
        return invoke(
            tool, ToolCall("http", {"url": url, "method": "POST", **inputs}, spec or {}, "1", "s", "t", "run-1", **fields)
        )

    yield call
    tool.close()


def put(store: LazyTempResultStore, name: str, body: bytes, **more: Any) -> dict[str, Any]:
    return {**store.put(f"1/{name}", body), **more}


@pytest.mark.parametrize(
    ("form", "content_type"),
    [("csv", "text/csv"), ("parquet", "application/vnd.apache.parquet"), ("bytes", "application/octet-stream")],
)
def test_a_stored_file_is_sent_as_it_is(
    send: Http, store: LazyTempResultStore, server: Server, form: str, content_type: str
) -> None:
    assert send(server.base + "/x", body=put(store, "f", b"\x00a,b\n", format=form)).status == "ok"
    (_, _, headers, body) = server.requests[0]
    assert (body, headers["content-length"], headers["content-type"]) == (b"\x00a,b\n", "5", content_type)


def test_a_stored_value_is_sent_as_the_value_that_it_is(send: Http, store: LazyTempResultStore, server: Server) -> None:
    send(server.base + "/x", body=put(store, "v", b'"text of a result"'))
    send(server.base + "/x", body=put(store, "w", b'{"a": 1}', format="json"))
    assert [body for *_, body in server.requests] == [b"text of a result", b'{"a":1}']


@pytest.mark.nightly
def test_a_large_stored_body_is_sent_in_constant_memory(send: Http, store: LazyTempResultStore, server: Server) -> None:
    with store.writer("1/large.json") as out:
        for _ in range(64):
            out.write(b"[0123456789abcd]" * 65536)
        reference = {**out.finish(), "format": "json"}
    tracemalloc.start()
    try:
        outcome = send(server.base + "/count", body=reference)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outcome.result["data"] == {"bytes": 64 << 20}
    assert peak < 32 << 20


def test_a_stored_body_is_sent_anew_by_a_retry_and_after_a_redirect(
    send: Http, store: LazyTempResultStore, server: Server
) -> None:
    reference = put(store, "f", b"a,b\n", format="csv")
    assert send(f"{server.base}/redirect?to=/echo&code=307", body=reference).result["data"]["body"] == "a,b\n"
    assert send(server.base + "/flaky", {"retry": {"attempts": 3, "delay": 0.01}}, body=reference).status == "ok"
    assert [body for *_, body in server.requests] == [b"a,b\n"] * 5
    outcome = send(f"{server.base}/redirect?to=http://localhost:1/&code=307", body=reference)
    assert outcome.error is not None and outcome.error.code == "body_redirected"


@pytest.mark.parametrize("change", [b"other", b"longer than it was", b""])
def test_a_stored_body_that_was_altered_is_an_error(
    send: Http, store: LazyTempResultStore, server: Server, change: bytes
) -> None:
    reference = put(store, "f", b"a,b\n1", format="csv")
    store.put("1/f", change)
    assert kind(send(server.base + "/x", body=reference, spec={"timeout": 5})) == "storage"


def test_files_are_sent_with_the_fields_of_a_form(send: Http, store: LazyTempResultStore, server: Server) -> None:
    files = {
        "note": "plain täxt",
        "rows": put(store, "rows.csv", b"a,b\n", format="csv"),
        "picture": {"base64": "iVBORw==", "filename": "p.png"},
        "many": [{"content": "1", "filename": "1.txt"}, {"json": {"a": 1}, "filename": "2"}],
    }
    outcome = send(server.base + "/upload", form={"title": "x", "tags": ["a", "b"]}, files=files)
    assert outcome.status == "ok", outcome.error
    parts = parts_of(server.requests[0])
    assert parts == [
        ("title", None, None, b"x"),
        ("tags", None, None, b"a"),
        ("tags", None, None, b"b"),
        ("note", "note", "application/octet-stream", "plain täxt".encode()),
        ("rows", "rows.csv", "text/csv", b"a,b\n"),
        ("picture", "p.png", "image/png", b"\x89PNG"),
        ("many", "1.txt", "text/plain", b"1"),
        ("many", "2", "application/json", b'{"a":1}'),
    ]
    assert int(server.requests[0][2]["content-length"]) == len(server.requests[0][3])


def parts_of(request: tuple[str, str, dict[str, str], bytes]) -> list[tuple[Any, ...]]:
    """The parts of a form: field, name of the file, type, content."""
    head = f"Content-Type: {request[2]['content-type']}\r\n\r\n".encode()
    message = email.message_from_bytes(head + request[3], policy=email.policy.HTTP)
    found = []
    for part in message.iter_parts():
        disposition = part["content-disposition"].params
        kind_ = part["content-type"].content_type if part["content-type"] else None
        found.append((disposition["name"], disposition.get("filename"), kind_, part.get_payload(decode=True)))
    return found


@pytest.mark.nightly
def test_a_large_file_is_sent_in_constant_memory(send: Http, store: LazyTempResultStore, server: Server) -> None:
    with store.writer("1/large.bin") as out:
        for _ in range(64):
            out.write(b"0123456789abcdef" * 65536)
        reference = {**out.finish(), "format": "bytes"}
    tracemalloc.start()
    try:
        outcome = send(server.base + "/count", files={"f": reference})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (64 << 20) < outcome.result["data"]["bytes"] < (64 << 20) + 1000
    assert peak < 32 << 20


@pytest.mark.parametrize(
    "files",
    [
        [1],
        {},
        {"a": {"contents": "x"}},
        {"a": {"content": "x", "base64": "eA=="}},
        {"a": {"base64": "?"}},
        {"a": {"content": "x", "filename": "a\r\nb"}},
        {"a": {"content": "x", "content_type": "text/plain\r\nX: y"}},
    ],
)
def test_files_that_are_none_are_refused(send: Http, server: Server, files: Any) -> None:
    assert kind(send(server.base + "/x", files=files)) == "schema" and not server.requests
