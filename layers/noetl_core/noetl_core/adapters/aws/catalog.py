"""Playbooks, heads, due items and gates in the catalog table.

| what | pk | sk | more |
|---|---|---|---|
| playbook version | `p#<path>` | `v#<version>` | |
| latest version of a path | `latest` | `<path>` | moves |
| content by digest | `d#<digest>` | `source` | written once (again when content that was only pinned is registered) |
| head | `x#<execution_id>` | `head` | `list`, `listed_at`: the sparse index `heads`, by status, in shards |
| | | | `path_list`, `status_at`: the sparse index `heads_by_path`, in shards |
| gate | `x#<execution_id>` | `gate` | |
| due | `due#<shard>` | `<execution_id>` | `due_at`: the local index `by_due`; `looks`: attempts that did not end |
"""

from __future__ import annotations

import heapq
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import client, code_of, errors_of
from noetl_core.adapters.clock import SystemClock
from noetl_core.ports import Clock, Due, Gate, Head, NotFound, PlaybookVersion, TooLarge

DUE_SHARDS = 4
HEAD_SHARDS = 8
"""Partitions of an index of heads for each status and each path: one partition takes 1,000 write units a second, and each
start and each end writes a head."""
MAX_SOURCE = 380 * 1024
"""Bytes of a compressed playbook one item takes."""
MAX_KEY = 1024
"""Bytes of a path; DynamoDB refuses requests with longer sort keys, which would come again and again."""
DUE_PAGE = 200
HEADS_PAGE = 10
"""The least number of heads read per request: a listing reads pages of many partitions, and further pages of those with the
newest heads."""
LOOKS_AT_ONCE = 10
"""Connections a client keeps (botocore's default)."""
SECOND = 1_000_000
TERMINAL = ("completed", "failed", "cancelled")
HEAD_STATUSES = ("running", "waiting", "paused", "cancelling", "stuck", *TERMINAL)
Item = Mapping[str, Any]

IS_FREE = "attribute_not_exists(pk)"
IS_ONLY_PINNED = f"{IS_FREE} OR version = :pinned"
IS_LATER = f"{IS_FREE} OR version < :version"
IS_NEWS = f"{IS_FREE} OR updated_at < :updated_at"
ENDS = f"{IS_NEWS} OR updated_at = :updated_at"
GOES_ON = f"{IS_NEWS} OR (updated_at = :updated_at AND NOT #status IN (:completed, :failed, :cancelled))"
LIVES = "(attribute_not_exists(expires_at) OR expires_at >= :now)"


class _Table:
    def __init__(self, table: str) -> None:
        self._table = table

    def _put(self, item: dict[str, Any], **condition: Any) -> bool:
        """Write an item; return False when the condition did not hold."""
        try:
            with errors_of("catalog write"):
                client("dynamodb").put_item(TableName=self._table, Item=item, **condition)
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            return False
        return True

    def _get(self, pk: str, sk: str, *, consistent: bool = True) -> Item | None:
        with errors_of("catalog read"):
            found: Item | None = (
                client("dynamodb")
                .get_item(TableName=self._table, Key={"pk": {"S": pk}, "sk": {"S": sk}}, ConsistentRead=consistent)
                .get("Item")
            )
        return found

    def _query(self, limit: int | None = None, **request: Any) -> list[Item]:
        items: list[Item] = []
        while True:
            with errors_of("catalog read"):
                page = client("dynamodb").query(TableName=self._table, **request)
            items += page["Items"]
            if "LastEvaluatedKey" not in page or (limit is not None and len(items) >= limit):
                return items[:limit]
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


