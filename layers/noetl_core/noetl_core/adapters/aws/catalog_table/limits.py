"""Places in limits, in the catalog table (its layout: `catalog`)."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any, Final

from noetl_core.adapters.aws.clients import client, errors_of
from noetl_core.adapters.aws.table import Item, Table
from noetl_core.ports import LimitRecord, LimitWaiter
from noetl_core.values.instants import DAY_S, SECOND

PARTITIONS: Final = 16
"""Partition keys of the records. Taking and freeing a place is two writes, and a partition takes 1,000 a second."""
KEPT_S: Final = 400 * DAY_S
"""Seconds for which an unused record is kept: longer than the lifetime of any execution."""


class DynamoLimitPlaces(Table):
    """`LimitPlaces` on the catalog table."""

    def read(self, key: str) -> LimitRecord:
        item = self.get_item(_partition(key), key)
        return LimitRecord(key) if item is None else _record(item)

    def write(self, record: LimitRecord, now: int) -> bool:
        in_use = bool(record.holders or record.displaced) or record.waiting
        item: dict[str, Any] = {
            "pk": {"S": _partition(record.key)},
            "sk": {"S": record.key},
            "holders": {"S": json.dumps(record.holders, separators=(",", ":"))},
            "most": {"N": str(record.most)},
            "waiting": {"BOOL": record.waiting},
            "revision": {"N": str(record.revision + 1)},
            "expires_at": {"N": str(now // SECOND + (KEPT_S if in_use else DAY_S))},
        }
        if record.displaced:
            item["displaced"] = {"S": json.dumps(record.displaced, separators=(",", ":"))}
        if not record.revision:
            return self.put(item, ConditionExpression="attribute_not_exists(pk)")
        seen = {":seen": {"N": str(record.revision)}}
        return self.put(item, ConditionExpression="revision = :seen", ExpressionAttributeValues=seen)

    def records(self, now: int) -> Sequence[LimitRecord]:
        found: list[LimitRecord] = []
        for partition in range(PARTITIONS):
            items = self.query(KeyConditionExpression="pk = :pk", ExpressionAttributeValues={":pk": {"S": f"limit#{partition}"}})
            found += [record for item in items if (record := _record(item)).holders or record.waiting]
        return sorted(found, key=lambda record: record.key)

    def enqueue(self, key: str, waiter: LimitWaiter) -> None:
        self.put(_item(key, waiter))

    def replace(self, key: str, waiter: LimitWaiter) -> bool:
        return self.put(_item(key, waiter), ConditionExpression="attribute_exists(pk)")

    def dequeue(self, key: str, place: str) -> None:
        if not place:
            return
        with errors_of("catalog write"):
            client("dynamodb").delete_item(TableName=self.table, Key={"pk": {"S": f"waits#{key}"}, "sk": {"S": place}})

    def waiters(self, key: str, limit: int) -> Sequence[LimitWaiter]:
        items = self.query(
            limit,
            ConsistentRead=True,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": f"waits#{key}"}},
        )
        return [_waiter(item) for item in items]


def _partition(key: str) -> str:
    return f"limit#{zlib.crc32(key.encode()) % PARTITIONS}"


def _record(item: Item) -> LimitRecord:
    return LimitRecord(
        item["sk"]["S"],
        json.loads(item["holders"]["S"]),
        int(item["most"]["N"]),
        item["waiting"]["BOOL"],
        int(item["revision"]["N"]),
        json.loads(item["displaced"]["S"]) if "displaced" in item else {},
    )


def _item(key: str, waiter: LimitWaiter) -> dict[str, Any]:
    item: dict[str, Any] = {
        "pk": {"S": f"waits#{key}"},
        "sk": {"S": waiter.place},
        "holder": {"S": waiter.holder},
        "most": {"N": str(waiter.most)},
    }
    if waiter.cancels is not None:
        item["cancels"] = {"S": waiter.cancels}
    return item


def _waiter(item: Item) -> LimitWaiter:
    return LimitWaiter(item["holder"]["S"], item["sk"]["S"], int(item["most"]["N"]), item.get("cancels", {}).get("S"))
