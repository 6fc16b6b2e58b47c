"""The cases of `http`."""

from __future__ import annotations

from tests.matrix.cases import Case

leaves_out = {"rights": "addresses are a matter of AllowPrivateHttp, not of names in AWS"}


def _status(status: int, kind: str, retryable: bool) -> Case:
    return Case(
        f"status_{status}", {"url": f"{{{{ workload.http }}}}/status/{status}"}, "errors", fails=kind, retryable=retryable
    )


CASES = [
    Case("get", {"url": "{{ workload.http }}/rows/2"}, gives={"{{ _prev.data | length }}": 2, "{{ _prev.status }}": 200}),
    Case(
        "post",
        {"method": "POST", "url": "{{ workload.http }}/echo", "json": {"a": 1}},
        gives={"{{ _prev.data.body }}": '{"a":1}'},
    ),
    _status(400, "client_error", False),
    _status(401, "auth", False),
    _status(404, "not_found", False),
    _status(408, "timeout", True),
    _status(429, "rate_limit", True),
    _status(503, "server_error", True),
    Case("refused", {"url": "http://127.0.0.1:9/"}, "errors", fails="connection", retryable=True),
    Case("broken", {"url": "{{ workload.http }}/broken"}, "errors", fails="parse"),
    Case("wrong", {"url": "no address"}, "errors", fails="schema", retryable=False),
    Case(
        "too_large",
        {"url": "{{ workload.http }}/rows/100", "spec": {"max_response_bytes": 1000}},
        "errors",
        fails="limit",
        retryable=False,
    ),
    Case("slow", {"url": "{{ workload.http }}/slow", "spec": {"timeout": 0.5}}, "timeout", fails="timeout", retryable=True),
    Case("large", {"url": "{{ workload.http }}/rows/2000"}, "large result", gives={"{{ _prev.data | length }}": 2000}),
    Case(
        "secret",
        {"method": "POST", "url": "{{ workload.http }}/echo", "body": "{{ keychain.matrix.token }}"},
        "secret",
        gives={"{{ _prev.data.body }}": "***"},
    ),
]
