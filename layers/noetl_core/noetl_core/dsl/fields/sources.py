"""The sources of triggers that come from outside: events, messages, webhooks, uploads."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.types import Block, Choice, Duration, Field, Shape, Text, Values
from noetl_core.dsl.numbers import WEBHOOK_RATE, WEBHOOK_TOLERANCE
from noetl_core.dsl.sources import ALGORITHMS, ENCODINGS, FORMS, RESPONDS, Webhook

_WEBHOOK: Final = Webhook("hmac", "")

QUEUE: Final = Block(
    "queue",
    "A queue whose messages start the playbook.",
    "../triggers.md#messages",
    Field(
        "name", Text(), "The queue's name. The stack reads the queues named by its parameters `TriggerQueue` ...", required=True
    ),
    Field("match", Values(), "A pattern, as for an `event`, over `body` and `attributes`; other messages are dropped."),
    prefix="queue of ",
)
WEBHOOK: Final = Block(
    "webhook",
    "An address that takes signed requests: `POST /api/hooks/<playbook path>/<trigger name>`.",
    "../triggers.md#webhooks",
    Field(
        "form",
        Choice(FORMS),
        "How the sender signs: `github`, `stripe`, `slack`, or `hmac` as described by the other fields.",
        required=True,
    ),
    Field(
        "credential",
        Text(),
        "The credential whose field `secret` is the signing key; its name begins with `hooks/`.",
        required=True,
    ),
    Field("match", Values(), "A pattern, as for an `event`, over `headers` and `body`; other requests start nothing."),
    Field(
        "headers",
        Shape("header_names", "a list of names of headers"),
        "Additional headers to include in `trigger.event.headers`.",
    ),
    Field(
        "respond",
        Choice(RESPONDS),
        "When a request is answered. With `validated`, one that cannot start the playbook is answered with 422 and the reasons.",
        default=_WEBHOOK.respond,
    ),
    Field(
        "rate",
        WEBHOOK_RATE,
        "The number of signed requests accepted per second; a burst may have twice as many. Others are answered with 429.",
        otherwise="the stack's parameter `HookRateEach`",
    ),
    Field("header", Text(), "For `hmac`: the header with the signature."),
    Field("algorithm", Choice(ALGORITHMS), "For `hmac`: the digest.", default=_WEBHOOK.algorithm),
    Field("encoding", Choice(ENCODINGS), "For `hmac`: how the signature is encoded.", default=_WEBHOOK.encoding),
    Field("prefix", Text(), "For `hmac`: the prefix of the signature, such as `sha256=`.", otherwise="nothing"),
    Field(
        "timestamp",
        Text(),
        "For `hmac`: the header with the time of signing, in seconds since 1970.",
        otherwise="no time is signed",
    ),
    Field(
        "tolerance",
        Duration(WEBHOOK_TOLERANCE),
        "For `hmac` with `timestamp`: how old a signature may be.",
        default=int(_WEBHOOK.tolerance_s),
    ),
    Field(
        "signed",
        Text(),
        "For `hmac`: the signed text, with `{timestamp}` and `{body}`.",
        otherwise="`{timestamp}.{body}`, or `{body}` without `timestamp`",
    ),
    Field(
        "id",
        Text(),
        "For `hmac`: the header with the id of the delivery. For `github`: `body`, so that equal bodies are one delivery.",
        otherwise="for `hmac` a digest of the signed text, for `github` the header `X-GitHub-Delivery`",
    ),
    prefix="webhook of ",
)
UPLOAD: Final = Block(
    "upload",
    "Objects that start the playbook when they are put into a bucket.",
    "../triggers.md#uploads",
    Field("prefix", Text(), "The prefix of their keys; in the inbox bucket it begins with `uploads/`."),
    Field("suffix", Text(), "The suffix of their keys, such as `.csv`."),
    Field(
        "bucket",
        Text(),
        "Their bucket, one of those that the stack's parameter `UploadBuckets` names.",
        otherwise="the inbox bucket",
    ),
    prefix="upload of ",
)
HMAC: Final = frozenset({"header", "algorithm", "encoding", "prefix", "timestamp", "tolerance", "signed", "id"})
"""The fields that only the form `hmac` takes."""
