"""What came in a signed webhook: its event, as `trigger.event` shows it, and the id by which it is the same when it comes again.

Of the headers, an event has those that a form or its author names; the signature and whatever proves who sends are never among
them.
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
"""Fields of a form in a body."""
_ID: Final = re.compile(r"[A-Za-z0-9_.:=+@-]{1,128}", re.ASCII)


def event_of(source: Mapping[str, Any], headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Return the event of a request: `headers` and `body`. `headers` have names in lower case.

    The body is the value of JSON, the fields of a form (of a form with one field `payload`, as GitHub and Slack send it, the
    value of that), or text. One that is not UTF-8 is base64, and `encoding` says so.
    """
    shown = {name: headers[name] for name in headers_of(source) if name in headers}
    try:
        read = _body(headers.get("content-type", ""), body.decode())
        if source["form"] == "slack" and isinstance(read, dict):
            read.pop("token", None)  # who has it can pass for Slack wherever it is still looked at
        return {"headers": shown, "body": read}
    except UnicodeDecodeError:
        return {"headers": shown, "body": b64encode(body).decode(), "encoding": "base64"}


def delivery_id(source: Mapping[str, Any], headers: Mapping[str, str], event: Mapping[str, Any], body: bytes) -> str:
    """Return the sender's own id of the delivery: GitHub's and a plain form's is in a header, Stripe's and Slack's in the body.
    Where there is none, the id is made of the body, and of the instant of signing if one is signed, so that the same request is
    the same delivery."""
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
    """Return what Slack wants to be answered before it sends events to an address; None of anything else."""
    body = event["body"]
    if source["form"] != "slack" or not isinstance(body, Mapping) or body.get("type") != "url_verification":
        return None
    return {"challenge": body.get("challenge")}


def short_id(text: str) -> str:
    """Return an id as keys may hold it: the text itself, or its digest where it is long or has other characters."""
    return text if _ID.fullmatch(text) else digest_of(text.encode())


def digest_of(*parts: bytes) -> str:
    """Return the digest of parts, of which none runs into the next."""
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
