"""`loop.cursor`: where a loop claims its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl_core.dsl.fields.types import Anything, Block, Choice, Field, Shape, Text, Values
from noetl_core.dsl.model import Cursor
from noetl_core.dsl.numbers import LEASE, QUEUE_WAIT

_CURSOR: Final = Cursor("postgres")
_SETTLED: Final = Shape(
    "settled", "a mapping of columns or attributes to values, or the word `delete`; SQL instead if `claim` is set"
)

OF_TABLE: Final = ("table", "where", "order", "set", "claimed_by", "claimed_until")
"""Fields of a table, for which the engine writes the statements."""
OF_STATEMENTS: Final = ("claim", "renew", "release")
"""Statements that the author writes instead."""
OF_KIND: Final[Mapping[str, frozenset[str]]] = {
    "sqs": frozenset({"queue", "wait_s", "failed"}),
    "dynamodb": frozenset(
        {"table", "index", "where", "filter", "values", "names", "set", "done", "failed", "claimed_by", "claimed_until", "region"}
    ),
    "postgres": frozenset({"auth", "connection", "database", "key", "done", "failed", "params", *OF_TABLE, *OF_STATEMENTS}),
}
"""The fields that a kind takes, beside `kind` and `lease_s`."""

CURSOR: Final = Block(
    "cursor",
    "Claims the elements of a loop from a source, frame by frame, until there are none.",
    "loops.md#cursors",
    Field("kind", Choice(tuple(OF_KIND)), "The kind of source.", required=True),
    Field(
        "lease_s",
        LEASE,
        "Seconds after which others may claim a row whose worker died. A live worker renews its claims.",
        default=_CURSOR.lease_s,
    ),
    Field("auth", Anything("a name or a mapping"), "The credential to connect with: its name, or its fields."),
    Field(
        "connection",
        Anything("text or a mapping"),
        "Another name of `auth`: the name of a credential, its fields, or a connection string.",
    ),
    Field("database", Text(), "Another database on the same server.", otherwise="that of the credential"),
    Field("table", Text(), "The table whose rows, or items, are claimed; for PostgreSQL, optionally with its schema."),
    Field("key", Text(), "The column that identifies a row.", default="id"),
    Field(
        "where",
        Text(),
        "SQL: the condition for rows that may be claimed. It must not hold for finished rows. For `dynamodb`: a key condition.",
        otherwise="all rows; for `dynamodb`, a scan of the table",
    ),
    Field("order", Text(), "SQL: the order in which rows are claimed, and run within a frame.", otherwise="by key"),
    Field("set", Values(), "Columns, or attributes, that a claim sets besides those of `claimed_by` and `claimed_until`."),
    Field("done", _SETTLED, "What happens to a row whose iteration succeeded."),
    Field(
        "failed",
        _SETTLED,
        "What happens to a row whose iteration failed.",
        otherwise="others may claim the row, and this run does not claim it again",
    ),
    Field("claimed_by", Text(), "The column or attribute, of type text, with the id of the claim.", default="claimed_by"),
    Field(
        "claimed_until", Text(), "The column, of type timestamptz, with the expiry of the claim; null in unclaimed rows."
        " For `dynamodb`: the attribute with the expiry, a number of seconds since 1970.",
        default="claimed_until",
    ),
    Field(
        "claim", Text(), "SQL of your own, instead of `table`: it claims rows and returns them.",
        link="loops.md#claims-of-your-own",
    ),
    Field("renew", Text(), "SQL, with `claim`, that renews the claim of rows and returns the keys of those still claimed."),
    Field("release", Text(), "SQL, with `claim`, that releases rows that were not run."),
    Field("params", Values(), "Values for the parameters of `where`, and of SQL of your own."),
    Field("queue", Text(), "The SQS queue whose messages are claimed: its name or its URL.", link="loops.md#messages-of-a-queue"),
    Field(
        "wait_s", QUEUE_WAIT, "Seconds to wait for messages before the queue counts as empty.", default=1,
        link="loops.md#messages-of-a-queue",
    ),
    Field(
        "index", Text(), "The index of the DynamoDB table that is read to find items to claim.", otherwise="the table",
        link="loops.md#items-of-a-table",
    ),
    Field("filter", Text(), "The filter expression: which items may be claimed.", link="loops.md#items-of-a-table"),
    Field("values", Values(), "Values that `where` and `filter` refer to with a colon: `{n: 1}` defines `:n`."),
    Field("names", Values(), "Attribute names that `where` and `filter` refer to with `#`: `{s: status}` defines `#s`."),
    Field(
        "region",
        Text(),
        "The Region of the DynamoDB table.",
        otherwise="on a stack that of the stack, elsewhere that of your AWS profile",
    ),
    prefix="cursor of ",
)  # fmt: skip
