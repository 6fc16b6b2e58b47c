"""The event log in DynamoDB: one conditional PutItem per commit (DESIGN section 3).

| key space | pk | sk | writer |
|---|---|---|---|
| control stream | `m#<execution_id>` | `<seq>`, zero-padded | control plane |
| run streams | `r#<execution_id>#<hash(run) mod 8>` | `<run_id>#<seq>` | the worker that holds the run; control, to fence |
| snapshot | `s#<execution_id>` | `snapshot` | control plane |
"""

from __future__ import annotations

import base64
import json
import time
import zlib
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import client, code_of, errors_of
from noetl_core.codec import decode_events, encode_events
from noetl_core.engine.records import Commit, Snapshot, StreamId
from noetl_core.ports import Conflict, CorruptLog, ResultStore

SPREAD = 8
"""Partitions of an execution's run streams, so that busy loops do not throttle routing."""
MAX_BODY = 300 * 1024
"""A larger body goes to S3 first (DynamoDB items end at 400 KB)."""
DIGITS = 10


def partition(stream: StreamId) -> str:
    """Partition key of a stream."""
    if stream.run_id is None:
        return f"m#{stream.execution_id}"
    return f"r#{stream.execution_id}#{blake2b(stream.run_id.encode(), digest_size=2).digest()[0] % SPREAD}"


def sort_key(stream: StreamId, seq: int) -> str:
    """Sort key of a position; zero-padded, so that text order is the order of positions."""
    return f"{seq:0{DIGITS}d}" if stream.run_id is None else f"{stream.run_id}#{seq:0{DIGITS}d}"


