"""The cases of `llm`."""

from __future__ import annotations

from typing import Any

from tests.matrix.cases import Case

leaves_out = {"rights": "addresses are a matter of AllowPrivateHttp, not of names in AWS"}
CITY = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}


def _asks(where: str = "chat", prompt: str = "hello", **more: Any) -> dict[str, Any]:
    return {"url": f"{{{{ workload.http }}}}/{where}", "model": "echo", "prompt": prompt, **more}


def _status(status: int, kind: str, retryable: bool) -> Case:
    return Case(f"status_{status}", _asks(f"status/{status}"), "errors", fails=kind, retryable=retryable)


CASES = [
    Case("ask", _asks(), gives={"{{ _prev.text }}": "hello", "{{ _prev.usage.output_tokens }}": 1}),
    Case("fits", _asks(prompt='{"city": "Paris"}', schema=CITY), gives={"{{ _prev.data.city }}": "Paris"}),
    _status(400, "client_error", False),
    _status(401, "auth", False),
    _status(404, "not_found", False),
    _status(413, "limit", False),
    _status(429, "rate_limit", True),
    _status(503, "server_error", True),
    Case("refused", {**_asks(), "url": "http://127.0.0.1:9/"}, "errors", fails="connection", retryable=True),
    Case("no_chat", _asks("other"), "errors", fails="parse", retryable=False),
    Case("no_json", _asks(schema=CITY), "errors", fails="parse", retryable=True),
    Case("misfit", _asks(prompt="{}", schema=CITY, spec={"repair": False}), "errors", fails="schema", retryable=True),
    Case("slow", _asks("slow", spec={"timeout": 0.5}), "timeout", fails="timeout", retryable=True),
    Case("large", _asks(prompt="{{ 'x' * 100000 }}"), "large result", gives={"{{ _prev.text | length }}": 100_000}),
    Case(
        "secret",
        _asks(prompt="{{ keychain.matrix.token }}", auth={"type": "bearer", "token": "{{ keychain.matrix.token }}"}),
        "secret",
        gives={"{{ _prev.text }}": "***"},
    ),
]
