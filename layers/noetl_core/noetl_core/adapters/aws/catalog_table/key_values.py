"""Values that tasks keep, in the catalog table (its layout: `catalog`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import client, code_of, errors_of
from noetl_core.adapters.aws.table import Item, Table, query_pages
from noetl_core.aws import direct_requests
from noetl_core.ports import Entry, OtherRevision, check_entry, check_listed


class DynamoKeyValues:
    """`KeyValues` on the catalog table: a bucket is a partition, which takes 1,000 writes and 3,000 reads of 4 KB a second."""

    def __init__(self, table: str) -> None:
        self._table = Table(table)

    def get(self, bucket: str, key: str, now: int) -> Entry | None:
        item = self._table.get_item(f"kv#{bucket}", key)
        return None if item is None else _entry(item, now)

    def put(self, bucket: str, entry: Entry, now: int, expected: str | None = None) -> None:
        check_entry(entry)
        item: dict[str, Any] = {**_key(bucket, entry.key), "value": {"S": entry.value}, "revision": {"S": entry.revision}}
        if entry.expires_at:
            item["expires_at"] = {"N": str(entry.expires_at)}
        request: dict[str, Any] = {"TableName": self._table.table, "Item": item}
        if expected is not None:
            request |= _condition(expected, entry.revision, now)
        try:
            with errors_of("key-value write"):
                direct_requests.put_item(**request)
        except ClientError as error:
            raise _refused(error, now) from error

    def delete(self, bucket: str, key: str, now: int, expected: str | None = None) -> bool:
        request: dict[str, Any] = {"TableName": self._table.table, "Key": _key(bucket, key), "ReturnValues": "ALL_OLD"}
        if expected is not None:
            request |= {
                "ConditionExpression": "attribute_not_exists(pk) OR revision = :expected OR expires_at <= :now",
                "ExpressionAttributeValues": {":expected": {"S": expected}, ":now": {"N": str(now)}},
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        try:
            with errors_of("key-value write"):
                old = client("dynamodb").delete_item(**request).get("Attributes")
        except ClientError as error:
            raise _refused(error, now) from error
        return old is not None and _entry(old, now) is not None

    def list(self, bucket: str, prefix: str, now: int, limit: int) -> Sequence[Entry]:
        condition, values = "pk = :pk", {":pk": {"S": f"kv#{bucket}"}}
        if prefix:
            condition += " AND begins_with(sk, :prefix)"
            values[":prefix"] = {"S": prefix}
        pages = query_pages(
            "key-value read",
            TableName=self._table.table,
            ConsistentRead=True,
            KeyConditionExpression=condition,
            ExpressionAttributeValues=values,
        )
        found: list[Entry] = []
        for page in pages:
            found += [entry for item in page["Items"] if (entry := _entry(item, now)) is not None]
            check_listed(found[:limit])
            if len(found) >= limit:
                break
        return found[:limit]


def _key(bucket: str, key: str) -> dict[str, Any]:
    return {"pk": {"S": f"kv#{bucket}"}, "sk": {"S": key}}


def _entry(item: Item, now: int) -> Entry | None:
    """Return the entry of an item; None once it has expired, because DynamoDB deletes it later."""
    expires_at = int(item.get("expires_at", {"N": "0"})["N"])
    if 0 < expires_at <= now:
        return None
    return Entry(item["sk"]["S"], item["value"]["S"], item["revision"]["S"], expires_at)


def _condition(expected: str, revision: str, now: int) -> dict[str, Any]:
    """Return the condition that the entry has revision `expected` (empty: is missing), or is our own earlier write."""
    values = {":mine": {"S": revision}, ":now": {"N": str(now)}}
    if expected:
        values[":expected"] = {"S": expected}
        lasts = "(attribute_not_exists(expires_at) OR expires_at > :now)"
        condition = f"revision = :mine OR (revision = :expected AND {lasts})"
    else:
        condition = "attribute_not_exists(pk) OR revision = :mine OR expires_at <= :now"
    return {
        "ConditionExpression": condition,
        "ExpressionAttributeValues": values,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def _refused(error: ClientError, now: int) -> Exception:
    """Return the exception for a write that the table refused."""
    if code_of(error) != "ConditionalCheckFailedException":
        return error
    item = cast(Item | None, error.response.get("Item"))  # botocore's types do not know this field
    entry = _entry(item, now) if item else None
    return OtherRevision(entry.revision if entry else None)
