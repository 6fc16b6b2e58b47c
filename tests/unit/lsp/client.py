"""A client of the language server's protocol: JSON messages over two pipes, as an editor sends them."""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import IO, Any

from noetl_lsp.server import server

TIMEOUT_S = 20
DOCS = "https://docs.example.org/"
CAPABILITIES: dict[str, Any] = {"textDocument": {"rename": {"prepareSupport": True}}}


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Client:
    """One connection. `open` and `change` send texts, `ask` waits for an answer."""

    def __init__(self, to_server: IO[bytes], from_server: IO[bytes]) -> None:
        self._out, self._in = to_server, from_server
        self._ids = count(1)
        self._versions: dict[str, int] = {}
        self._answers: dict[int, dict[str, Any]] = {}
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.findings: dict[str, dict[str, Any]] = {}
        self.shown: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while header := self._in.readline():
            length = 0
            while header.strip():
                if header.lower().startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
                header = self._in.readline()
            self._messages.put(json.loads(self._in.read(length)))
        self._messages.put(None)

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def request(self, method: str, params: Any) -> int:
        """Send a request. Return its id."""
        number = next(self._ids)
        self._send({"id": number, "method": method, "params": params})
        return number

    def ask(self, method: str, params: Any) -> Any:
        return self.answer(self.request(method, params))

    def answer(self, number: int) -> Any:
        """Wait for the answer to a request. Raises `Refused`."""
        while number not in self._answers:
            self._take()
        answer = self._answers.pop(number)
        if "error" in answer:
            raise Refused(answer["error"]["code"], answer["error"]["message"])
        return answer["result"]

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._out.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._out.flush()

    def _take(self) -> None:
        message = self._messages.get(timeout=TIMEOUT_S)
        assert message is not None, "the server has closed the connection"
        if "method" not in message:
            self._answers[message["id"]] = message
        elif message["method"] == "textDocument/publishDiagnostics":
            self.findings[message["params"]["uri"]] = message["params"]
        elif message["method"] == "window/showMessage":
            self.shown.append(message["params"]["message"])

    # --- texts ----------------------------------------------------------------------------------------------------------

    def initialize(self, **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("initialize", {"processId": None, "rootUri": None, "capabilities": CAPABILITIES | more})
        self.notify("initialized", {})
        return found

    def open(self, text: str, uri: str = "file:///nowhere/flow.yaml", language: str = "yaml") -> str:
        self._versions[uri] = 1
        document = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})
        return uri

    def change(self, text: str, uri: str = "file:///nowhere/flow.yaml") -> int:
        self._versions[uri] += 1
        document = {"uri": uri, "version": self._versions[uri]}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})
        return self._versions[uri]

    def close(self, uri: str = "file:///nowhere/flow.yaml") -> None:
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def found(self, uri: str = "file:///nowhere/flow.yaml") -> list[dict[str, Any]]:
        """Wait for the findings of the text's last version."""
        while self.findings.get(uri, {}).get("version") != self._versions[uri]:
            self._take()
        found: list[dict[str, Any]] = self.findings[uri]["diagnostics"]
        return found

    def at(self, method: str, offset: int, text: str, uri: str = "file:///nowhere/flow.yaml", **more: Any) -> Any:
        """Ask about a place of a text."""
        return self.ask(f"textDocument/{method}", {"textDocument": {"uri": uri}, "position": position(text, offset), **more})


def position(text: str, offset: int) -> dict[str, int]:
    """Return the position of an offset, counted independently of the server: lines, and UTF-16 units."""
    before = text[:offset].split("\n")
    return {"line": len(before) - 1, "character": len(before[-1].encode("utf-16-le")) // 2}


def spanned(text: str, of: dict[str, Any]) -> str:
    """Return the text of a range."""
    lines = text.split("\n")
    start, end = of["start"], of["end"]

    def offset(at: dict[str, int]) -> int:
        row = lines[at["line"]].encode("utf-16-le")[: at["character"] * 2].decode("utf-16-le")
        return sum(len(line) + 1 for line in lines[: at["line"]]) + len(row)

    return text[offset(start) : offset(end)]


def edited(text: str, edits: list[dict[str, Any]]) -> str:
    """Return a text after the edits of the protocol."""
    lines = text.split("\n")
    starts = [sum(len(line) + 1 for line in lines[:n]) for n in range(len(lines))]

    def offset(at: dict[str, int]) -> int:
        if at["line"] >= len(lines):
            return len(text)
        return starts[at["line"]] + len(lines[at["line"]].encode("utf-16-le")[: at["character"] * 2].decode("utf-16-le"))

    placed = sorted(((offset(e["range"]["start"]), offset(e["range"]["end"]), e["newText"]) for e in edits), reverse=True)
    for start, end, new in placed:
        text = text[:start] + new + text[end:]
    return text


@contextmanager
def connected() -> Iterator[Client]:
    """Serve a client in this process."""
    (server_in, client_out), (client_in, server_out) = os.pipe(), os.pipe()
    serving = server(DOCS)
    streams = os.fdopen(server_in, "rb"), os.fdopen(server_out, "wb")
    thread = threading.Thread(target=serving.start_io, args=streams, daemon=True)
    thread.start()
    client = Client(os.fdopen(client_out, "wb"), os.fdopen(client_in, "rb"))
    try:
        yield client
        client.ask("shutdown", None)
    finally:
        client._send({"method": "exit"})
        thread.join(TIMEOUT_S)
        for stream in (client._out, *streams, client._in):
            stream.close()
    assert not thread.is_alive()
