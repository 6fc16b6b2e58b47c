"""The sources of triggers that come from outside: events, messages, webhooks, uploads."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.types import Block, Choice, Duration, Field, Shape, Text, Values
from noetl_core.dsl.numbers import WEBHOOK_TOLERANCE
from noetl_core.dsl.sources import ALGORITHMS, ENCODINGS, FORMS, Webhook

_WEBHOOK: Final = Webhook("hmac", "")

QUEUE: Final = Block(
    "queue",
    "A queue whose messages start the playbook.",
    "../triggers.md#messages",
    Field("name", Text(), "The queue's name. The stack reads those that its parameters `TriggerQueue` ... name.", required=True),
    Field("match", Values(), "A pattern, as of an `event`, over `body` and `attributes`: other messages are dropped."),
    prefix="queue of ",
)
WEBHOOK: Final = Block(
    "webhook",
    "An address that takes signed requests: `POST /api/hooks/<playbook path>/<trigger name>`.",
    "../triggers.md#webhooks",
    Field(
        "form",
        Choice(FORMS),
        "How the sender signs: `github`, `stripe`, `slack`, or `hmac` for what is said here.",
        required=True,
    ),
    Field("credential", Text(), "The credential whose field `secret` signs; its name begins with `hooks/`.", required=True),
    Field("match", Values(), "A pattern, as of an `event`, over `headers` and `body`: other requests start nothing."),
    Field("headers", Shape("header_names", "a list of names of headers"), "Further headers that `trigger.event.headers` has."),
    Field("header", Text(), "Of `hmac`: the header with the signature."),
    Field("algorithm", Choice(ALGORITHMS), "Of `hmac`: the digest.", default=_WEBHOOK.algorithm),
    Field("encoding", Choice(ENCODINGS), "Of `hmac`: how the signature is written.", default=_WEBHOOK.encoding),
    Field("prefix", Text(), "Of `hmac`: what stands before the signature, such as `sha256=`.", otherwise="nothing"),
    Field(
        "timestamp",
        Text(),
        "Of `hmac`: the header with the instant of signing, in seconds since 1970.",
        otherwise="none is signed",
    ),
    Field(
        "tolerance",
        Duration(WEBHOOK_TOLERANCE),
        "Of `hmac` with `timestamp`: how old a signature may be.",
        default=int(_WEBHOOK.tolerance_s),
    ),
    Field(
        "signed",
        Text(),
        "Of `hmac`: what is signed, as text with `{timestamp}` and `{body}`.",
        otherwise="`{timestamp}.{body}`, without `timestamp` `{body}`",
    ),
    Field("id", Text(), "Of `hmac`: the header with the id of the delivery.", otherwise="a digest of what was signed"),
    prefix="webhook of ",
)
UPLOAD: Final = Block(
    "upload",
    "Objects that start the playbook when they are put into a bucket.",
    "../triggers.md#uploads",
    Field("prefix", Text(), "How their keys begin; in the inbox bucket with `uploads/`."),
    Field("suffix", Text(), "How their keys end, such as `.csv`."),
    Field(
        "bucket",
        Text(),
        "Their bucket, one of those that the stack's parameter `UploadBuckets` names.",
        otherwise="the inbox bucket",
    ),
    prefix="upload of ",
)
HMAC: Final = frozenset({"header", "algorithm", "encoding", "prefix", "timestamp", "tolerance", "signed", "id"})
"""What only the form `hmac` says."""
