"""Triggers, the outcomes of their occurrences, and refused deliveries, in the catalog table (its layout: `catalog`)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from secrets import token_hex
from typing import Any, Final, cast
from zlib import crc32

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import client, code_of, errors_of
from noetl_core.adapters.aws.table import Item, Table, query_pages
from noetl_core.aws import direct_requests
from noetl_core.dsl.model import Schedule
from noetl_core.dsl.versions import version_of
from noetl_core.ports import Firing, OtherRevision, RefusedDelivery, TriggerRecord

PARTITIONS: Final = 8
"""Partition keys of the triggers. A schedule writes its record twice each time it fires."""
NOT_EXPIRED: Final = "attribute_not_exists(expires_at) OR expires_at > :now"


NEWS: Final = "trigger#news", "revision"
"""The item that records changes of the triggers which take deliveries."""
TAKERS_S: Final = 60.0
"""Seconds for which a process caches triggers while no change is recorded. It misses a change only if a process dies before
recording it."""


class DynamoTriggers(Table):
    """`TriggerStore` on the catalog table."""

    def __init__(self, table: str, age: Callable[[], float] = time.monotonic) -> None:
        super().__init__(table)
        self._age = age
        self._takers: tuple[str, float, Sequence[TriggerRecord]] | None = None

    def trigger(self, path: str, name: str) -> TriggerRecord | None:
        item = self.get_item(*_key(path, name))
        return None if item is None else _record(item)

    def put_trigger(self, record: TriggerRecord, expected: str) -> None:
        pk, sk = _key(record.path, record.name)
        item: dict[str, Any] = {
            "pk": {"S": pk},
            "sk": {"S": sk},
            "kind": {"S": record.kind},
            "version": {"N": str(record.version)},
            "digest": {"S": record.digest},
            "enabled": {"BOOL": record.enabled},
            "source": {"S": json.dumps(record.source)},
            "payload": {"S": json.dumps(record.payload)},
            "state": {"S": json.dumps(record.state)},
            "revision": {"S": record.revision},
            **({} if record.starts is None else {"starts": {"S": str(record.starts)}}),
        }
        values = {":mine": {"S": record.revision}}
        condition = "attribute_not_exists(pk) OR revision = :mine"
        if expected:
            values[":expected"] = {"S": expected}
            condition = "revision = :mine OR revision = :expected"
        taker = record.kind != Schedule.kind
        if taker:
            self._record_change()
        try:
            with errors_of("trigger write"):
                old = direct_requests.put_item(
                    TableName=self.table,
                    Item=item,
                    ConditionExpression=condition,
                    ExpressionAttributeValues=values,
                    ReturnValues="ALL_OLD",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ClientError as error:
            raise _refusal(error) from error
        was = cast(Item | None, old.get("Attributes"))
        is_repeated = was is not None and was["revision"]["S"] == record.revision  # the previous content is unknown
        if taker or is_repeated or (was is not None and was["kind"]["S"] != record.kind):
            self._record_change()  # a process that read between the two writes reads again

    def delete_trigger(self, path: str, name: str, expected: str) -> None:
        pk, sk = _key(path, name)
        try:
            with errors_of("trigger write"):
                client("dynamodb").delete_item(
                    TableName=self.table,
                    Key={"pk": {"S": pk}, "sk": {"S": sk}},
                    ConditionExpression="attribute_not_exists(pk) OR revision = :expected",
                    ExpressionAttributeValues={":expected": {"S": expected}},
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ClientError as error:
            raise _refusal(error) from error
        self._record_change()

    def delivery_triggers(self) -> Sequence[TriggerRecord]:
        news = self.get_item(*NEWS)
        revision = "" if news is None else news["told"]["S"]
        kept = self._takers
        if kept is not None and kept[0] == revision and self._age() - kept[1] < TAKERS_S:
            return kept[2]
        read_at = self._age()
        found = [record for record in self.triggers() if record.kind != Schedule.kind]
        self._takers = revision, read_at, found
        return found

    def _record_change(self) -> None:
        """Record a change, so that every process reads the triggers that take deliveries again."""
        pk, sk = NEWS
        self.put({"pk": {"S": pk}, "sk": {"S": sk}, "told": {"S": token_hex(8)}})

    def triggers(self, path: str | None = None, kind: str | None = None) -> Sequence[TriggerRecord]:
        if path is not None:
            pk, sk = _key(path, "")
            found = self._listed(pk, sk)
        else:
            with ThreadPoolExecutor(PARTITIONS) as pool:
                found = list(chain.from_iterable(pool.map(self._listed, [f"trigger#{n}" for n in range(PARTITIONS)])))
        records = [_record(item) for item in found]
        wanted = (r for r in records if (path is None or r.path == path) and (kind is None or r.kind == kind))
        return sorted(wanted, key=lambda r: (r.path.encode(), r.name.encode()))

    def _listed(self, pk: str, prefix: str = "") -> list[Item]:
        condition, values = "pk = :pk", {":pk": {"S": pk}}
        if prefix:
            condition += " AND begins_with(sk, :prefix)"
            values[":prefix"] = {"S": prefix}
        return self.query(KeyConditionExpression=condition, ExpressionAttributeValues=values, ConsistentRead=True)

    def put_firing(self, firing: Firing) -> None:
        item: dict[str, Any] = {
            "pk": {"S": f"fired#{firing.path}#{firing.name}"},
            "sk": {"S": f"{firing.at:020d}#{firing.occurrence}"},
            "result": {"S": firing.result},
        }
        if firing.execution_id is not None:
            item["execution_id"] = {"S": firing.execution_id}
        if firing.reason:
            item["reason"] = {"S": firing.reason}
        if firing.expires_at:
            item["expires_at"] = {"N": str(firing.expires_at)}
        self.put(item)

    def firings(self, path: str, name: str, now: int, limit: int) -> Sequence[Firing]:
        return [_firing(path, name, item) for item in self._newest(f"fired#{path}#{name}", now, limit)]

    def refuse(self, refused: RefusedDelivery) -> None:
        item: dict[str, Any] = {
            "pk": {"S": "refused"},
            "sk": {"S": refused.id},
            **{name: {"S": getattr(refused, name)} for name in ("path", "name", "kind", "occurrence", "code", "reason")},
            "at": {"N": str(refused.at)},
            "facts": {"S": json.dumps(refused.facts)},
        }
        if refused.expires_at:
            item["expires_at"] = {"N": str(refused.expires_at)}
        self.put(item)

    def refused(self, id: str, now: int) -> RefusedDelivery | None:
        item = self.get_item("refused", id)
        return None if item is None or 0 < _number(item, "expires_at") <= now else _refused(item)

    def list_refused(self, now: int, limit: int, path: str | None = None) -> Sequence[RefusedDelivery]:
        return [_refused(item) for item in self._newest("refused", now, limit, path)]

    def forget_refused(self, id: str) -> None:
        with errors_of("trigger write"):
            client("dynamodb").delete_item(TableName=self.table, Key={"pk": {"S": "refused"}, "sk": {"S": id}})

    def _newest(self, pk: str, now: int, limit: int, path: str | None = None) -> Sequence[Item]:
        """Return the newest unexpired items of a partition, reading only as many pages as needed."""
        values = {":pk": {"S": pk}, ":now": {"N": str(now)}}
        more: dict[str, Any] = {"FilterExpression": NOT_EXPIRED}
        if path is not None:
            values[":path"] = {"S": path}
            more = {"FilterExpression": f"({NOT_EXPIRED}) AND #path = :path", "ExpressionAttributeNames": {"#path": "path"}}
        found: list[Item] = []
        for page in query_pages(
            "trigger read",
            TableName=self.table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues=values,
            ScanIndexForward=False,
            ConsistentRead=True,
            **more,
        ):
            found += page["Items"]
            if len(found) >= limit:
                break
        return found[:limit]


def _key(path: str, name: str) -> tuple[str, str]:
    """Return the key of a trigger. Names of triggers contain no `#`, so keys are unique."""
    return f"trigger#{crc32(path.encode()) % PARTITIONS}", f"{path}#{name}"


def _record(item: Item) -> TriggerRecord:
    path, _, name = item["sk"]["S"].rpartition("#")
    return TriggerRecord(
        path,
        name,
        item["kind"]["S"],
        _number(item, "version"),
        item["digest"]["S"],
        bool(item["enabled"]["BOOL"]),
        json.loads(item["source"]["S"]),
        json.loads(item["payload"]["S"]),
        json.loads(item["state"]["S"]),
        item["revision"]["S"],
        version_of(item["starts"]["S"]) if "starts" in item else None,
    )


def _firing(path: str, name: str, item: Item) -> Firing:
    at, _, occurrence = item["sk"]["S"].partition("#")
    return Firing(
        path,
        name,
        occurrence,
        int(at),
        cast(Any, item["result"]["S"]),
        item["execution_id"]["S"] if "execution_id" in item else None,
        item["reason"]["S"] if "reason" in item else "",
        _number(item, "expires_at"),
    )


def _refused(item: Item) -> RefusedDelivery:
    return RefusedDelivery(
        item["sk"]["S"],
        item["path"]["S"],
        item["name"]["S"],
        item["kind"]["S"],
        item["occurrence"]["S"],
        _number(item, "at"),
        item["code"]["S"],
        item["reason"]["S"],
        json.loads(item["facts"]["S"]),
        _number(item, "expires_at"),
    )


def _number(item: Item, name: str) -> int:
    return int(item[name]["N"]) if name in item else 0


def _refusal(error: ClientError) -> Exception:
    """Return the exception for a write that the table refused."""
    if code_of(error) != "ConditionalCheckFailedException":
        return error
    item = cast(Item | None, error.response.get("Item"))  # botocore's types do not know this field
    return OtherRevision(item["revision"]["S"] if item else None)
