"""Signatures of webhooks: whether a request was signed with one of the secrets of its sender (docs/triggers.md, "Webhooks").

All forms are an HMAC of the raw body, most of them with the instant of signing before it; they differ in their headers. A request
without a signature, one of another secret, and one that was signed too long ago are the same here: not signed.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from noetl_core.values.frozen import frozen

TOLERANCE_S: Final = 300
"""How old a signature may be, and how far ahead of this clock: what Stripe and Slack recommend."""
STAMPED, BARE = "{timestamp}.{body}", "{body}"
_PLACES: Final = re.compile(r"(\{timestamp\}|\{body\})")
MOST_PRESENTED: Final = 10
"""Signatures of one request that are looked at: a sender that changes its secret signs with two."""


@frozen
class Scheme:
    """How a sender signs. Names of headers are in lower case."""

    header: str
    """Holds the signature."""
    algorithm: str = "sha256"
    prefix: str = ""
    """Stands before the signature."""
    encoding: str = "hex"
    timestamp: str | None = None
    """The header with the instant of signing, in seconds since 1970; None where nothing says it."""
    tolerance_s: float = TOLERANCE_S
    signed: str = BARE
    """What is signed: text with `{timestamp}` and `{body}`."""
    pairs: bool = False
    """Whether the header holds `t=SECONDS,v1=SIGNATURE,...`."""


FORMS: Final[Mapping[str, Scheme]] = {
    "github": Scheme("x-hub-signature-256", prefix="sha256="),
    "stripe": Scheme("stripe-signature", signed=STAMPED, pairs=True),
    "slack": Scheme("x-slack-signature", prefix="v0=", timestamp="x-slack-request-timestamp", signed="v0:{timestamp}:{body}"),
}
DECOY: Final = Scheme("x-signature")
"""What a request to a webhook that does not exist is checked by, so that its answer takes as long as others."""


def scheme_of(source: Mapping[str, Any]) -> Scheme:
    """Return how the sender of a webhook signs; `source` is a trigger's (`dsl.sources.Webhook`)."""
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
    """Return whether one of `secrets` signed `body` within the tolerance. `headers` have names in lower case. The time this takes
    tells nothing of the secrets, nor which of several fits."""
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
    """Return the text of the instant of signing ("" for none), and the signatures that a request comes with."""
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
    """Yield the parts of what is signed. A body that has the word `{timestamp}` in it stays as it is."""
    for part in _PLACES.split(signed):
        yield body if part == BARE else timestamp.encode() if part == "{timestamp}" else part.encode()


def _recent(timestamp: str, now_s: float, tolerance_s: float) -> bool:
    return bool(re.fullmatch(r"[0-9]{1,12}", timestamp, re.ASCII)) and abs(now_s - int(timestamp)) <= tolerance_s
