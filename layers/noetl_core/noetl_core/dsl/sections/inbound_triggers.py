"""Reading the sources of triggers that come from outside (docs/triggers.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from noetl_core.aws.event_patterns import EITHER, flaws
from noetl_core.dsl.fields.sources import HMAC, QUEUE, UPLOAD, WEBHOOK
from noetl_core.dsl.numbers import WEBHOOK_TOLERANCE, BadNumber, duration
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Content, Reader
from noetl_core.dsl.sources import BODY, CREDENTIALS, PROOFS, UPLOADS, Events, Messages, Uploads, Webhook
from noetl_core.expr import is_template

_QUEUE: Final = re.compile(r"[A-Za-z0-9_-]{1,80}(\.fifo)?", re.ASCII)
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", re.ASCII)
_PLACE: Final = re.compile(r"\{(\w*)\}")
MOST_HEADERS: Final = 20
MOST_ALTERNATIVES: Final = 1_000
"""Values and filters of a pattern."""


def read_events(r: Reader, trigger: Content, what: str) -> Events | None:
    """Return an event pattern; None when it is reported."""
    node = trigger.nodes["event"]
    return Events(node.plain()) if _is_pattern(r, node, f"event of {what}") else None


def read_messages(r: Reader, trigger: Content, what: str) -> Messages | None:
    """Return a queue, which is a name, or a mapping; None when it is reported."""
    node = trigger.nodes["queue"]
    if not isinstance(node.value, dict):
        name = r.text(node, f"queue of {what}")
        return Messages(name) if name is not None and _is_queue(r, node, name, what) else None
    content = r.read(node, QUEUE, what)
    name = content.get("name")
    if "name" not in content:
        r.missing(node, "name", f"queue of {what} has no name", "queue: orders")
    if name is None or not _is_queue(r, content.nodes["name"], name, what):
        return None
    return Messages(name, _match(r, content, f"match of {what}"))


def read_uploads(r: Reader, trigger: Content, what: str) -> Uploads | None:
    """Return which objects of which bucket; None when it is reported."""
    node = trigger.nodes["upload"]
    content = r.read(node, UPLOAD, what)
    if not isinstance(node.value, dict):
        return None
    prefix, suffix, bucket = (content.get(name) for name in ("prefix", "suffix", "bucket"))
    right = not [name for name in ("prefix", "suffix", "bucket") if not _is_plain(r, content, name, what)]
    if "bucket" in content:
        if bucket is not None and not _BUCKET.fullmatch(bucket):
            r.report(
                "E131",
                content.nodes["bucket"],
                f'bucket of {what}: "{bucket[:63]}" is not the name of a bucket',
                "its name alone",
            )
            right = False
    elif "prefix" not in content:
        r.report("E131", node, f"upload of {what} names neither a prefix nor a bucket", f"upload: {{prefix: {UPLOADS}reports/}}")
        right = False
    elif prefix is not None and not prefix.startswith(UPLOADS):
        hint = f'"{UPLOADS}{prefix.lstrip("/")}", or name another bucket in the key bucket'
        r.report("E131", content.nodes["prefix"], f"prefix of {what}: in the inbox bucket it must begin with {UPLOADS}", hint)
        right = False
    return Uploads(prefix or "", suffix or "", bucket) if right else None


def read_webhook(r: Reader, trigger: Content, what: str) -> Webhook | None:
    """Return how requests are signed; None when it is reported."""
    node = trigger.nodes["webhook"]
    content = r.read(node, WEBHOOK, what)
    if not isinstance(node.value, dict):
        return None
    for name in ("form", "credential"):
        if name not in content:
            r.missing(node, name, f"webhook of {what} has no {name}", f"{name}: {'github' if name == 'form' else 'hooks/NAME'}")
    form, credential = content.get("form"), content.get("credential")
    texts = ("credential", "header", "prefix", "timestamp", "signed", "id")
    right = not [name for name in texts if not _is_plain(r, content, name, what)]
    if credential is not None and not credential.startswith(CREDENTIALS):
        message = f'credential of {what}: "{credential[:60]}" is not a credential for webhooks'
        r.report(
            "E131",
            content.nodes["credential"],
            message,
            f"write a name that begins with {CREDENTIALS}, for example {CREDENTIALS}{credential[:60]}",
        )
        right = False
    right &= _form_is_right(r, node, content, form, what)
    headers, match = _headers(r, content, what), _with_lower_headers(_match(r, content, f"match of {what}"))
    tolerance = _tolerance(r, content, what)
    if form is None or credential is None or not right:
        return None
    options = {name: content.filled(name) for name in ("algorithm", "encoding", "respond")}
    options |= {name: content.get(name) for name in ("header", "timestamp", "signed", "id", "rate")}
    return Webhook(form, credential, match, headers, prefix=content.get("prefix") or "", tolerance_s=tolerance, **options)


def _form_is_right(r: Reader, node: Node, content: Content, form: str | None, what: str) -> bool:
    """Report fields that do not belong to a form, and fields that `hmac` lacks."""
    if form != "hmac":
        foreign = content.nodes.keys() & HMAC if form is not None else set()
        if form == "github" and "id" in foreign:
            foreign.remove("id")
            if content.get("id") != BODY:
                r.report(
                    "E131",
                    content.nodes["id"],
                    f"id in webhook of {what}: the form github uses the header X-GitHub-Delivery, or {BODY}",
                    f"leave id out, or write id: {BODY}",
                )
                return False
        for name in foreign:
            r.report(
                "E114",
                (node, name),
                f"{name} in webhook of {what} belongs to the form hmac; the form {form} has its own",
                "remove it",
            )
        return not foreign
    if "header" not in content:
        r.missing(node, "header", f"webhook of {what} does not say which header holds the signature", "header: X-Signature")
        return False
    right = True
    for name in ("header", "timestamp", "id"):
        text = content.get(name)
        if text is not None and not _HEADER.fullmatch(text):
            r.report("E131", content.nodes[name], f'{name} of {what}: "{text[:60]}" is not the name of a header')
            right = False
    if "tolerance" in content and "timestamp" not in content:
        r.report("E114", (node, "tolerance"), f"tolerance of {what} needs a timestamp that is signed", "timestamp: X-Timestamp")
        right = False
    return _signed_is_right(r, content, what) and right


def _signed_is_right(r: Reader, content: Content, what: str) -> bool:
    signed = content.get("signed")
    if signed is None:
        return True
    places = ["body", *(["timestamp"] if "timestamp" in content else [])]
    names = _PLACE.findall(signed)
    if sorted(names) == sorted(places):
        return True
    message = f"signed of {what} must have each of {', '.join(f'{{{name}}}' for name in places)} once, and nothing else in braces"
    unknown = [name for name in names if name not in places]
    r.report("E131", content.nodes["signed"], message, suggest(unknown[0], places) if unknown and unknown[0] else "")
    return False


def _headers(r: Reader, content: Content, what: str) -> tuple[str, ...]:
    """Return the further headers of an event; invalid names are reported."""
    items = r.sequence(content.node("headers"), f"headers of {what}")
    if len(items) > MOST_HEADERS:
        r.report("E124", content.nodes["headers"], f"headers of {what} has {len(items)} entries", f"at most {MOST_HEADERS}")
    found = []
    for item in items:
        name = r.text(item, f"a header of {what}")
        if name is None:
            continue
        if name.lower() in PROOFS or name.lower() == (content.get("header") or "").lower():
            r.report("E131", item, f"headers of {what}: {name} proves the sender and is never part of an event", "remove it")
        elif not _HEADER.fullmatch(name):
            r.report("E131", item, f'headers of {what}: "{name[:60]}" is not the name of a header')
        else:
            found.append(name.lower())
    return tuple(found)


def _tolerance(r: Reader, content: Content, what: str) -> float:
    node = content.node("tolerance")
    if node is None:
        return float(content.filled("tolerance"))
    try:
        return duration(node.value, WEBHOOK_TOLERANCE, f"tolerance of {what}")
    except BadNumber as error:
        r.report("E124", node, str(error))
        return float(WEBHOOK["tolerance"].default)


def _match(r: Reader, content: Content, what: str) -> dict[str, Any]:
    node = content.node("match")
    found: dict[str, Any] = node.plain() if node is not None and _is_pattern(r, node, what) else {}
    return found


def _with_lower_headers(match: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pattern with the names of headers in lower case, as events have them."""
    out = dict(match)
    if isinstance(headers := out.get("headers"), Mapping):
        out["headers"] = _lower(headers)
    if isinstance(either := out.get(EITHER), list):
        out[EITHER] = [_with_lower_headers(one) for one in either]
    return out


