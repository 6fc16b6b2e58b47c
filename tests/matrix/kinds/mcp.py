"""The cases of `mcp`."""

from __future__ import annotations

from typing import Any

from tests.matrix.cases import Case

leaves_out = {"rights": "addresses are a matter of AllowPrivateHttp, not of names in AWS"}


def _asks(tool: str = "echo", where: str = "mcp", spec: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    more = {} if spec is None else {"spec": spec}
    return {"url": f"{{{{ workload.http }}}}/{where}", "tool": tool, "arguments": arguments, **more}


def _status(status: int, kind: str, retryable: bool) -> Case:
    return Case(f"status_{status}", _asks(where=f"status/{status}"), "errors", fails=kind, retryable=retryable)


CASES = [
    Case("call", _asks(text="hello", n=1), gives={"{{ _prev.text }}": "hello", "{{ _prev.structured.n }}": 1}),
    Case("list", {"url": "{{ workload.http }}/mcp", "action": "list"}, gives={"{{ _prev.tools[0].name }}": "echo"}),
    _status(401, "auth", False),
    _status(404, "not_found", False),
    _status(429, "rate_limit", True),
    _status(503, "server_error", True),
    Case("failing", _asks("fail"), "errors", fails="client_error", retryable=False, says="it cannot"),
    Case("unknown", _asks("ecko"), "errors", fails="not_found", retryable=False, says='did you mean "echo"?'),
    Case("arguments", _asks("break"), "errors", fails="schema", retryable=False),
    Case("inside", _asks("break", code=-32603), "errors", fails="server_error", retryable=True),
    Case("revision", _asks("break", code=-32022), "errors", fails="unsupported", retryable=False),
    Case("refused", {**_asks(), "url": "http://127.0.0.1:9/"}, "errors", fails="connection", retryable=True),
    Case("no_mcp", _asks(where="other"), "errors", fails="parse", retryable=False),
    Case("over", _asks(text="{{ 'x' * 3000 }}", spec={"max_response_bytes": 2000}), "errors", fails="limit", retryable=False),
    Case("slow", _asks("slow", spec={"timeout": 0.5}), "timeout", fails="timeout", retryable=True),
    Case("large", _asks(text="{{ 'x' * 100000 }}"), "large result", gives={"{{ _prev.text | length }}": 100_000}),
    Case(
        "secret",
        {**_asks(text="{{ keychain.matrix.token }}"), "auth": {"type": "bearer", "token": "{{ keychain.matrix.token }}"}},
        "secret",
        gives={"{{ _prev.text }}": "***"},
    ),
]
