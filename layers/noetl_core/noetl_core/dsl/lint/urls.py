"""Literal URLs of `http` and `s3` tasks that cannot be requested (W528)."""

from __future__ import annotations

import re
from typing import Final

from noetl_core.dsl.lint.context import Lint
from noetl_core.dsl.reading.diagnostics import close

_SCHEME: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.\-]*)://(.?)", re.DOTALL)
_FIXED: Final = re.compile(r"[^{]*")


def urls(lint: Lint) -> None:
    """Report W528 for every literal beginning of a URL that is not `http://` or `https://` with a host, and for every literal
    address in S3 without `s3://`, or without a key where the action needs one."""
    for task in lint.kinds("http"):
        for key in ("url", "endpoint"):
            url = task.get(key)
            if url is not None and isinstance(url.value, str):
                wrong = _wrong(url.value)
                if wrong is not None:
                    lint.report("W528", url, *wrong)

    for task in lint.kinds("s3"):
        uri, action = task.get("uri"), task.get("action")
        if uri is None or not isinstance(uri.value, str) or "{{" in uri.value or "{%" in uri.value:
            continue
        scheme, sign, rest = uri.value.partition("://")
        if not sign:
            lint.report("W528", uri, f'uri "{uri.value[:60]}" has no scheme', f"s3://{uri.value[:60].lstrip('/')}")
        elif scheme == "s3" and not rest.partition("/")[2] and (action is None or action.value != "list"):
            lint.report("W528", uri, "this address names no object", f"{uri.value[:60].rstrip('/')}/key")


def _wrong(url: str) -> tuple[str, str] | None:
    """Return message and hint; None if the value of a template may make the URL valid."""
    found = _SCHEME.match(url)
    if found is None:
        begins = _FIXED.match(url.lstrip())
        fixed = begins[0] if begins is not None else ""
        whole = "{{" not in url and "{%" not in url
        if not fixed or not (whole or "/" in fixed):
            return None
        return f'url "{url[:60]}" has no scheme', f"https://{url.lstrip().lstrip('/')[:60]}"
    if found[1].lower() not in ("http", "https"):
        near = close(found[1].lower(), ("http", "https"))
        return f"{found[1][:20]}:// is not a URL of HTTP", f'did you mean "{near}"?' if near else "http:// or https://"
    return ("this URL names no host", "https://host/path") if found[2] in ("", "/", "?", "#") else None
