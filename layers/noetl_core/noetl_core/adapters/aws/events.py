"""The event log in DynamoDB: one conditional PutItem per commit (docs/architecture.md, "Storage").

| key space | pk | sk | writer |
|---|---|---|---|
| control stream | `m#<execution_id>` | `<seq>`, zero-padded | control plane |
| run streams | `r#<execution_id>#<hash(run) mod 8>` | `<run_id>#<seq>` | the worker that holds the run; control, to fence |
| snapshots | `s#<execution_id>` | `<seq>`; older versions: `snapshot`, only the newest | control plane |

Header attributes: `v`, `execution_id`, `ts`, `writer`; `lease_until` and `expires_at` if set; in run streams the tally of the
stream: `events`, `in_vain` (takeovers without progress), `aggregates` or `progress` (of the iterations of a running loop);
`wake` only if true, because the stream filter selects by its presence; `asks` only if true; and `body`, or `body_key` if the
body is in S3.

TTL deletes up to days late, in no order. Therefore readers ignore expired items, and writers may overwrite them.
"""

from __future__ import annotations

import base64
import json
import logging
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import code_of, errors_of
from noetl_core.adapters.aws.table import query_pages
from noetl_core.adapters.clock import SystemClock
from noetl_core.aws import direct_requests
from noetl_core.engine.records import Commit, Snapshot, StreamId, Tally
from noetl_core.log.codec import decode_events, decode_progress, encode_events, encode_progress
from noetl_core.log.stored_commits import StoredCommits
from noetl_core.ports import Clock, Conflict, CorruptLog, NotFound, ResultStore
from noetl_core.values.instants import SECOND

log = logging.getLogger(__name__)

SPREAD = 8
"""Partitions of an execution's run streams, so that busy loops do not throttle routing."""
MAX_BODY = 300 * 1024
"""A larger body goes to S3 first (DynamoDB items end at 400 KB)."""
DIGITS = 10
Item = Mapping[str, Any]

IS_FREE = "attribute_not_exists(pk) OR expires_at < :now"
IS_OF_ANOTHER_REDUCER = f"{IS_FREE} OR reducer <> :reducer"
NEWEST_ALONE = "snapshot"
"""The sort key of the only snapshot that older versions kept. It sorts after all positions."""


def partition(stream: StreamId) -> str:
    """Return the partition key of a stream."""
    if stream.run_id is None:
        return f"m#{stream.execution_id}"
    return f"r#{stream.execution_id}#{blake2b(stream.run_id.encode(), digest_size=2).digest()[0] % SPREAD}"


def sort_key(stream: StreamId, seq: int) -> str:
    """Return the sort key of a position; it is zero-padded, so that text order is the order of positions."""
    return f"{seq:0{DIGITS}d}" if stream.run_id is None else f"{stream.run_id}#{seq:0{DIGITS}d}"


