"""The kinds for services of AWS."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.kind import BYTES, COUNT, FLAG, MAP, SERVICE_ERRORS, TEXT, Action, KindSpec, words
from noetl_core.dsl.fields.types import Anything, Choice, Duration, Field, also
from noetl_core.dsl.numbers import PRESIGNED, QUEUE_DELAY

_BUCKET_AND_KEY: Final = (words("bucket uri"), words("key uri"))


def _action(names: str, default: str, doc: str) -> tuple[Field, ...]:
    """Return the field for the action, and its other spelling."""
    return also(Field("action", Choice(tuple(names.split()), template=True), doc, default=default), "operation")


_OWN_REGION: Final = "on a stack that of the stack, elsewhere that of your AWS profile"
_REGION: Final = Field("region", TEXT, "The Region of the resource.", otherwise=_OWN_REGION)
_ADDRESSES: Final = Anything("an address, or a list of addresses")
_ONE_ITEM: Final = (words("table"), words("key"))

KINDS: Final[dict[str, KindSpec]] = {
    "sqs": KindSpec(
        (
            *_action("send", "send", "What to do: send messages."),
            Field("queue", TEXT, "The queue: its name, its URL or its ARN."),
            *also(Field("message", Anything("any value"), "The message: text is sent as it is, anything else as JSON."), "body"),
            Field("messages", Anything("a list"), "Several messages: any values, each sent as `message` is."),
            Field("attributes", MAP, "Attributes of every message: names with texts or numbers."),
            Field("delay", Duration(QUEUE_DELAY), "How long the messages stay hidden.", otherwise="the queue's default"),
            Field("group", TEXT, "The message group.", otherwise="for a FIFO queue, the id of the execution"),
            Field("dedup_id", TEXT, "The deduplication id for a FIFO queue.", otherwise="derived from the task run"),
            _REGION,
        ),
        (),
        "../tools/sqs.md",
        required=(words("queue"), words("message body messages")),
        exclusive=(words("message body messages"), words("messages dedup_id"), words("action operation")),
        actions={"send": Action((words("queue"),), words("message messages attributes delay group dedup_id region"))},
        fails=SERVICE_ERRORS,
    ),
    "sns": KindSpec(
        (
            *_action("publish", "publish", "What to do: publish messages."),
            Field("topic", TEXT, "The topic: its name or its ARN."),
            *also(Field("message", Anything("any value"), "The message: text is sent as it is, anything else as JSON."), "body"),
            Field("messages", Anything("a list"), "Several messages: any values, each published as `message` is."),
            Field("subject", TEXT, "The subject for mail subscribers."),
            Field("attributes", MAP, "Attributes of every message: names with texts or numbers; subscriptions filter by them."),
            Field("group", TEXT, "The message group.", otherwise="for a FIFO topic, the id of the execution"),
            Field("dedup_id", TEXT, "The deduplication id for a FIFO topic.", otherwise="derived from the task run"),
            _REGION,
        ),
        (),
        "../tools/sns.md",
        required=(words("topic"), words("message body messages")),
        exclusive=(words("message body messages"), words("messages dedup_id"), words("action operation")),
        actions={"publish": Action((words("topic"),), words("message messages subject attributes group dedup_id region"))},
        fails=SERVICE_ERRORS,
    ),
    "eventbridge": KindSpec(
        (
            *_action("put", "put", "What to do: put events on a bus."),
            Field("bus", TEXT, "The event bus: its name or its ARN.", default="default"),
            Field("source", TEXT, "The source of the events, such as `shop.orders`; rules match it."),
            Field("detail_type", TEXT, "The type of the events, such as `OrderPlaced`; rules match it."),
            Field("detail", MAP, "The event itself."),
            Field("details", Anything("a list of mappings"), "Several events of the same source and type."),
            Field("resources", Anything("a list of ARNs"), "The resources that the events concern."),
            _REGION,
        ),
        (),
        "../tools/eventbridge.md",
        required=(words("source"), words("detail_type"), words("detail details")),
        exclusive=(words("detail details"), words("action operation")),
        actions={
            "put": Action((words("source"), words("detail_type")), words("bus detail details resources region")),
        },
        fails=SERVICE_ERRORS,
    ),
    "email": KindSpec(
        (
            *_action("send", "send", "What to do: send a mail."),
            Field("from", TEXT, "The sender, an address verified in SES: `ann@example.org` or `Ann <ann@example.org>`."),
            Field("to", _ADDRESSES, "The recipients."),
            Field("cc", _ADDRESSES, "Recipients of a copy."),
            Field("bcc", _ADDRESSES, "Recipients of a blind copy."),
            Field("reply_to", _ADDRESSES, "Where replies go.", otherwise="the sender"),
            Field("subject", TEXT, "The subject, one line."),
            Field("text", TEXT, "The mail as text."),
            Field("html", TEXT, "The mail as HTML."),
            Field("attachments", Anything("a list"), "Files: mappings with `name`, `data`, `format` and `content_type`."),
            Field("region", TEXT, "The Region of SES.", otherwise=_OWN_REGION),
        ),
        (),
        "../tools/email.md",
        required=(words("from"), words("to cc bcc"), words("subject"), words("text html")),
        exclusive=(words("action operation"),),
        actions={
            "send": Action(
                (words("from"), words("to cc bcc"), words("subject"), words("text html")),
                words("to cc bcc reply_to text html attachments region"),
            )
        },
        fails=SERVICE_ERRORS,
    ),
    "dynamodb": KindSpec(
        (
            *_action("get put update delete query", "get", "What to do with an item, or with the items of a partition."),
            Field("table", TEXT, "The name of the table."),
            Field("key", MAP, "The key of the item: its attributes and their values."),
            Field("item", MAP, "The item that `put` writes."),
            Field("update", TEXT, "The update expression, such as `SET stock = stock - :n`."),
            Field("condition", TEXT, "The condition expression that must hold for the item to be written."),
            Field("where", TEXT, "The key condition of `query`, such as `pk = :pk AND begins_with(sk, :from)`."),
            Field("filter", TEXT, "The filter expression of `query`."),
            Field("values", MAP, "Values that the expressions refer to with a colon: `{n: 1}` defines `:n`."),
            Field("names", MAP, "Attribute names that the expressions refer to with `#`: `{s: status}` defines `#s`."),
            Field("index", TEXT, "The index that `query` reads.", otherwise="the table"),
            Field("descending", Anything("true or false"), "true makes `query` begin with the last item.", default=False),
            Field("limit", COUNT, "The number of items at which `query` stops.", otherwise="all of them, up to `spec.max_items`"),
            Field("consistent", Anything("true or false"), "true makes reads strongly consistent.", default=False),
            _REGION,
        ),
        (
            Field(
                "max_items", COUNT, "Items that `query` may return; more is an error, never silent truncation.", default=10_000
            ),
            Field("max_bytes", BYTES, "Total bytes of the items of `query`; more is an error.", default=16 * 1024**2),
        ),
        "../tools/dynamodb.md",
        required=(words("table"),),
        exclusive=(words("action operation"),),
        actions={
            "get": Action(_ONE_ITEM, words("consistent region")),
            "put": Action((words("table"), words("item")), words("condition values names region")),
            "update": Action((*_ONE_ITEM, words("update")), words("condition values names region")),
            "delete": Action(_ONE_ITEM, words("condition values names region")),
            "query": Action(
                (words("table"), words("where")), words("values names filter index descending limit consistent region")
            ),
        },
        fails=SERVICE_ERRORS,
    ),
    "lambda": KindSpec(
        (
            *_action("invoke", "invoke", "What to do: invoke a function."),
            Field("function", TEXT, "The function: its name, `name:alias`, or its ARN."),
            Field("payload", Anything("any value"), "The input of the function, as JSON.", otherwise="null"),
            Field(
                "invocation",
                Choice(("request", "event"), template=True),
                "Whether the task waits for the answer, or invokes asynchronously.",
                default="request",
            ),
            _REGION,
        ),
        (),
        "../tools/lambda.md",
        required=(words("function"),),
        exclusive=(words("action operation"),),
        actions={"invoke": Action((words("function"),), words("payload invocation region"))},
        fails=SERVICE_ERRORS,
    ),
    "s3": KindSpec(
        (
            *_action("get put list copy delete presign", "get", "What to do with an object, or with the objects of a bucket."),
            Field("bucket", TEXT, "The name of the bucket."),
            Field("key", TEXT, "The key of the object."),
            Field("uri", TEXT, "Bucket and key in one: `s3://bucket/key`; for `list` a key with `*` is a pattern."),
            Field("data", Anything("any value"), "What `put` writes; a reference is copied as it is.", references=True),
            Field(
                "format",
                Choice(("auto", "json", "jsonl", "csv", "parquet", "text", "base64", "reference"), template=True),
                "How `get` reads the body and `put` writes the value. `auto` decides by key extension and content type.",
                default="auto",
            ),
            Field("content_type", TEXT, "The content type that `put` sets.", otherwise="by the format"),
            Field("metadata", MAP, "User metadata of the object: names with texts."),
            Field("version_id", TEXT, "The version of the object.", otherwise="the latest one"),
            Field("if_match", TEXT, "The ETag that the object must have."),
            Field(
                "if_none_match",
                TEXT,
                "With `*`, `put` writes only a new object; with an ETag, `get` reads only an object with a different ETag.",
            ),
            Field("prefix", TEXT, "The prefix of the keys that `list` returns."),
            Field(
                "glob",
                TEXT,
                "A pattern for keys of `list`: `*` is text without `/`, `**` any text, `?` a character.",
            ),
            Field(
                "source",
                Anything("`s3://bucket/key`, or a mapping"),
                "The object that `copy` copies; a mapping is `{bucket, key, version_id}`.",
            ),
            Field("keys", Anything("a list"), "The keys that `delete` deletes, in addition to `key`."),
            Field(
                "method", Choice(("get", "put"), template=True), "The method of the URL that `presign` creates.", default="get"
            ),
            Field("expires", Duration(PRESIGNED), "How long the URL that `presign` creates is valid.", default=3600),
            Field("region", TEXT, "The Region of the bucket.", otherwise=_OWN_REGION),
        ),
        (
            Field("max_value_bytes", BYTES, "Maximum bytes of an object that is read as a value.", default=64 * 1024 * 1024),
            Field("max_bytes", BYTES, "Maximum bytes of an object that is kept by reference.", default=20 * 1024**3),
            Field(
                "max_objects", COUNT, "Objects that `list` may return; more is an error, never silent truncation.", default=10_000
            ),
            Field("secret", FLAG, "false lets the log and every answer show the URL that `presign` creates.", default=True),
        ),
        "../tools/s3.md",
        exclusive=(words("bucket uri"), words("key uri"), words("prefix glob"), words("action operation")),
        actions={
            "get": Action(_BUCKET_AND_KEY, words("format version_id if_match if_none_match region")),
            "put": Action((*_BUCKET_AND_KEY, words("data")), words("format content_type metadata if_match if_none_match region")),
            "list": Action((words("bucket uri"),), words("prefix glob region")),
            "copy": Action((*_BUCKET_AND_KEY, words("source")), words("content_type metadata if_none_match region")),
            "delete": Action((words("bucket uri"), words("key keys uri")), words("version_id region")),
            "presign": Action(_BUCKET_AND_KEY, words("method expires version_id content_type region")),
        },
        fails=SERVICE_ERRORS,
    ),
}