def _lower(headers: Mapping[str, Any]) -> dict[str, Any]:
    return {k.lower(): [_lower(one) for one in pattern] if k == EITHER else pattern for k, pattern in headers.items()}


def _is_queue(r: Reader, node: Node, name: str, what: str) -> bool:
    if _QUEUE.fullmatch(name):
        return True
    last = re.split("[:/]", name)[-1]
    hint = (
        f"write the name alone: {last}"
        if _QUEUE.fullmatch(last)
        else "a name has letters, digits, - and _, and may end with .fifo"
    )
    r.report("E131", node, f'queue of {what}: "{name[:80]}" is not the name of a queue', hint)
    return False


def _is_plain(r: Reader, content: Content, name: str, what: str) -> bool:
    """Report a template: a source is read before any delivery."""
    value = content.get(name)
    if value is None:
        return name not in content
    if not is_template(value):
        return True
    r.report(
        "E131",
        content.nodes[name],
        f"{name} of {what} cannot be a template: it is read before anything arrives",
        "write the value itself",
    )
    return False


def _is_pattern(r: Reader, node: Node, what: str) -> bool:
    """Report the errors in an event pattern, each at its place."""
    found = list(flaws(node.plain()))
    for flaw in found:
        *_, last = flaw.at or ("",)
        hint = (suggest(str(last), flaw.known) or f"one of {', '.join(flaw.known)}") if flaw.known else ""
        r.report("E131", _below(node, flaw.at), f"{what}: {flaw.message}", hint)
    count = sum(1 for _ in node.scalars())
    if count > MOST_ALTERNATIVES:
        r.report("E124", node, f"{what} has {count} values", f"at most {MOST_ALTERNATIVES}")
    templates = [scalar for scalar in node.scalars() if is_template(scalar.value)]
    for scalar in templates:
        r.report("E131", scalar, f"{what}: a pattern has no templates", "write the value")
    return not found and count <= MOST_ALTERNATIVES and not templates


def _below(node: Node, at: Sequence[str | int]) -> Node:
    """Return the node at a path below another one, or the last one that there is."""
    for child in _path(node, at):
        node = child
    return node


def _path(node: Node, at: Sequence[str | int]) -> Iterator[Node]:
    for step in at:
        value = node.value
        if isinstance(value, dict) and str(step) in value:
            node = value[str(step)]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            node = value[step]
        else:
            return
        yield node