class DynamoPlaybookCatalog(_Table):
    """`PlaybookCatalog` on the catalog table."""

    def register(self, path: str, digest: str, source: str, now: int) -> PlaybookVersion:
        body = _body(path, source)
        while True:
            latest = self._latest(path)
            if latest is not None and latest.digest == digest:
                summary = self._get("latest", path, consistent=False)
                if summary is None or int(summary["version"]["N"]) < latest.version:
                    self._announce(latest)  # whoever registered it died before this
                return latest
            new = PlaybookVersion(path, latest.version + 1 if latest else 1, digest, source, now)
            item = {**_summary(new), "source": {"B": body}}
            content = {"pk": {"S": f"d#{digest}"}, "sk": {"S": "source"}, **item}
            self._put(content, ConditionExpression=IS_ONLY_PINNED, ExpressionAttributeValues={":pinned": {"N": "0"}})
            version = {"pk": {"S": f"p#{path}"}, "sk": {"S": f"v#{new.version:08d}"}, **item}
            if self._put(version, ConditionExpression=IS_FREE):
                self._announce(new)
                return new

    def pin(self, path: str, digest: str, source: str, now: int) -> PlaybookVersion:
        item = {**_summary(PlaybookVersion(path, 0, digest, source, now)), "source": {"B": _body(path, source)}}
        self._put({"pk": {"S": f"d#{digest}"}, "sk": {"S": "source"}, **item}, ConditionExpression=IS_FREE)
        return self.by_digest(digest)

    def _announce(self, version: PlaybookVersion) -> None:
        """Let `latest` be at least `version`."""
        summary = _summary(version)
        self._put(
            {"pk": {"S": "latest"}, "sk": {"S": version.path}, **summary},
            ConditionExpression=IS_LATER,
            ExpressionAttributeValues={":version": summary["version"]},
        )

    def _latest(self, path: str) -> PlaybookVersion | None:
        items = self._query(
            limit=1,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": f"p#{path}"}},
            ScanIndexForward=False,
            ConsistentRead=True,
            Limit=1,
        )
        return _version(items[0]) if items else None

    def get(self, path: str, version: int | None = None) -> PlaybookVersion:
        if len(path.encode("utf-8", "surrogatepass")) > MAX_KEY:
            raise NotFound(f"no playbook {path[:200]}...: no path is that long")
        if version is None:
            latest = self._latest(path)
            if latest is None:
                raise NotFound(f"no playbook {path}")
            return latest
        item = self._get(f"p#{path}", f"v#{version:08d}")
        if item is None:
            raise NotFound(f"no playbook {path} version {version}")
        return _version(item)

    def by_digest(self, digest: str) -> PlaybookVersion:
        item = self._get(f"d#{digest}", "source", consistent=False) or self._get(f"d#{digest}", "source")
        if item is None:
            raise NotFound(f"no playbook with digest {digest}")
        return _version(item)

    def versions(self, path: str) -> Sequence[PlaybookVersion]:
        found = self._query(
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": f"p#{path}"}},
            ConsistentRead=True,
        )
        return [_version(item) for item in found]

    def list(self, prefix: str = "") -> Sequence[PlaybookVersion]:
        values = {":pk": {"S": "latest"}}
        where = "pk = :pk"
        if prefix:
            values[":prefix"] = {"S": prefix}
            where += " AND begins_with(sk, :prefix)"
        found = self._query(KeyConditionExpression=where, ExpressionAttributeValues=values, ConsistentRead=True)
        return [_version(item) for item in found]


def _body(path: str, source: str) -> bytes:
    body = zlib.compress(source.encode(), 6)
    if len(body) > MAX_SOURCE:
        raise TooLarge(f"playbook {path} is {len(body)} bytes compressed; the catalog takes {MAX_SOURCE}")
    return body


def _summary(version: PlaybookVersion) -> dict[str, Any]:
    return {
        "path": {"S": version.path},
        "version": {"N": str(version.version)},
        "digest": {"S": version.digest},
        "registered_at": {"N": str(version.registered_at)},
    }


