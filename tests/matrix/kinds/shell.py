"""The cases of `shell`. The stack that they run on has `AllowShell`; what happens without it is in `tests/unit/tools/test_shell.py`."""

from __future__ import annotations

import os

from noetl_core.tools.shell import ALLOWED
from tests.matrix.cases import Case

leaves_out = {"rights": "it is allowed to a worker as a whole (AllowShell), not by names"}


def prepare() -> dict[str, str]:
    """Allow it to this process."""
    os.environ[ALLOWED] = "1"
    return {}


CASES = [
    Case("command", {"command": ["echo", "a b"]}, gives={"{{ _prev.stdout }}": "a b\n", "{{ _prev.exit_code }}": 0}),
    Case("script", {"script": 'echo "$A"', "env": {"A": "$(id) {{ 1 + 1 }}"}}, gives={"{{ _prev.stdout }}": "$(id) 2\n"}),
    Case("value", {"command": ["cat"], "stdin": {"n": [1]}, "spec": {"output": "json"}}, gives={"{{ _prev.data }}": {"n": [1]}}),
    Case("exit_code", {"script": "echo no >&2; exit 3"}, "errors", fails="unknown", retryable=False, says="exit code 3: no"),
    Case("missing", {"command": ["nowhere-to-be-found"]}, "errors", fails="not_found", retryable=False),
    Case("no_json", {"script": "echo", "spec": {"output": "json"}}, "errors", fails="parse", retryable=False),
    Case("too_large", {"script": "yes", "spec": {"max_result_bytes": 1000}}, "errors", fails="limit", retryable=False),
    Case("wrong", {"command": ["true"], "cwd": "/nowhere"}, "errors", fails="schema", retryable=False),
    Case("slow", {"script": "sleep 60 & sleep 60", "spec": {"timeout": 0.5}}, "timeout", fails="timeout", retryable=True),
    Case(
        "large",
        {"script": "head -c 200000 /dev/zero | tr '\\0' x"},
        "large result",
        gives={"{{ _prev.stdout | length }}": 200_000},
    ),
    Case(
        "secret",
        {"script": 'echo "$T"; echo "$T" >&2', "env": {"T": "{{ keychain.matrix.token }}"}},
        "secret",
        gives={"{{ _prev.stdout }}": "***\n"},
    ),
]
