"""Values behind pointers and references, for decisions and for readers: fetched by the shell, bounded, cached per use."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from noetl_core.engine.records import StreamId
from noetl_core.engine.routing import Need, NeedValues, TooMuch, Unreadable
from noetl_core.ports import CorruptLog, EventStore, NotFound, ResultStore

MAX_DECISION_BYTES = 8 * 1024 * 1024
"""What a guard or an argument may read behind one reference; more is the author's error (`kind: limit`)."""


AT_ONCE = 8
"""Reads of one decision or manifest that are made together."""

T = TypeVar("T")
R = TypeVar("R")


def at_once(read: Callable[[T], R], what: Sequence[T]) -> Iterator[R]:
    """`read` of each, in order; several at a time when there are many, because each waits for a service."""
    if len(what) <= AT_ONCE:
        yield from map(read, what)
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(read, what)


class Values:
    """Loads what `Need`s and stored pointers stand for, of one execution."""

    def __init__(
        self, store: EventStore, results: ResultStore, execution_id: str, limit: int | None = MAX_DECISION_BYTES
    ) -> None:
        self._store = store
        self._results = results
        self._execution_id = execution_id
        self._limit = limit
        self._unstored: dict[str, bytes] = {}

    def supply(self, known: dict[Need, Any], missing: NeedValues) -> None:
        """Fetch what a decision asks for into what it knows."""
        self._unstored.update(missing.objects)
        for need, value in zip(missing.needs, at_once(self, missing.needs), strict=True):
            known[need[:3] if need[0] == "boundary" else need[:2]] = value

    def __call__(self, need: Need) -> Any:
        """The value of `("boundary", run, seq)` or `("object", key, ref)`."""
        if need[0] == "boundary":
            return self.boundary(need[1], need[2])
        ref = need[2]
        size = int(ref.get("size") or 0)
        if self._limit is not None and size > self._limit:
            return TooMuch(size)
        try:
            return self.reference(ref)
        except (NotFound, ValueError) as error:
            return Unreadable(f"reference {ref['key']}: {error}")

    def boundary(self, run_id: str, seq: int) -> Mapping[str, Any]:
        """Data of the last event of a run's commit."""
        commits = self._store.read(StreamId(self._execution_id, run_id), after=seq - 1, limit=1)
        if not commits:
            raise CorruptLog(f"run {run_id} of execution {self._execution_id} has no commit {seq}")
        return commits[0].events[-1].data

    def at(self, at: Mapping[str, Any] | None) -> Any:
        """What a stored result pointer (`{run, seq}` or `{value}`) stands for; references stay references."""
        if at is None:
            return None
        return at["value"] if "value" in at else self.boundary(at["run"], at["seq"]).get("result")

    def reference(self, ref: Mapping[str, Any]) -> Any:
        """The value of a `result_ref` (resolution 22)."""
        body = self._unstored.get(ref["key"]) or self._results.get(ref["key"])
        if ref.get("schema_hint") == "manifest":
            owner = str(ref["key"]).partition("/")[0]  # a child's result names runs of the child
            values = self if owner == self._execution_id else Values(self._store, self._results, owner, self._limit)
            return [item for part in at_once(values._part, json.loads(body)) for item in part]
        if ref.get("format") == "jsonl" or str(ref["key"]).endswith(".jsonl"):
            return [json.loads(line) for line in body.splitlines() if line.strip()]
        return json.loads(body)

    def _part(self, part: Mapping[str, Any]) -> Any:
        """One chunk's results, in index order."""
        result = part["result"] if "result" in part else self.boundary(part["run"], part["seq"]).get("result")
        if isinstance(result, Mapping) and result.get("kind") == "result_ref":
            return self.reference(result)
        return result or []
