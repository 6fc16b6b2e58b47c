"""A fake OpenAI-compatible chat endpoint: it answers by what it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any

from tests.servers import Handler, serving, url_of

Answer = Callable[[dict[str, Any]], "str | dict[str, Any] | tuple[int, Any] | tuple[int, Any, dict[str, str]]"]
"""Takes the request's body. Returns the text of an answer, its message, or a status with a body and headers."""


@dataclass
class LlmServer:
    """A fake server of a language model, with the requests that it received."""

    url: str
    answer: Answer
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    wait: threading.Event = field(default_factory=threading.Event)
    """Answers that are `HANG` come when it is set."""


HANG = "(hangs)"


def completion(body: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    """An answer as the service gives it; a token is a word here."""
    prompt = " ".join(str(m.get("content")) for m in body["messages"])
    used = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(str(message.get("content") or "").split())}
    finish = message.pop("finish_reason", "stop")
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": body["model"], "choices": [choice], "usage": used}


@contextmanager
def llm_server(answer: Answer) -> Iterator[LlmServer]:
    """Serve until the block ends."""

    class Chat(Handler):
        def do_POST(self) -> None:
            body = json.loads(self.told())
            told.asked.append(body)
            told.headers.append({name.lower(): value for name, value in self.headers.items()})
            reply = told.answer(body)
            if reply == HANG:
                told.wait.wait(30)
                return
            if isinstance(reply, tuple):
                status, content, headers = (*reply, {})[:3]
                text = content if isinstance(content, str) else json.dumps(content)
                self.say(status, text.encode(), Content_Type="application/json", **headers)
                return
            message = {"content": reply} if isinstance(reply, str) else reply
            self.say(200, json.dumps(completion(body, message)).encode(), Content_Type="application/json")

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    with serving(Server(("127.0.0.1", 0), Chat)) as server:
        told = LlmServer(f"{url_of(server)}/v1", answer)
        try:
            yield told
        finally:
            told.wait.set()
