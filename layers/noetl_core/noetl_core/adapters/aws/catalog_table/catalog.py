"""Playbooks, heads, due items and gates in the catalog table.

| what | pk | sk | more |
|---|---|---|---|
| playbook version | `p#<path>` | `v#<version>` | |
| latest version of a path | `latest` | `<path>` | moves |
| record of a path | `about` | `<path>` | aliases, tags, whether it is deleted; `revision` |
| content by digest | `d#<digest>` | `source` | written once (again when content that was only pinned is registered) |
| head | `x#<execution_id>` | `head` | `list`, `listed_at`: the sparse index `heads`, by status, in partitions |
| | | | `path_list`, `status_at`: the sparse index `heads_by_path`, in partitions |
| search attribute | `w#<name>=<value>#<partition>` | as `listed_at` | its execution has or had this value (the head says) |
| gate | `x#<execution_id>` | `gate` | |
| due | `due#<partition>` | `<execution_id>` | `due_at`: the local index `by_due`; `looks`: attempts that did not end |
| trigger | `trigger#<partition>` | `<path>#<name>` | written under its revision |
| change of triggers that take deliveries | `trigger#news` | `revision` | `told`: a new value after each change |
| outcome of an occurrence | `fired#<path>#<name>` | `<instant>#<occurrence>` | expires |
| refused delivery | `refused` | `<id>`, which begins with its instant | expires |
| entry of a task | `kv#<bucket>` | `<key>` | `key_values`: only workers access it |
| limit | `limit#<0-15>` | `<key>` | the holders of places, and a revision for conditional writes (`limits`) |
| waiter for a limit | `waits#<key>` | priority, instant, holder | sorted by turn |
| rate of tasks | `rate#<0-7>` | `<key>` | `free_at`: the end of the last reservation (`rates`); only workers write it |
| rate of requests to a webhook | `requests#<path>/<name>` | `rate` | `free_at` (`rates`); only the hooks function writes it |
| output of running tasks | `running#<execution_id>` | `<run>` | `tasks`, expires (`output`); only workers write it |
| access token | `token#<digest>` | `token` | encrypted (`tokens`); only workers write it, and only they can open it |
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Generic, TypeVar

from cachetools import FIFOCache

from noetl_core.adapters import path_records
from noetl_core.adapters.aws.table import IS_FREE, Item, Table
from noetl_core.ports import Conflict, NotFound, PathRecord, PlaybookVersion, TooLarge

MAX_SOURCE = 380 * 1024
"""The most bytes of a compressed playbook in an item."""
KEPT = 64
"""Registered versions, and paths, that a process caches. All starts of a playbook read one partition, which gives 3,000 units a
second."""
ABOUT_S = 5.0
"""Seconds for which a process caches the record of a path, for reads that need not be fresh. A start of a playbook then costs no
additional read."""
MAX_KEY = 1024
"""The most bytes of a path. DynamoDB refuses longer sort keys, and such requests would be retried in vain."""

K = TypeVar("K")
V = TypeVar("V")

IS_ONLY_PINNED = f"{IS_FREE} OR version = :pinned"
IS_LATER = f"{IS_FREE} OR version < :version"


class _Cache(Generic[K, V]):
    """A cache of `KEPT` entries for several threads. The oldest entry leaves it first."""

    def __init__(self) -> None:
        self._entries: FIFOCache[K, V] = FIFOCache(KEPT)
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            return self._entries.get(key)

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._entries[key] = value


class DynamoPlaybookCatalog(Table):
    """`PlaybookCatalog` on the catalog table. A registered version never changes, so a process reads it once."""

    def __init__(self, table: str, age: Callable[[], float] = time.monotonic) -> None:
        super().__init__(table)
        self._kept = _Cache[tuple[str, str], PlaybookVersion]()
        self._newest = _Cache[str, PlaybookVersion]()
        """The newest version of each path that this process has read or registered; there may be newer ones."""
        self._announced = _Cache[str, int]()
        """The version of each path that `latest` is known to show, or a newer one."""
        self._about = _Cache[str, tuple[float, PathRecord]]()
        self._age = age

    def register(self, path: str, digest: str, source: str, now: int) -> PlaybookVersion:
        while True:
            latest = self._latest(path)
            if latest is not None and latest.digest == digest:
                if (self._announced.get(path) or 0) < latest.version:
                    summary = self.get_item("latest", path, consistent=False)
                    if summary is None or int(summary["version"]["N"]) < latest.version:
                        self._announce(latest)  # the process that registered it died before announcing it
                    self._announced.put(path, latest.version)
                return latest
            new = PlaybookVersion(path, latest.version + 1 if latest else 1, digest, source, now)
            item = {**_summary(new), "source": {"B": _body(path, source)}}
            content = {"pk": {"S": f"d#{digest}"}, "sk": {"S": "source"}, **item}
            self.put(content, ConditionExpression=IS_ONLY_PINNED, ExpressionAttributeValues={":pinned": {"N": "0"}})
            version = {"pk": {"S": f"p#{path}"}, "sk": {"S": f"v#{new.version:08d}"}, **item}
            if self.put(version, ConditionExpression=IS_FREE):
                self._announce(new)
                self._newest.put(path, new)
                self._announced.put(path, new.version)
                return new

    def pin(self, path: str, digest: str, source: str, now: int) -> PlaybookVersion:
        known = self._kept.get((f"d#{digest}", "source"))
        if known is not None:
            return known
        item = {**_summary(PlaybookVersion(path, 0, digest, source, now)), "source": {"B": _body(path, source)}}
        self.put({"pk": {"S": f"d#{digest}"}, "sk": {"S": "source"}, **item}, ConditionExpression=IS_FREE)
        return self.by_digest(digest)

    def _announce(self, version: PlaybookVersion) -> None:
        """Raise `latest` to `version`, unless it is newer."""
        summary = _summary(version)
        self.put(
            {"pk": {"S": "latest"}, "sk": {"S": version.path}, **summary},
            ConditionExpression=IS_LATER,
            ExpressionAttributeValues={":version": summary["version"]},
        )

    def _latest(self, path: str) -> PlaybookVersion | None:
        """Return the latest version. Versions are numbered without gaps and stay, so a version that has no successor is the
        latest: reading the absence of one item is cheaper than querying a version with its text."""
        known = self._newest.get(path)
        if known is not None and self.get_item(f"p#{path}", f"v#{known.version + 1:08d}") is None:
            return known
        items = self.query(
            limit=1,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": f"p#{path}"}},
            ScanIndexForward=False,
            ConsistentRead=True,
        )
        if not items:
            return None
        latest = _version(items[0])
        self._newest.put(path, latest)
        return latest

    def get(self, path: str, version: int | None = None) -> PlaybookVersion:
        if len(path.encode("utf-8", "surrogatepass")) > MAX_KEY:
            raise NotFound(f"there is no playbook {path[:200]}...: a path has at most {MAX_KEY} bytes")
        if version is None:
            latest = self._latest(path)
            if latest is None:
                raise NotFound(f"no playbook {path}")
            return latest
        found = self._read(f"p#{path}", f"v#{version:08d}")
        if found is None:
            raise NotFound(f"no playbook {path} version {version}")
        return found

    def by_digest(self, digest: str) -> PlaybookVersion:
        key = f"d#{digest}", "source"
        found = self._read(*key, consistent=False) or self._read(*key)
        if found is None:
            raise NotFound(f"no playbook with digest {digest}")
        return found

    def _read(self, pk: str, sk: str, *, consistent: bool = True) -> PlaybookVersion | None:
        kept = self._kept.get((pk, sk))
        if kept is not None:
            return kept
        item = self.get_item(pk, sk, consistent=consistent)
        if item is None:
            return None
        found = _version(item)
        if found.version:  # content that is only pinned may be registered later
            self._kept.put((pk, sk), found)
        return found

    def versions(self, path: str) -> Sequence[PlaybookVersion]:
        found = self.query(
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": f"p#{path}"}},
            ConsistentRead=True,
        )
        return [_version(item) for item in found]

    def list(self, prefix: str = "") -> Sequence[PlaybookVersion]:
        return [_version(item) for item in self._below("latest", prefix)]

    def _below(self, pk: str, prefix: str) -> Sequence[Item]:
        """Return the items of a partition whose sort keys start with `prefix`."""
        values = {":pk": {"S": pk}}
        where = "pk = :pk"
        if prefix:
            values[":prefix"] = {"S": prefix}
            where += " AND begins_with(sk, :prefix)"
        return self.query(KeyConditionExpression=where, ExpressionAttributeValues=values, ConsistentRead=True)

    def about(self, path: str, *, fresh: bool = True) -> PathRecord:
        known = self._about.get(path)
        if known is not None and not fresh and self._age() - known[0] < ABOUT_S:
            return known[1]
        if len(path.encode("utf-8", "surrogatepass")) > MAX_KEY:
            return PathRecord(path)
        item = self.get_item("about", path, consistent=fresh)
        return self._keep_about(PathRecord(path) if item is None else path_records.loads(item["record"]["S"]))

    def _keep_about(self, record: PathRecord) -> PathRecord:
        self._about.put(record.path, (self._age(), record))
        return record

    def put_about(self, record: PathRecord) -> None:
        item = {
            "pk": {"S": "about"},
            "sk": {"S": record.path},
            "revision": {"N": str(record.revision)},
            "record": {"S": path_records.dumps(record)},
        }
        before = {":before": {"N": str(record.revision - 1)}}
        condition: dict[str, Any] = {"ConditionExpression": IS_FREE}
        if record.revision > 1:
            condition = {"ConditionExpression": "revision = :before", "ExpressionAttributeValues": before}
        if not self.put(item, **condition):
            raise Conflict(f"somebody else has changed {record.path} meanwhile")
        self._keep_about(record)

    def all_about(self, prefix: str = "") -> Sequence[PathRecord]:
        return [path_records.loads(item["record"]["S"]) for item in self._below("about", prefix)]


def _body(path: str, source: str) -> bytes:
    body = zlib.compress(source.encode(), 6)
    if len(body) > MAX_SOURCE:
        raise TooLarge(f"playbook {path} has {len(body)} bytes when compressed; the catalog takes at most {MAX_SOURCE}")
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
