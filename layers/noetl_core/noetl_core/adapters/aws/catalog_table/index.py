"""Heads of executions and due items in the catalog table (its layout: `catalog`)."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, groupby, islice
from typing import Any
from zlib import crc32

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import client, code_of, errors_of
from noetl_core.adapters.aws.table import IS_FREE, Item, Table, query_pages
from noetl_core.adapters.clock import SystemClock
from noetl_core.aws import direct_requests
from noetl_core.engine.heads import is_found, search_text
from noetl_core.engine.statuses import STATUSES, TERMINAL
from noetl_core.ports import Clock, Due, Head
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import SECOND

PARTITIONS = 8
"""Default number of partition keys for the due items, and for the heads of each status and path (stack parameter
IndexPartitions). A partition takes 1,000 write units a second, and an execution writes four for its due item and three for its
head (docs/scaling.md)."""
DUE_PAGE = 200
HEADS_PAGE = 10
"""The least number of heads per request. A listing reads one page of each partition, then further pages of those with the newest
heads."""
LOOKS_AT_ONCE = 10
"""Connections a client keeps (botocore's default)."""

IS_NEWS = f"{IS_FREE} OR updated_at < :updated_at"
ENDS = f"{IS_NEWS} OR updated_at = :updated_at"
ENDED = {f":{status}": {"S": status} for status in sorted(TERMINAL)}
GOES_ON = f"{IS_NEWS} OR (updated_at = :updated_at AND NOT #status IN ({', '.join(ENDED)}))"
LIVES = "(attribute_not_exists(expires_at) OR expires_at >= :now)"


@frozen
class _Partition:
    """Heads of one status (and path) in one shard, from `since` to `newest`."""

    status: str
    path: str | None
    shard: int
    since: str
    newest: str
    oldest_first: bool

    def query(self, values: dict[str, Any]) -> dict[str, Any]:
        index, partition, sort, sorts_by = "heads", "list", "listed_at", ""
        key = f"heads#{self.status}#{self.shard}"
        if self.path is not None:
            index, partition, sort, sorts_by = "heads_by_path", "path_list", "status_at", f"{self.status}#"
            key = f"{self.path}#{self.shard}"
        bounds = {":from": {"S": sorts_by + self.since}, ":to": {"S": sorts_by + self.newest}}
        return {
            "IndexName": index,
            "ScanIndexForward": self.oldest_first,
            "KeyConditionExpression": f"#partition = :partition AND {sort} BETWEEN :from AND :to",
            "ExpressionAttributeNames": {"#partition": partition},
            "ExpressionAttributeValues": {":partition": {"S": key}, **bounds, **values},
        }


class DynamoExecutionIndex(Table):
    """`ExecutionIndex` on the catalog table. The number of `partitions` may grow over the life of a table, but never shrink."""

    def __init__(self, table: str, clock: Clock | None = None, partitions: int = PARTITIONS) -> None:
        super().__init__(table)
        self._clock = clock or SystemClock()
        self._partitions = partitions

    def put_head(self, head: Head) -> None:
        shard = int(head.execution_id) % self._partitions
        listed_at = f"{head.started_at:020d}#{head.execution_id}"
        item: dict[str, Any] = {
            "pk": {"S": f"x#{head.execution_id}"},
            "sk": {"S": "head"},
            "list": {"S": f"heads#{head.status}#{shard}"},
            "listed_at": {"S": listed_at},
            "path_list": {"S": f"{head.path}#{shard}"},
            "status_at": {"S": f"{head.status}#{listed_at}"},
            "execution_id": {"S": head.execution_id},
            "status": {"S": head.status},
            "path": {"S": head.path},
            "version": {"N": str(head.version)},
            "digest": {"S": head.digest},
            "started_at": {"N": str(head.started_at)},
            "updated_at": {"N": str(head.updated_at)},
        }
        for name, number in (
            ("finished_at", head.finished_at),
            ("expires_at", head.expires_at or None),
            ("warnings", head.warnings or None),
            ("redriven_at", head.redriven_at or None),
        ):
            if number is not None:
                item[name] = {"N": str(number)}
        for name, value in (
            ("error", head.error),
            ("parent", head.parent),
            ("trigger", head.trigger),
            ("search", head.search),
            ("labels", head.labels or None),
        ):
            if value is not None:
                item[name] = {"S": json.dumps(value)}
        former = set() if head.search is None else self._find_by(head, shard, listed_at)
        values: dict[str, Any] = {":updated_at": item["updated_at"]}
        if head.status in TERMINAL:
            written = self.put(item, ConditionExpression=ENDS, ExpressionAttributeValues=values)
        else:
            values |= ENDED
            names = {"#status": "status"}
            written = self.put(
                item, ConditionExpression=GOES_ON, ExpressionAttributeValues=values, ExpressionAttributeNames=names
            )
        for found_by in former if written else ():
            with errors_of("catalog write"):
                client("dynamodb").delete_item(TableName=self.table, Key={"pk": {"S": found_by}, "sk": {"S": listed_at}})

    def _find_by(self, head: Head, shard: int, listed_at: str) -> set[str]:
        """Write the search items of a head before the head, so that every attribute of a head is found. Return its previous
        search items. A superfluous item is harmless, because readers check the head."""
        stored = self.head(head.execution_id)
        current, previous = (
            {_attribute(name, search_text(value), shard) for name, value in search.items()}
            for search in (head.search or {}, (stored and stored.search) or {})
        )
        for found_by in (
            current if head.status in TERMINAL else current - previous
        ):  # at the end all of them, in case another writer removed one
            item: dict[str, Any] = {"pk": {"S": found_by}, "sk": {"S": listed_at}, "execution_id": {"S": head.execution_id}}
            if head.expires_at:
                item["expires_at"] = {"N": str(head.expires_at)}
            self.put(item)
        return previous - current

    def heads(
        self,
        status: str | None = None,
        path: str | None = None,
        since: int | None = None,
        limit: int = 50,
        before: str | None = None,
        where: Mapping[str, str] | None = None,
        oldest_first: bool = False,
    ) -> Sequence[Head]:
        oldest, newest = f"{since or 0:020d}", "~"  # sorts after every digit
        if before is not None:
            item = self.get_item(f"x#{before}", "head")
            if item is None:
                return []
            oldest, newest = (max(oldest, _listed_at(item)), newest) if oldest_first else (oldest, _listed_at(item))
        end = oldest if oldest_first else newest
        if where:
            found = self._found(where, oldest, newest, oldest_first=oldest_first)
            fits = (h for h in found if (status is None or h.status == status) and (path is None or h.path == path))
            return list(islice(fits, limit))
        statuses = sorted(STATUSES, key=TERMINAL.__contains__) if status is None else (status,)
        shards = range(self._partitions)
        partitions = [_Partition(s, path, shard, oldest, newest, oldest_first) for s in statuses for shard in shards]
        size = max(HEADS_PAGE, limit if len(partitions) == self._partitions else limit // 4) + 1
        streams = [self._pages(partition, size) for partition in partitions]
        goes_on = sum(partition.status not in TERMINAL for partition in partitions)
        with ThreadPoolExecutor(
            LOOKS_AT_ONCE
        ) as pool:  # running ones first: an execution that ends meanwhile is found among the ended ones
            first = [*pool.map(next, streams[:goes_on]), *pool.map(next, streams[goes_on:])]
        heads = (_items(page, stream) for page, stream in zip(first, streams, strict=True))
        listed = heapq.merge(*heads, key=_listed_at, reverse=not oldest_first)
        newest_each = (max(same, key=_recency) for at, same in groupby(listed, _listed_at) if at != end)
        return [_head(item) for item in islice(newest_each, limit)]

    def _found(self, where: Mapping[str, str], since: str, newest: str, *, oldest_first: bool) -> Iterator[Head]:
        """Yield the heads with these attributes in their order: the first attribute finds them, the others filter them."""
        name, value = next(iter(where.items()))
        streams = [
            query_pages(
                "catalog read",
                TableName=self.table,
                KeyConditionExpression="pk = :pk AND sk BETWEEN :from AND :to",
                FilterExpression=LIVES,
                ExpressionAttributeValues={
                    ":pk": {"S": _attribute(name, value, shard)},
                    ":from": {"S": since},
                    ":to": {"S": newest},
                    ":now": {"N": str(self._clock.now() // SECOND)},
                },
                ScanIndexForward=oldest_first,
                Limit=HEADS_PAGE,
            )
            for shard in range(self._partitions)
        ]
        with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
            first = list(pool.map(next, streams))
            items = (_items(page, stream) for page, stream in zip(first, streams, strict=True))
            listed = heapq.merge(*items, key=lambda item: str(item["sk"]["S"]), reverse=not oldest_first)
            end = since if oldest_first else newest
            ids = (item["execution_id"]["S"] for item in listed if item["sk"]["S"] != end)
            while some := list(islice(ids, LOOKS_AT_ONCE)):
                yield from (h for h in pool.map(self.head, some) if h is not None and is_found(h, where))

    def _pages(self, partition: _Partition, size: int) -> Iterator[Item]:
        """Yield the heads of a partition in its order."""
        return query_pages(
            "catalog read",
            TableName=self.table,
            FilterExpression=LIVES,
            Limit=size,
            **partition.query({":now": {"N": str(self._clock.now() // SECOND)}}),
        )

    def head(self, execution_id: str) -> Head | None:
        item = self.get_item(f"x#{execution_id}", "head")
        return None if item is None else _head(item)

    def set_due(self, execution_id: str, at: int, seen: int | None = None) -> None:
        self.put(self._due_item(execution_id, at), **({} if seen is None else _if_still_due_at(seen)))

    def claim_due(self, due: Due, at: int) -> int | None:
        try:
            with errors_of("claim due"):
                before = direct_requests.put_item(
                    TableName=self.table,
                    Item=self._due_item(due.execution_id, at, 1),
                    ReturnValues="ALL_OLD",
                    **_if_still_due_at(due.at),
                )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            return None
        attempts = 1 + int(before.get("Attributes", {}).get("looks", {"N": "0"})["N"])
        if attempts > 1:  # rare: an earlier attempt died; reading before every attempt would cost more
            self.put(self._due_item(due.execution_id, at, attempts), **_if_still_due_at(at))
        return attempts

    def clear_due(self, execution_id: str) -> None:
        self._delete_due(self._due_partition(execution_id), execution_id)

    def _delete_due(self, partition: str, execution_id: str) -> None:
        with errors_of("clear due"):
            direct_requests.delete_item(TableName=self.table, Key={"pk": {"S": partition}, "sk": {"S": execution_id}})

    def due(self, now: int) -> Iterator[Due]:
        partitions = [f"due#{number}" for number in range(self._partitions)]
        streams = [self._due_pages(partition, now) for partition in partitions]
        with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
            first = list(pool.map(next, streams))
        found = zip(partitions, first, streams, strict=True)
        due = (self._due_of(partition, _items(page, stream)) for partition, page, stream in found)
        return heapq.merge(*due, key=lambda one: one.at)

    def _due_pages(self, partition: str, now: int) -> Iterator[Item]:
        return query_pages(
            "catalog read",
            TableName=self.table,
            IndexName="by_due",
            KeyConditionExpression="pk = :pk AND due_at <= :now",
            ExpressionAttributeValues={":pk": {"S": partition}, ":now": {"N": str(now)}},
            ConsistentRead=True,
            Limit=DUE_PAGE,
        )

    def _due_of(self, partition: str, items: Iterator[Item]) -> Iterator[Due]:
        """Yield the due items of a partition, oldest first. An item from a time with fewer partitions is moved to its own."""
        for item in items:
            due = Due(int(item["due_at"]["N"]), item["sk"]["S"])
            if self._due_partition(due.execution_id) != partition:
                self.put(self._due_item(due.execution_id, due.at), ConditionExpression="attribute_not_exists(pk)")
                self._delete_due(partition, due.execution_id)
            yield due

    def _due_item(self, execution_id: str, at: int, attempts: int = 0) -> dict[str, Any]:
        key = {"pk": {"S": self._due_partition(execution_id)}, "sk": {"S": execution_id}}
        item = {**key, "due_at": {"N": str(at)}}
        return {**item, "looks": {"N": str(attempts)}} if attempts else item

    def _due_partition(self, execution_id: str) -> str:
        number = int(execution_id) if execution_id.isdecimal() else crc32(execution_id.encode())
        return f"due#{number % self._partitions}"


def _attribute(name: str, value: str, shard: int) -> str:
    """Return the partition key of a value of a search attribute."""
    return f"w#{name}={value}#{shard}"


def _items(page: Item, more: Iterator[Item]) -> Iterator[Item]:
    """Yield the items of a page and of the following pages, which are read on demand."""
    for found in chain((page,), more):
        yield from found["Items"]


def _if_still_due_at(at: int) -> dict[str, Any]:
    return {"ConditionExpression": "due_at = :seen", "ExpressionAttributeValues": {":seen": {"N": str(at)}}}


def _listed_at(item: Item) -> str:
    return str(item["listed_at"]["S"])


def _recency(item: Item) -> tuple[int, bool]:
    return int(item["updated_at"]["N"]), item["status"]["S"] in TERMINAL


def _head(item: Item) -> Head:
    def number(name: str) -> int:
        return int(item[name]["N"]) if name in item else 0

    def parsed(name: str) -> Any:
        return json.loads(item[name]["S"]) if name in item else None

    return Head(
        execution_id=item["execution_id"]["S"],
        status=item["status"]["S"],
        path=item["path"]["S"],
        version=number("version"),
        digest=item["digest"]["S"],
        started_at=number("started_at"),
        updated_at=number("updated_at"),
        finished_at=number("finished_at") or None,
        error=parsed("error"),
        parent=parsed("parent"),
        expires_at=number("expires_at"),
        trigger=parsed("trigger"),
        search=parsed("search"),
        labels=parsed("labels") or {},
        warnings=number("warnings"),
        redriven_at=number("redriven_at"),
    )
