"""A small service for the example: OAuth 2.0 tokens, a search that wants one and is busy now and then, a language model, reports.

python server.py --port 8080                 (loopback only)

POST /token                 client credentials: demo-client, demo-client-secret; an access token for an hour
GET  /search?q=storms       articles; the first request for each word is answered 429 with Retry-After: 1
POST /v1/chat/completions   as OpenAI's; wants the key of model.json
POST /reports               a file of a form, kept
GET  /reports               what was kept
GET  /stats                 how often each was asked
GET  /health
"""

from __future__ import annotations

import argparse
import contextlib
import email
import email.policy
import json
import secrets
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

HERE = Path(__file__).parent
CLIENT = json.loads((HERE / "client.json").read_text())
MODEL_KEY = json.loads((HERE / "model.json").read_text())["token"]
ARTICLES = ("a first look at", "ten years of", "what nobody says about")
SEARCH_S = 0.1
"""Seconds that a search takes."""


class Service(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.tokens: set[str] = set()
        self.asked: set[str] = set()
        self.reports: list[str] = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Service

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/search":
            self._search(parse_qs(parts.query)["q"][0])
        elif parts.path == "/stats":
            self._say(dict(self.server.counts))
        else:
            self._say({"reports": self.server.reports})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        where = urlsplit(self.path).path
        if where == "/token":
            self._token({name: values[0] for name, values in parse_qs(body.decode()).items()})
        elif where == "/reports":
            self._report(body)
        else:
            self._answer(json.loads(body))

    def _token(self, form: dict[str, str]) -> None:
        with self.server.lock:
            self.server.counts["tokens"] += 1
            if {name: form.get(name) for name in CLIENT} != CLIENT:
                return self._say({"error": "invalid_client"}, 401)
            token = secrets.token_urlsafe(24)
            self.server.tokens.add(token)
        return self._say({"access_token": token, "token_type": "Bearer", "expires_in": 3600})

    def _search(self, word: str) -> None:
        with self.server.lock:
            if self._bearer() not in self.server.tokens:
                return self._say({"why": "no valid token"}, 401)
            if word not in self.server.asked:
                self.server.asked.add(word)
                return self._say({"why": "busy"}, 429, Retry_After="1")
            self.server.counts["searches"] += 1
        time.sleep(SEARCH_S)
        return self._say({"results": [{"title": f"{which} {word}"} for which in ARTICLES]})

    def _answer(self, request: dict[str, Any]) -> None:
        if self._bearer() != MODEL_KEY:
            return self._say({"error": {"message": "no such key"}}, 401)
        prompt = str(request["messages"][-1]["content"])
        with self.server.lock:
            self.server.counts["summaries"] += 1
        text = f"{prompt.count(';') + 1} articles: {prompt.partition(':')[2].split(';')[0].strip()}, and more"
        return self._say(
            {
                "id": "1",
                "object": "chat.completion",
                "model": request["model"],
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": len(prompt.split()), "completion_tokens": len(text.split()), "total_tokens": 0},
            }
        )

    def _report(self, body: bytes) -> None:
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        form = email.message_from_bytes(head + body, policy=email.policy.HTTP)
        with self.server.lock:
            self.server.counts["reports"] += 1
            for part in form.iter_parts():
                if part.get_filename():
                    self.server.reports.append(part.get_payload(decode=True).decode())
        self._say({"kept": True})

    def _bearer(self) -> str:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def _say(self, value: Any, status: int = 200, **headers: str) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the counts are at /stats."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    with Service(parser.parse_args().port) as service:
        print(f"listening on http://127.0.0.1:{service.server_address[1]}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            service.serve_forever()


if __name__ == "__main__":
    main()
