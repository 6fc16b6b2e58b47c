"""Verifies signatures of webhooks with the secrets of the sender (docs/triggers.md, "Webhooks").

All forms are an HMAC of the raw body, most of them with the instant of signing before it; they differ in their headers. A request
without a signature, one with another secret, and one signed too long ago count equally as unsigned.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from noetl_core.values.frozen import frozen

TOLERANCE_S: Final = 300
"""Maximum age of a signature, and maximum lead over this clock, as Stripe and Slack recommend."""
STAMPED, BARE = "{timestamp}.{body}", "{body}"
_PLACES: Final = re.compile(r"(\{timestamp\}|\{body\})")
MOST_PRESENTED: Final = 10
"""Maximum number of signatures checked for one request: a sender that changes its secret signs with two."""


@frozen
class Scheme:
    """The signature scheme of a sender. Names of headers are in lower case."""

    header: str
    """The header with the signature."""
    algorithm: str = "sha256"
    prefix: str = ""
    """The prefix of the signature."""
    encoding: str = "hex"
    timestamp: str | None = None
    """The header with the instant of signing, in seconds since 1970; None if there is none."""
    tolerance_s: float = TOLERANCE_S
    signed: str = BARE
    """The signed text, with `{timestamp}` and `{body}`."""
    pairs: bool = False
    """True if the header has the form `t=SECONDS,v1=SIGNATURE,...`."""


FORMS: Final[Mapping[str, Scheme]] = {
    "github": Scheme("x-hub-signature-256", prefix="sha256="),
    "stripe": Scheme("stripe-signature", signed=STAMPED, pairs=True),
    "slack": Scheme("x-slack-signature", prefix="v0=", timestamp="x-slack-request-timestamp", signed="v0:{timestamp}:{body}"),
}
DECOY: Final = Scheme("x-signature")
"""The scheme for requests to webhooks that do not exist, so that their answer takes as long as others."""


def scheme_of(source: Mapping[str, Any]) -> Scheme:
    """Return the signature scheme of a webhook's sender; `source` is a trigger's (`dsl.sources.Webhook`)."""
    known = FORMS.get(source["form"])
    if known is not None:
        return known
    timestamp = source["timestamp"]
    return Scheme(
        header=source["header"].lower(),
        algorithm=source["algorithm"],
        prefix=source["prefix"],
        encoding=source["encoding"],
        timestamp=timestamp.lower() if timestamp else None,
        tolerance_s=source["tolerance_s"],
        signed=source["signed"] or (STAMPED if timestamp else BARE),
    )


def is_signed(scheme: Scheme, headers: Mapping[str, str], body: bytes, secrets: Sequence[bytes], now_s: float) -> bool:
    """Return whether one of `secrets` signed `body` within the tolerance.

    `headers` have names in lower case. The duration reveals neither the secrets nor which of them matches.
    """
    timestamp, presented = _presented(scheme, headers)
    content = b"".join(_content(scheme.signed, timestamp, body))
    right = False
    for secret in secrets:
        made = hmac.digest(secret, content, scheme.algorithm)
        for signature in presented:
            right |= hmac.compare_digest(made, signature)
    stamped = scheme.pairs or scheme.timestamp is not None
    return right and (not stamped or _recent(timestamp, now_s, scheme.tolerance_s))


def _presented(scheme: Scheme, headers: Mapping[str, str]) -> tuple[str, list[bytes]]:
    """Return the text of the instant of signing ("" if none), and the signatures in a request."""
    text = headers.get(scheme.header, "")
    if not scheme.pairs:
        signature = text[len(scheme.prefix) :] if text.startswith(scheme.prefix) else ""
        return headers.get(scheme.timestamp or "", ""), _decoded(scheme, [signature])
    parts = [part.strip().partition("=") for part in text.split(",")]
    stamps = [value for word, _, value in parts if word == "t"]
    return stamps[0] if len(stamps) == 1 else "", _decoded(scheme, [v for word, _, v in parts if word == "v1"])


def _decoded(scheme: Scheme, texts: Iterable[str]) -> list[bytes]:
    found = []
    for text in list(texts)[:MOST_PRESENTED]:
        try:
            found.append(bytes.fromhex(text.strip()) if scheme.encoding == "hex" else b64decode(text.strip(), validate=True))
        except ValueError:
            continue
    return found


def _content(signed: str, timestamp: str, body: bytes) -> Iterable[bytes]:
    """Yield the parts of the signed text. A body that contains the word `{timestamp}` stays unchanged."""
    for part in _PLACES.split(signed):
        yield body if part == BARE else timestamp.encode() if part == "{timestamp}" else part.encode()


def _recent(timestamp: str, now_s: float, tolerance_s: float) -> bool:
    return bool(re.fullmatch(r"[0-9]{1,12}", timestamp, re.ASCII)) and abs(now_s - int(timestamp)) <= tolerance_s
