"""The catalog in memory: playbooks, heads and due items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from noetl_core.engine.heads import is_found
from noetl_core.engine.statuses import TERMINAL
from noetl_core.ports import (
    Conflict,
    Due,
    Head,
    NotFound,
    PathRecord,
    PlaybookVersion,
)
from tests.sim.ports import Faults


@dataclass
class SimCatalog:
    by_path: dict[str, list[PlaybookVersion]] = field(default_factory=dict)
    pinned: dict[str, PlaybookVersion] = field(default_factory=dict)
    paths: dict[str, PathRecord] = field(default_factory=dict)

    def pin(self, path: str, digest: str, source: str, now: int) -> PlaybookVersion:
        self.pinned.setdefault(digest, PlaybookVersion(path, 0, digest, source, now))
        return self.by_digest(digest)

    def register(self, path: str, digest: str, source: str, now: int) -> PlaybookVersion:
        versions = self.by_path.setdefault(path, [])
        if not versions or versions[-1].digest != digest:
            versions.append(PlaybookVersion(path, len(versions) + 1, digest, source, now))
        return versions[-1]

    def get(self, path: str, version: int | None = None) -> PlaybookVersion:
        versions = self.by_path.get(path)
        if not versions or (version is not None and not 1 <= version <= len(versions)):
            raise NotFound(f"no playbook {path} version {version}")
        return versions[-1 if version is None else version - 1]

    def by_digest(self, digest: str) -> PlaybookVersion:
        for versions in self.by_path.values():
            for version in versions:
                if version.digest == digest:
                    return version
        if digest in self.pinned:
            return self.pinned[digest]
        raise NotFound(digest)

    def versions(self, path: str) -> Sequence[PlaybookVersion]:
        return self.by_path.get(path, [])

    def list(self, prefix: str = "") -> Sequence[PlaybookVersion]:
        return [v[-1] for p, v in sorted(self.by_path.items()) if p.startswith(prefix)]

    def about(self, path: str, *, fresh: bool = True) -> PathRecord:
        return self.paths.get(path, PathRecord(path))

    def put_about(self, record: PathRecord) -> None:
        if self.about(record.path).revision != record.revision - 1:
            raise Conflict(f"somebody else has changed {record.path} meanwhile")
        self.paths[record.path] = record

    def all_about(self, prefix: str = "") -> Sequence[PathRecord]:
        return [record for path, record in sorted(self.paths.items()) if path.startswith(prefix)]


def _place(head: Head) -> tuple[int, str]:
    return head.started_at, head.execution_id


@dataclass
class SimIndex:
    faults: Faults
    all_heads: dict[str, Head] = field(default_factory=dict)
    due_at: dict[str, int] = field(default_factory=dict)
    looks: Counter[str] = field(default_factory=Counter)

    def put_head(self, head: Head) -> None:
        def put() -> None:
            old = self.all_heads.get(head.execution_id)
            undone = old is not None and old.status in TERMINAL and head.status not in TERMINAL
            if old is None or old.updated_at < head.updated_at or (old.updated_at == head.updated_at and not undone):
                self.all_heads[head.execution_id] = head

        self.faults.around(put)

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
        return [
            h
            for h in sorted(self.all_heads.values(), key=_place, reverse=not oldest_first)
            if (status is None or h.status == status)
            and (path is None or h.path == path)
            and (since is None or h.started_at >= since)
            and is_found(h, where or {})
            and (before is None or (_place(h) > _place(self.all_heads[before])) == oldest_first)
            and h.execution_id != before
        ][:limit]

    def head(self, execution_id: str) -> Head | None:
        return self.faults.around(lambda: self.all_heads.get(execution_id))

    def set_due(self, execution_id: str, at: int, seen: int | None = None) -> None:
        def put() -> None:
            if seen is None or self.due_at.get(execution_id) == seen:
                self.due_at[execution_id] = at
                self.looks.pop(execution_id, None)

        self.faults.around(put)

    def claim_due(self, due: Due, at: int) -> int | None:
        def claim() -> int | None:
            if self.due_at.get(due.execution_id) != due.at:
                return None
            self.due_at[due.execution_id] = at
            self.looks[due.execution_id] += 1
            return self.looks[due.execution_id]

        return self.faults.around(claim)

    def clear_due(self, execution_id: str) -> None:
        def clear() -> None:
            self.due_at.pop(execution_id, None)
            self.looks.pop(execution_id, None)

        self.faults.around(clear)

    def due(self, now: int) -> Iterator[Due]:
        return iter(self.faults.around(lambda: sorted(Due(at, x) for x, at in self.due_at.items() if at <= now)))
