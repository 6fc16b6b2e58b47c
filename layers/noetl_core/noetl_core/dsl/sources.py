"""Defines the sources of triggers other than times: events, messages of a queue, webhooks, uploads. They are frozen values, like
those of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, Final, Literal, get_args

from noetl_core.values.frozen import frozen

Form = Literal["github", "stripe", "slack", "hmac"]
FORMS: Final[tuple[Form, ...]] = get_args(Form)
Algorithm = Literal["sha256", "sha1", "sha384", "sha512"]
ALGORITHMS: Final[tuple[Algorithm, ...]] = get_args(Algorithm)
Encoding = Literal["hex", "base64"]
ENCODINGS: Final[tuple[Encoding, ...]] = get_args(Encoding)
CREDENTIALS: Final = "hooks/"
"""The prefix of the names of credentials that sign webhooks. The function that checks signatures may read no other
credentials."""
Respond = Literal["accepted", "validated"]
RESPONDS: Final[tuple[Respond, ...]] = get_args(Respond)
BODY: Final = "body"
"""The `id` of a webhook of GitHub whose deliveries are identified by their signed bodies."""
UPLOADS: Final = "uploads/"
"""The folder of the inbox bucket whose objects are for triggers."""
PROOFS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", "x-amz-security-token"})
"""Headers that authenticate the sender; events do not contain them."""

USUAL: Final = ("content-type", "user-agent")
SHOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "github": (
        "x-github-event",
        "x-github-delivery",
        "x-github-hook-id",
        "x-github-hook-installation-target-type",
        "x-github-hook-installation-target-id",
    ),
    "stripe": (),
    "slack": ("x-slack-retry-num", "x-slack-retry-reason"),
}
"""Headers of requests that events have: of every form, and by form."""


@frozen
class Events:
    """Events of EventBridge that match a pattern (`aws.event_patterns`)."""

    kind: ClassVar[str] = "event"
    pattern: Mapping[str, Any]


@frozen
class Messages:
    """Messages of an SQS queue, and of those the ones that match a pattern, if there is one."""

    kind: ClassVar[str] = "queue"
    queue: str
    """Its name."""
    match: Mapping[str, Any] = field(default_factory=dict)


@frozen
class Webhook:
    """Signed requests. All from `header` to `id` is of the form `hmac` alone; the others say it themselves."""

    kind: ClassVar[str] = "webhook"
    form: Form
    credential: str
    match: Mapping[str, Any] = field(default_factory=dict)
    headers: tuple[str, ...] = ()
    """Further headers that an event has."""
    header: str | None = None
    """The header with the signature."""
    algorithm: Algorithm = "sha256"
    encoding: Encoding = "hex"
    prefix: str = ""
    """The prefix of the signature."""
    timestamp: str | None = None
    """The header with the instant of signing."""
    tolerance_s: float = 300
    signed: str | None = None
    """The signed text, with `{timestamp}` and `{body}` in it."""
    id: str | None = None
    """The header with the id of the delivery."""
    respond: Respond = "accepted"
    """`validated`: a request with which the playbook cannot start is refused in its answer."""
    rate: float | None = None
    """Signed requests per second; None: as the stack says."""


@frozen
class Uploads:
    """Objects that are put into a bucket, under keys with a beginning and an end."""

    kind: ClassVar[str] = "upload"
    prefix: str = ""
    suffix: str = ""
    bucket: str | None = None
    """None: the stack's inbox bucket."""


def headers_of(source: Mapping[str, Any]) -> list[str]:
    """Return the names of the headers that events of a webhook may have."""
    names = [*USUAL, *SHOWN.get(source["form"], ()), *source["headers"]]
    return [name for name in names if name not in PROOFS]