def _version(item: Item) -> PlaybookVersion:
    source = zlib.decompress(bytes(item["source"]["B"])).decode() if "source" in item else ""
    return PlaybookVersion(
        item["path"]["S"], int(item["version"]["N"]), item["digest"]["S"], source, int(item["registered_at"]["N"])
    )


@dataclass(frozen=True, slots=True)
class _Partition:
    """Heads of one status (and path) in one shard, from `since` to `newest`."""

    status: str
    path: str | None
    shard: int
    since: str
    newest: str

    def query(self, values: dict[str, Any]) -> dict[str, Any]:
        index, partition, sort, sorts_by = "heads", "list", "listed_at", ""
        key = f"heads#{self.status}#{self.shard}"
        if self.path is not None:
            index, partition, sort, sorts_by = "heads_by_path", "path_list", "status_at", f"{self.status}#"
            key = f"{self.path}#{self.shard}"
        bounds = {":from": {"S": sorts_by + self.since}, ":to": {"S": sorts_by + self.newest}}
        return {
            "IndexName": index,
            "KeyConditionExpression": f"#partition = :partition AND {sort} BETWEEN :from AND :to",
            "ExpressionAttributeNames": {"#partition": partition},
            "ExpressionAttributeValues": {":partition": {"S": key}, **bounds, **values},
        }


