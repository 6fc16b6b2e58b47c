"""The cases of `python`."""

from __future__ import annotations

from tests.matrix.cases import Case

leaves_out = {"rights": "its process holds no credentials: it reaches nothing in AWS"}
CASES = [
    Case("result", {"code": "result = sum(rows)", "args": {"rows": [1, 2]}}, gives={"{{ _prev }}": 3}),
    Case(
        "main",
        {"code": "def main(input_data):\n    return sorted(input_data)", "args": {"b": 1, "a": 2}},
        gives={"{{ _prev }}": ["a", "b"]},
    ),
    Case("libs", {"code": "result = st.median([1, 2, 9])", "libs": {"st": "statistics"}}, gives={"{{ _prev }}": 2}),
    Case("raised", {"code": "1 / 0"}, "errors", fails="python", retryable=False, says="division by zero"),
    Case("no_json", {"code": "result = {'a': [float('nan')]}"}, "errors", fails="schema", retryable=False),
    Case("wrong", {"code": "result = 1", "args": "{{ [1] }}"}, "errors", fails="schema", retryable=False),
    Case(
        "memory",
        {"code": "result = len(bytearray(1 << 30))", "spec": {"memory_mb": 128}},
        "errors",
        fails="limit",
        retryable=False,
    ),
    Case("died", {"code": "import os\nos._exit(3)"}, "errors", fails="python", retryable=False, says="exit code 3"),
    Case("offline", {"code": "import socket\nsocket.create_connection(('127.0.0.1', 9))"}, "errors", fails="python"),
    Case("slow", {"code": "while True:\n    pass", "spec": {"timeout": 0.5}}, "timeout", fails="timeout"),
    Case("large", {"code": "result = 'x' * 2_000_000"}, "large result", gives={"{{ _prev | length }}": 2_000_000}),
    Case(
        "secret",
        {"code": "print(token)\nresult = ['Bearer ' + token]", "args": {"token": "{{ keychain.matrix.token }}"}},
        "secret",
        gives={"{{ _prev[0] }}": "Bearer ***"},
    ),
]
