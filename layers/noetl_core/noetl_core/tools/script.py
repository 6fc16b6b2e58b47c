"""`script: {uri, source}` of a task, if it is not a file: the text is fetched when the task runs, and the tool runs as with
inline text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from noetl_core.dsl.kinds import KINDS
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import BadInput, Tool, ToolCall, ToolFailed
from noetl_core.tools.registry import ToolRegistry

MAX_BYTES: Final = 1024 * 1024
"""The longest script."""


class ScriptedTool:
    """Runs a tool with the text of a script."""

    inline = False

    def __init__(self, tool: Tool, tools: ToolRegistry) -> None:
        self.kind, self._tool, self._tools = tool.kind, tool, tools

    def run(self, call: ToolCall) -> Outcome:
        script = call.inputs.get("script")
        if not isinstance(script, Mapping):
            raise BadInput("`script` must be a mapping with `uri` and `source`")
        inputs = {key: value for key, value in call.inputs.items() if key != "script"}
        text = self._from_s3(script) if script.get("source") == "s3" else self._over_http(script, call)
        return self._tool.run(replace(call, inputs={**inputs, KINDS[self.kind].script: text}))

    def _over_http(self, script: Mapping[str, Any], call: ToolCall) -> str:
        inputs = {"url": url_of(script), **{key: script[key] for key in ("headers", "auth") if script.get(key) is not None}}
        spec = {
            "response": "text",
            "max_response_bytes": MAX_BYTES,
            **({"timeout": script["timeout"]} if script.get("timeout") else {}),
        }
        got = self._tools.get("http").run(replace(call, kind="http", inputs=inputs, spec=spec))
        if got.status == "error" and got.error is not None:
            raise ToolFailed(replace(got, error=replace(got.error, message=f"script: {got.error.message}")))
        return str(got.result["data"])

    def _from_s3(self, script: Mapping[str, Any]) -> str:
        from noetl_core.tools.aws import rights  # 100 ms, with the next: needed only to query AWS
        from noetl_core.tools.aws.clients import client
        from noetl_core.tools.aws.errors import errors_of

        place = urlsplit(str(script["uri"]))
        bucket = place.netloc or str(script.get("bucket") or "")
        key = (place.path if place.netloc else str(script["uri"])).lstrip("/")
        if not bucket or not key:
            raise BadInput("`uri` of a script in S3 is s3://bucket/key")
        rights.check(rights.BUCKETS, bucket)
        with errors_of("script", rights.BUCKETS, bucket):
            body = client("s3").get_object(Bucket=bucket, Key=key)["Body"].read(MAX_BYTES + 1)
        if len(body) > MAX_BYTES:
            raise ToolFailed(
                Outcome.failed("limit", f"script {script['uri']} is larger than {MAX_BYTES // 1024} KB", retryable=False)
            )
        try:
            text: str = body.decode("utf-8")
            return text
        except UnicodeDecodeError:
            raise ToolFailed(Outcome.failed("parse", f"script {script['uri']} is not text in UTF-8", retryable=False)) from None


def url_of(script: Mapping[str, Any]) -> str:
    """Return the URL of a script, below `endpoint`, to which credentials and headers are sent. Raises `BadInput`."""
    uri = str(script["uri"])
    if not script.get("endpoint"):
        return uri
    if urlsplit(str(script["endpoint"])).path.endswith(f"/{uri.lstrip('/')}"):  # it is the address of the text already
        return str(script["endpoint"])
    endpoint = f"{str(script['endpoint']).rstrip('/')}/"
    url = urljoin(endpoint, uri)
    if urlsplit(url)[:2] != urlsplit(endpoint)[:2]:
        raise BadInput(
            f"`uri` {uri[:200]!r} of a script leads away from its `endpoint` {endpoint}: omit `endpoint`, or the host in `uri`"
        )
    return url
