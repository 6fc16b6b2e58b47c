"""Rates of tasks, and of requests, in the catalog table (its layout: `catalog`)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import client, code_of, errors_of
from noetl_core.adapters.aws.table import Item, Table, query_pages
from noetl_core.engine.limits.rates import FORGOTTEN_S, wait_for_permit
from noetl_core.ports import RateInUse
from noetl_core.values.instants import SECOND

PARTITIONS: Final = 8
"""Partition keys of the rates. A request reserves permits for up to two seconds, so one partition takes many busy rates."""


class DynamoRateLimits(Table):
    """`RateLimits` on the catalog table: one write per reservation while a rate is in use, two when it was idle, and no read."""

    def reserve(self, key: str, interval: int, count: int, now: int) -> int:
        length = interval * count
        while True:
            end = self._moved(key, "free_at = free_at + :length", "free_at >= :now", now, length, interval)
            if end is None:
                end = self._moved(key, "free_at = :end", "attribute_not_exists(pk) OR free_at < :now", now, length, interval)
            if end is not None:
                return end - length

    def _moved(self, key: str, change: str, condition: str, now: int, length: int, interval: int) -> int | None:
        """Change the end of the reservations and return it; None if the condition does not hold."""
        values = {":now": now, ":interval": interval, ":forgotten": (now + length) // SECOND + FORGOTTEN_S}
        values |= {":end": now + length} if ":end" in change else {":length": length}
        try:
            with errors_of("rate write"):
                answer = client("dynamodb").update_item(
                    TableName=self.table,
                    Key={"pk": {"S": f"rate#{zlib.crc32(key.encode()) % PARTITIONS}"}, "sk": {"S": key}},
                    UpdateExpression=f"SET {change}, step = :interval, expires_at = :forgotten",
                    ConditionExpression=condition,
                    ExpressionAttributeValues={name: {"N": str(value)} for name, value in values.items()},
                    ReturnValues="UPDATED_NEW",
                )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            return None
        return int(answer["Attributes"]["free_at"]["N"])

    def rates(self, now: int) -> Sequence[RateInUse]:
        found: list[RateInUse] = []
        for partition in range(PARTITIONS):
            request: dict[str, Any] = {
                "TableName": self.table,
                "KeyConditionExpression": "pk = :pk",
                "ExpressionAttributeValues": {":pk": {"S": f"rate#{partition}"}},
            }
            for page in query_pages("catalog read", **request):
                found += [
                    RateInUse(item["sk"]["S"], int(item["free_at"]["N"]), int(item["step"]["N"]))
                    for item in page["Items"]
                    if int(item["expires_at"]["N"]) > now // SECOND
                ]
        return sorted(found, key=lambda rate: rate.key)


class DynamoRequestRates(Table):
    """`RequestRates` on the catalog table: one write per request, two while requests follow each other closely, and no read."""

    def take(self, key: str, interval: int, burst: int, now: int) -> int:
        latest = now + (burst - 1) * interval
        while True:
            idle = {":now": now, ":end": now + interval}
            free_at = self._move(key, ":end", "attribute_not_exists(pk) OR free_at < :now", idle, now + interval)
            if free_at is not None and free_at <= latest:
                busy = {":now": now, ":latest": latest, ":interval": interval}
                free_at = self._move(key, "free_at + :interval", "free_at BETWEEN :now AND :latest", busy, latest + interval)
            if free_at is None:
                return 0
            if wait := wait_for_permit(free_at, interval, burst, now):
                return wait

    def _move(self, key: str, end: str, condition: str, values: Mapping[str, int], until: int) -> int | None:
        """Move the end of the permits that are taken, and return None; if the condition does not hold, return that end."""
        values = {**values, ":forgotten": until // SECOND + FORGOTTEN_S}
        try:
            with errors_of("rate write"):
                client("dynamodb").update_item(
                    TableName=self.table,
                    Key={"pk": {"S": f"requests#{key}"}, "sk": {"S": "rate"}},
                    UpdateExpression=f"SET free_at = {end}, expires_at = :forgotten",
                    ConditionExpression=condition,
                    ExpressionAttributeValues={name: {"N": str(value)} for name, value in values.items()},
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            old = cast(Item | None, error.response.get("Item"))  # none if it expired in between
            return int(old["free_at"]["N"]) if old else 0
        return None
