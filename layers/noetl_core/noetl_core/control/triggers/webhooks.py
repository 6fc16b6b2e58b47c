"""Extracts the event of a signed webhook (`trigger.event`), and its id, which stays the same when it is repeated.

Events contain the headers that a form or its author names; never the signature or other credentials of the sender.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qs

from noetl_core.dsl.sources import BODY, headers_of
from noetl_core.values import strict_json

MOST_FIELDS: Final = 1_000
"""Maximum number of form fields in a body."""
_ID: Final = re.compile(r"[A-Za-z0-9_.:=+@-]{1,128}", re.ASCII)


def event_of(source: Mapping[str, Any], headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Return the event of a request: `headers` and `body`.

    `headers` have names in lower case. The body is the value of JSON, the fields of a form, or text. A form with the single field
    `payload`, as GitHub and Slack send it, yields the value of that field. A body that is not UTF-8 is base64, with `encoding`.
    """
    passed = {name: headers[name] for name in headers_of(source) if name in headers}
    try:
        read = _body(headers.get("content-type", ""), body.decode())
        if source["form"] == "slack" and isinstance(read, dict):
            read.pop("token", None)  # its holder could impersonate Slack wherever it is still checked
        return {"headers": passed, "body": read}
    except UnicodeDecodeError:
        return {"headers": passed, "body": b64encode(body).decode(), "encoding": "base64"}


def delivery_id(source: Mapping[str, Any], headers: Mapping[str, str], event: Mapping[str, Any], body: bytes) -> str:
    """Return the sender's own id of the delivery: in a header for GitHub and plain forms, in the body for Stripe and Slack.

    If there is none, derive the id from the body, and from the instant of signing if it is signed. So the same request is the
    same delivery.
    """
    found: Any = None
    inside = event["body"] if isinstance(event["body"], Mapping) else {}
    match source["form"]:
        case "github":
            found = None if source["id"] == BODY else headers.get("x-github-delivery")
        case "stripe":
            found = inside.get("id")
        case "slack":
            found = inside.get("event_id") or inside.get("trigger_id")
        case _:
            found = headers.get((source["id"] or "").lower())
    if isinstance(found, str) and found.strip():
        return short_id(found.strip())
    stamp = headers.get((source["timestamp"] or "").lower(), "")
    return digest_of(stamp.encode(), body)


def challenge_of(source: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the challenge that Slack expects back before it sends events to an address; None for anything else."""
    body = event["body"]
    if source["form"] != "slack" or not isinstance(body, Mapping) or body.get("type") != "url_verification":
        return None
    return {"challenge": body.get("challenge")}


def short_id(text: str) -> str:
    """Return an id that fits keys: the text itself, or its digest if it is long or has other characters."""
    return text if _ID.fullmatch(text) else digest_of(text.encode())


def digest_of(*parts: bytes) -> str:
    """Return the digest of parts, unambiguous about their boundaries."""
    made = sha256()
    for part in parts:
        made.update(len(part).to_bytes(8))
        made.update(part)
    return f"sha256:{made.hexdigest()}"


def _body(content_type: str, text: str) -> Any:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return _fields(text)
    if kind == "application/json" or kind.endswith("+json"):
        return _json(text)
    return text


def _fields(text: str) -> Any:
    try:
        found = parse_qs(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        return text
    if list(found) == ["payload"] and len(found["payload"]) == 1:
        return _json(found["payload"][0])
    return {name: _single(values) for name, values in found.items()}


def _single(values: Iterable[str]) -> Any:
    first, *more = values
    return [first, *more] if more else first


def _json(text: str) -> Any:
    try:
        return strict_json.loads(text)
    except ValueError:
        return text