class DynamoEventStore:
    """`EventStore` on the events table; `results` stores bodies that exceed an item."""

    def __init__(self, table: str, results: ResultStore, clock: Clock | None = None) -> None:
        self._table, self._results, self._clock = table, results, clock or SystemClock()

    def append(self, commit: Commit) -> None:
        item = self._item(commit)
        try:
            with errors_of(f"append {commit.stream}"):
                direct_requests.put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression=IS_FREE,
                    ExpressionAttributeValues={":now": self._now()},
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            held: Any = error.response.get("Item") or self._get(commit.stream, commit.seq)
            if held and held["writer"]["S"] == commit.writer:
                return  # our own earlier write, whose answer was lost
            existing = _decode(held, self._results) if held else None
            raise Conflict(f"{commit.stream} position {commit.seq} is taken", existing) from error

    def _now(self) -> dict[str, str]:
        """Return seconds since the epoch, as in `expires_at`."""
        return {"N": str(self._clock.now() // SECOND)}

    def _lives(self, item: Item) -> bool:
        return "expires_at" not in item or int(item["expires_at"]["N"]) >= self._clock.now() // SECOND

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
        if commit.asks:
            item["asks"] = {"N": "1"}
        if commit.lease_until:
            item["lease_until"] = {"N": str(commit.lease_until)}
        if commit.expires_at:
            item["expires_at"] = {"N": str(commit.expires_at)}
        if commit.tally is not None:
            item["events"] = {"N": str(commit.tally.events)}
            if commit.tally.takeovers_without_progress:
                item["in_vain"] = {"N": str(commit.tally.takeovers_without_progress)}
            if commit.tally.aggregates is not None:
                item["aggregates"] = {"S": json.dumps(commit.tally.aggregates, separators=(",", ":"))}
            if commit.tally.progress is not None:
                item["progress"] = {"S": encode_progress(commit.tally.progress)}
        body = encode_events(commit.events, compress=True)
        if len(body) > MAX_BODY:
            name = f"{commit.stream.run_id or 'control'}-{commit.seq}-{commit.writer}"
            ref = self._results.put(f"{commit.stream.execution_id}/commits/{name}", body, "application/octet-stream")
            item["body_key"] = {"S": ref["key"]}
        else:
            item["body"] = {"B": body}
        return item

    def _get(self, stream: StreamId, seq: int) -> Item | None:
        key = {"pk": {"S": partition(stream)}, "sk": {"S": sort_key(stream, seq)}}
        with errors_of(f"read {stream}"):
            found: Item | None = direct_requests.get_item(TableName=self._table, Key=key, ConsistentRead=True).get("Item")
        return found

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Sequence[Commit]:
        if limit == 1:
            item = self._get(stream, after + 1)
            items = [] if item is None else [item]
        else:
            items = self._query(stream, after, limit)
        living = [item for item in items if self._lives(item)]
        for place, item in enumerate(living, start=after + 1):
            if item["sk"]["S"] != sort_key(stream, place):
                raise CorruptLog(f"{stream}: position {place} is missing")
        return StoredCommits(living, partial(_decode, results=self._results))

    def _query(self, stream: StreamId, after: int, limit: int | None, *, newest: bool = False) -> list[Item]:
        pages = query_pages(
            f"read {stream}",
            limit,
            TableName=self._table,
            KeyConditionExpression="pk = :pk AND sk BETWEEN :first AND :last",
            ExpressionAttributeValues={
                ":pk": {"S": partition(stream)},
                ":first": {"S": sort_key(stream, after + 1)},
                ":last": {"S": sort_key(stream, 10**DIGITS - 1)},
            },
            ConsistentRead=True,
            ScanIndexForward=not newest,
        )
        return [item for page in pages for item in page["Items"]]

    def last(self, stream: StreamId) -> Commit | None:
        items = self._query(stream, -1, 1, newest=True)
        if not items:
            return None
        if self._lives(items[0]):
            return _decode(items[0], self._results)
        whole = self.read(stream)  # a new log may begin among undeleted items of an expired one
        return whole[-1] if whole else None

    def save_snapshot(self, snapshot: Snapshot) -> int:
        text = json.dumps(snapshot.state, separators=(",", ":")).encode()
        body = zlib.compress(text, 6)
        item: dict[str, Any] = {
            "pk": {"S": f"s#{snapshot.execution_id}"},
            "sk": {"S": f"{snapshot.seq:0{DIGITS}d}"},
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
        try:
            with errors_of("save snapshot"):
                direct_requests.put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression=IS_OF_ANOTHER_REDUCER,
                    ExpressionAttributeValues={":reducer": item["reducer"], ":now": self._now()},
                )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
        return len(text)

    def load_snapshot(self, execution_id: str, upto: int | None = None) -> Snapshot | None:
        item = self._snapshot(execution_id, NEWEST_ALONE if upto is None else f"{upto:0{DIGITS}d}")
        if item is not None and item["sk"]["S"] == NEWEST_ALONE:
            item = self._snapshot(execution_id, "9" * DIGITS) or item
        if item is None:
            return None
        try:
            body = item["body"]["B"] if "body" in item else self._results.get(item["body_key"]["S"])
            text = zlib.decompress(body)
            state = json.loads(text)
        except (NotFound, ValueError, zlib.error):
            log.warning("the snapshot of execution %s cannot be read; the execution's log is read from the start", execution_id)
            return None
        return Snapshot(execution_id, int(item["seq"]["N"]), int(item["reducer"]["N"]), state, len(text))

    def _snapshot(self, execution_id: str, last: str) -> Item | None:
        """Return the newest snapshot item up to the sort key `last`. Expired items lie between only if the id of an execution was
        used again."""
        pages = query_pages(
            "load snapshot",
            TableName=self._table,
            KeyConditionExpression="pk = :pk AND sk <= :last",
            ExpressionAttributeValues={":pk": {"S": f"s#{execution_id}"}, ":last": {"S": last}},
            ScanIndexForward=False,
            Limit=1,
        )
        return next((item for page in pages for item in page["Items"] if self._lives(item)), None)


def _decode(item: Item, results: ResultStore) -> Commit:
    """Return the commit of an item, which a client read or Lambda delivered (binary as base64).

    Raises `NewerLog` if newer code wrote it, `CorruptLog` if it cannot be read.
    """
    try:
        run, _, position = item["sk"]["S"].rpartition("#")
        v = int(item["v"]["N"])
        return Commit(
            stream=StreamId(item["execution_id"]["S"], run or None),
            seq=int(position),
            ts=int(item["ts"]["N"]),
            writer=item["writer"]["S"],
            events=decode_events(_body(item, results), v),
            wake="wake" in item,
            lease_until=_number(item, "lease_until"),
            expires_at=_number(item, "expires_at"),
            v=v,
            tally=_tally(item),
            asks="asks" in item,
        )
    except (NotFound, LookupError, AttributeError, TypeError, ValueError) as error:
        where = " ".join(item.get(k, {}).get("S", "?") for k in ("pk", "sk"))
        raise CorruptLog(f"the commit at {where} cannot be read: {error!r}") from error


def _tally(item: Item) -> Tally | None:
    if "events" not in item:
        return None
    aggregates = json.loads(item["aggregates"]["S"]) if "aggregates" in item else None
    progress = decode_progress(item["progress"]["S"]) if "progress" in item else None
    return Tally(_number(item, "events"), _number(item, "in_vain"), aggregates, progress)


def _body(item: Item, results: ResultStore) -> bytes:
    if "body" not in item:
        return results.get(item["body_key"]["S"])
    body = item["body"]["B"]
    return base64.b64decode(body, validate=True) if isinstance(body, str) else bytes(body)


def _number(item: Item, name: str) -> int:
    return int(item[name]["N"]) if name in item else 0


def commit_from_image(image: Item, results: ResultStore) -> Commit | None:
    """Return the commit of a stream record's NewImage; None for an item of another key space (snapshots). Raises as
    `_decode`."""
    return _decode(image, results) if image["pk"]["S"].startswith(("m#", "r#")) else None