class DynamoExecutionIndex(_Table):
    """`ExecutionIndex` on the catalog table."""

    def __init__(self, table: str, clock: Clock | None = None) -> None:
        super().__init__(table)
        self._clock = clock or SystemClock()

    def put_head(self, head: Head) -> None:
        shard = int(head.execution_id) % HEAD_SHARDS
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
        for name, number in (("finished_at", head.finished_at), ("expires_at", head.expires_at or None)):
            if number is not None:
                item[name] = {"N": str(number)}
        for name, value in (("error", head.error), ("parent", head.parent)):
            if value is not None:
                item[name] = {"S": json.dumps(value)}
        values: dict[str, Any] = {":updated_at": item["updated_at"]}
        if head.status in TERMINAL:
            self._put(item, ConditionExpression=ENDS, ExpressionAttributeValues=values)
            return
        values |= {f":{status}": {"S": status} for status in TERMINAL}
        names = {"#status": "status"}
        self._put(item, ConditionExpression=GOES_ON, ExpressionAttributeValues=values, ExpressionAttributeNames=names)

    def heads(
        self,
        status: str | None = None,
        path: str | None = None,
        since: int | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[Head]:
        newest = "~"  # behind every digit
        if before is not None:
            item = self._get(f"x#{before}", "head")
            if item is None:
                return []
            newest = item["listed_at"]["S"]
        statuses = HEAD_STATUSES if status is None else (status,)
        wanted = [_Partition(s, path, shard, f"{since or 0:020d}", newest) for s in statuses for shard in range(HEAD_SHARDS)]
        size = max(HEADS_PAGE, limit if len(wanted) == HEAD_SHARDS else limit // 4) + 1
        with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
            first = list(pool.map(lambda partition: self._heads_page(partition, size), wanted))
        streams = [self._heads_of(partition, size, page) for partition, page in zip(wanted, first, strict=True)]
        listed = heapq.merge(*streams, key=lambda item: str(item["listed_at"]["S"]), reverse=True)
        return [_head(item) for item in islice((i for i in listed if i["listed_at"]["S"] != newest), limit)]

    def _heads_of(self, partition: _Partition, size: int, page: Item) -> Iterator[Item]:
        """Yield the heads of a partition, newest first, after its first `page`."""
        yield from page["Items"]
        while "LastEvaluatedKey" in page:
            page = self._heads_page(partition, size, ExclusiveStartKey=page["LastEvaluatedKey"])
            yield from page["Items"]

    def _heads_page(self, partition: _Partition, size: int, **more: Any) -> Item:
        with errors_of("catalog read"):
            found: Item = client("dynamodb").query(
                TableName=self._table,
                FilterExpression=LIVES,
                ScanIndexForward=False,
                Limit=size,
                **partition.query({":now": {"N": str(self._clock.now() // SECOND)}}),
                **more,
            )
        return found

    def head(self, execution_id: str) -> Head | None:
        item = self._get(f"x#{execution_id}", "head")
        return None if item is None else _head(item)

    def set_due(self, execution_id: str, at: int, seen: int | None = None) -> None:
        self._put(_due_item(execution_id, at), **({} if seen is None else _unmoved(seen)))

    def claim_due(self, due: Due, at: int) -> int | None:
        try:
            with errors_of("claim due"):
                before = client("dynamodb").put_item(
                    TableName=self._table, Item=_due_item(due.execution_id, at, 1), ReturnValues="ALL_OLD", **_unmoved(due.at)
                )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            return None
        attempts = 1 + int(before.get("Attributes", {}).get("looks", {"N": "0"})["N"])
        if attempts > 1:  # rare: what looked before has died; no read before every look to know it
            self._put(_due_item(due.execution_id, at, attempts), **_unmoved(at))
        return attempts

    def clear_due(self, execution_id: str) -> None:
        with errors_of("clear due"):
            client("dynamodb").delete_item(
                TableName=self._table, Key={"pk": {"S": _shard(execution_id)}, "sk": {"S": execution_id}}
            )

    def due(self, now: int) -> Iterator[Due]:
        return heapq.merge(*(self._due_of(shard, now) for shard in range(DUE_SHARDS)))

    def _due_of(self, shard: int, now: int) -> Iterator[Due]:
        request: dict[str, Any] = {
            "TableName": self._table,
            "IndexName": "by_due",
            "KeyConditionExpression": "pk = :pk AND due_at <= :now",
            "ExpressionAttributeValues": {":pk": {"S": f"due#{shard}"}, ":now": {"N": str(now)}},
            "ConsistentRead": True,
            "Limit": DUE_PAGE,
        }
        while True:
            with errors_of("catalog read"):
                page = client("dynamodb").query(**request)
            yield from sorted(Due(int(i["due_at"]["N"]), i["sk"]["S"]) for i in page["Items"])
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def _due_item(execution_id: str, at: int, attempts: int = 0) -> dict[str, Any]:
    item = {"pk": {"S": _shard(execution_id)}, "sk": {"S": execution_id}, "due_at": {"N": str(at)}}
    return {**item, "looks": {"N": str(attempts)}} if attempts else item


def _unmoved(at: int) -> dict[str, Any]:
    return {"ConditionExpression": "due_at = :seen", "ExpressionAttributeValues": {":seen": {"N": str(at)}}}


def _shard(execution_id: str) -> str:
    return f"due#{int(execution_id) % DUE_SHARDS}"


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
    )


class DynamoGates(_Table):
    """`Gates` on the catalog table: half a read unit per read (eventually consistent)."""

    def __init__(self, table: str, clock: Clock | None = None) -> None:
        super().__init__(table)
        self._clock = clock or SystemClock()

    def gate(self, execution_id: str) -> Gate:
        item = self._get(f"x#{execution_id}", "gate", consistent=False)
        expires_at = 0 if item is None else int(item.get("expires_at", {"N": "0"})["N"])
        if item is None or 0 < expires_at < self._clock.now() // SECOND:
            return Gate()
        return Gate(item["mode"]["S"], frozenset(item.get("stopped_runs", {"SS": []})["SS"]), expires_at)

    def set_gate(self, execution_id: str, gate: Gate) -> None:
        item: dict[str, Any] = {"pk": {"S": f"x#{execution_id}"}, "sk": {"S": "gate"}, "mode": {"S": gate.mode}}
        if gate.stopped_runs:
            item["stopped_runs"] = {"SS": sorted(gate.stopped_runs)}
        if gate.expires_at:
            item["expires_at"] = {"N": str(gate.expires_at)}
        self._put(item)
