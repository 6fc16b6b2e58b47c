"""The cases of `s3`. The stack's parameter `ToolBuckets` names `matrix-*`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core.adapters.aws.clients import client
from tests.matrix.cases import Case

leaves_out: Mapping[str, str] = {}
MIB = 1024 * 1024


def prepare() -> dict[str, Any]:
    """Buckets: one that tools may reach, and one that no parameter names."""
    s3 = client("s3")
    for bucket in ("matrix-objects", "closed-objects"):
        s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket="matrix-objects", Key="a.json", Body=b'[{"n": 1}]')
    s3.put_object(Bucket="matrix-objects", Key="not.json", Body=b"{")
    s3.put_object(Bucket="matrix-objects", Key="large.jsonl", Body=b'{"n": 1, "text": "xxxxxxxxxxxxxxxx"}\n' * (10 * MIB // 36))
    s3.put_object(Bucket="matrix-objects", Key="in/1.csv", Body=b"n\n1\n")
    s3.put_object(Bucket="matrix-objects", Key="in/2.csv", Body=b"n\n2\n")
    return {}


def _of(key: str, **more: Any) -> dict[str, Any]:
    return {"bucket": "matrix-objects", "key": key, **more}


_CLOSED = "ToolBuckets does not name bucket `closed-objects` (it names: matrix-*)"
CASES = [
    Case("get", {"uri": "s3://matrix-objects/a.json"}, gives={"{{ _prev.data }}": [{"n": 1}]}),
    Case("put", _of("out.json", action="put", data={"a": 1}), gives={"{{ _prev.size }}": 7}),
    Case("list", {"action": "list", "uri": "s3://matrix-objects/in/*.csv"}, gives={"{{ _prev.count }}": 2}),
    Case("copy", _of("copy.json", action="copy", source="s3://matrix-objects/a.json"), gives={"{{ _prev.size }}": 10}),
    Case("presign", _of("a.json", action="presign"), gives={"{{ _prev.url }}": "***"}),
    Case("delete", _of("copy.json", action="delete"), gives={"{{ _prev.deleted }}": 1}),
    Case("missing", _of("missing"), "errors", fails="not_found", retryable=False),
    Case("condition", _of("a.json", action="put", data=1, if_none_match="*"), "errors", fails="client_error", retryable=False),
    Case("no_json", _of("not.json"), "errors", fails="parse", retryable=False),
    Case("too_large", _of("a.json", format="text", spec={"max_value_bytes": 3}), "errors", fails="limit", retryable=False),
    Case("wrong", {"uri": "{{ 'a.json' }}"}, "errors", fails="schema", retryable=False),
    Case("slow", _of("large.jsonl", format="reference", spec={"timeout": 0.001}), "timeout", fails="timeout", retryable=True),
    Case(
        "large",
        _of("large.jsonl", format="reference"),
        "large result",
        gives={"{{ _prev.size }}": (10 * MIB // 36) * 37},
    ),
    Case("large_again", _of("again.jsonl", action="put", data="{{ large.data }}"), "large result"),
    Case("secret", _of("secret.txt", action="put", data="{{ keychain.matrix.token }}"), "secret", gives={"{{ _prev.size }}": 19}),
    Case(
        "not_named",
        {"bucket": "closed-objects", "key": "a"},
        "rights",
        fails="auth",
        retryable=False,
        says=_CLOSED,
        on=("stack",),
    ),
    Case("not_named_list", {"bucket": "closed-objects", "action": "list"}, "rights", fails="auth", says=_CLOSED, on=("stack",)),
    Case("profile", {"bucket": "closed-objects", "action": "list"}, "rights", gives={"{{ _prev.count }}": 0}, on=("local",)),
]