class DynamoEventStore:
    """`EventStore` on the events table; `results` takes bodies that exceed an item."""

    def __init__(self, table: str, results: ResultStore) -> None:
        self._table, self._results = table, results

    def append(self, commit: Commit) -> None:
        item = self._item(commit)
        try:
            with errors_of(f"append {commit.stream}"):
                client("dynamodb").put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression="attribute_not_exists(pk)",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            held = error.response.get("Item") or self._get(commit.stream, commit.seq)
            if held and held["writer"]["S"] == commit.writer:
                return  # our own write, whose answer was lost
            existing = self._commit(held) if held else None
            raise Conflict(f"{commit.stream} position {commit.seq} is taken", existing) from error

    def _item(self, commit: Commit) -> dict[str, Any]:
        item: dict[str, Any] = {
            "pk": {"S": partition(commit.stream)},
            "sk": {"S": sort_key(commit.stream, commit.seq)},
            "v": {"N": str(commit.v)},
            "execution_id": {"S": commit.stream.execution_id},
            "ts": {"N": str(commit.ts)},
            "writer": {"S": commit.writer},
        }
        if commit.wake:
            item["wake"] = {"N": "1"}
        if commit.lease_until:
            item["lease_until"] = {"N": str(commit.lease_until)}
        if commit.expires_at:
            item["expires_at"] = {"N": str(commit.expires_at)}
        body = encode_events(commit.events, compress=True)
        if len(body) > MAX_BODY:
            name = f"{commit.stream.run_id or 'control'}-{commit.seq}-{commit.writer}"
            ref = self._results.put(f"{commit.stream.execution_id}/commits/{name}", body, "application/octet-stream")
            item["body_key"] = {"S": ref["key"]}
        else:
            item["body"] = {"B": body}
        return item

    def _get(self, stream: StreamId, seq: int) -> Mapping[str, Any] | None:
        key = {"pk": {"S": partition(stream)}, "sk": {"S": sort_key(stream, seq)}}
        with errors_of(f"read {stream}"):
            found: Mapping[str, Any] | None = (
                client("dynamodb").get_item(TableName=self._table, Key=key, ConsistentRead=True).get("Item")
            )
        return found

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Sequence[Commit]:
        if limit == 1:
            item = self._get(stream, after + 1)
            commits = [self._commit(item)] if item and not _expired(item) else []
        else:
            commits = [self._commit(i) for i in self._query(stream, after, limit) if not _expired(i)]
        for place, commit in enumerate(commits, start=after + 1):
            if commit.seq != place:
                raise CorruptLog(f"{stream}: position {place} is missing")
        return commits

    def _query(self, stream: StreamId, after: int, limit: int | None, *, newest: bool = False) -> list[Mapping[str, Any]]:
        request: dict[str, Any] = {
            "TableName": self._table,
            "KeyConditionExpression": "pk = :pk AND sk BETWEEN :a AND :b",
            "ExpressionAttributeValues": {
                ":pk": {"S": partition(stream)},
                ":a": {"S": sort_key(stream, after + 1)},
                ":b": {"S": sort_key(stream, 10**DIGITS - 1)},
            },
            "ConsistentRead": True,
            "ScanIndexForward": not newest,
        }
        items: list[Mapping[str, Any]] = []
        while True:
            if limit is not None:
                request["Limit"] = limit - len(items)
            with errors_of(f"read {stream}"):
                page = client("dynamodb").query(**request)
            items += page["Items"]
            if "LastEvaluatedKey" not in page or (limit is not None and len(items) >= limit):
                return items
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def last(self, stream: StreamId) -> Commit | None:
        items = self._query(stream, -1, 1, newest=True)
        return self._commit(items[0]) if items and not _expired(items[0]) else None

    def _commit(self, item: Mapping[str, Any]) -> Commit:
        return _decode(item, self._results)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        body = zlib.compress(json.dumps(snapshot.state, separators=(",", ":")).encode(), 6)
        item: dict[str, Any] = {
            "pk": {"S": f"s#{snapshot.execution_id}"},
            "sk": {"S": "snapshot"},
            "seq": {"N": str(snapshot.seq)},
            "reducer": {"N": str(snapshot.reducer)},
        }
        if snapshot.state.get("expires_at"):
            item["expires_at"] = {"N": str(snapshot.state["expires_at"])}
        if len(body) > MAX_BODY:
            ref = self._results.put(f"{snapshot.execution_id}/snapshots/{snapshot.seq}", body, "application/octet-stream")
            item["body_key"] = {"S": ref["key"]}
        else:
            item["body"] = {"B": body}
        is_newer = "attribute_not_exists(pk) OR seq < :seq"
        try:
            with errors_of("save snapshot"):
                client("dynamodb").put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression=is_newer,
                    ExpressionAttributeValues={":seq": item["seq"]},
                )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise

    def load_snapshot(self, execution_id: str) -> Snapshot | None:
        key = {"pk": {"S": f"s#{execution_id}"}, "sk": {"S": "snapshot"}}
        with errors_of("load snapshot"):
            item = client("dynamodb").get_item(TableName=self._table, Key=key).get("Item")
        if not item or _expired(item):
            return None
        body = item["body"]["B"] if "body" in item else self._results.get(item["body_key"]["S"])
        return Snapshot(execution_id, int(item["seq"]["N"]), int(item["reducer"]["N"]), json.loads(zlib.decompress(body)))


def _expired(item: Mapping[str, Any]) -> bool:
    """TTL deletes late; readers treat expired as absent."""
    return "expires_at" in item and int(item["expires_at"]["N"]) < time.time()


def _decode(item: Mapping[str, Any], results: ResultStore) -> Commit:
    pk, sk = item["pk"]["S"], item["sk"]["S"]
    run, _, position = sk.rpartition("#")
    stream = StreamId(item["execution_id"]["S"], run if pk.startswith("r#") else None)
    v = int(item["v"]["N"])
    if "body" in item:
        body = item["body"]["B"]
        if isinstance(body, str):  # as Lambda delivers stream records
            body = base64.b64decode(body)
    else:
        body = results.get(item["body_key"]["S"])
    return Commit(
        stream=stream,
        seq=int(position),
        ts=int(item["ts"]["N"]),
        writer=item["writer"]["S"],
        events=decode_events(bytes(body), v),
        wake="wake" in item,
        lease_until=int(item.get("lease_until", {"N": "0"})["N"]),
        expires_at=int(item.get("expires_at", {"N": "0"})["N"]),
        v=v,
    )


def commit_from_image(image: Mapping[str, Any], results: ResultStore) -> Commit | None:
    """The commit of a stream record's NewImage; None for an item of another key space (snapshots)."""
    if not image["pk"]["S"].startswith(("m#", "r#")):
        return None
    return _decode(image, results)
