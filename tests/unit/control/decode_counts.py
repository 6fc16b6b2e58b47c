"""Counts the commits of a log that an answer decodes. Reading a commit is cheap; decoding it is what an answer costs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from noetl_core.adapters.local import events as adapter
from noetl_core.engine.records import Commit, StreamId
from noetl_core.events.event import AnyEvent
from noetl_core.log.codec import decode_events
from noetl_core.log.decoded_commits import RecentCommits
from noetl_core.ports import EventStore
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from tests.api_requests import ask


def observe_decoding(monkeypatch: pytest.MonkeyPatch, observe: Callable[[bytes, Sequence[AnyEvent]], None]) -> None:
    """Call `observe` with each body that a store of this machine decodes, and its events. Threads of other tests may decode, too."""

    def decode(body: bytes, v: int) -> tuple[AnyEvent, ...]:
        events = decode_events(body, v)
        observe(body, events)
        return events

    monkeypatch.setattr(adapter, "decode_events", decode)


def count_decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[bytes]:
    """Return a count, which grows, of each body that is decoded."""
    decoded: Counter[bytes] = Counter()
    observe_decoding(monkeypatch, lambda body, _: decoded.update([body]))
    return decoded


class CountedReads:
    """`EventStore` over `store`, with a count of the commits of control streams that were read."""

    def __init__(self, store: EventStore) -> None:
        self._store, self.commits = store, 0
        self.append, self.last = store.append, store.last
        self.save_snapshot, self.load_snapshot = store.save_snapshot, store.load_snapshot

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Sequence[Commit]:
        found = self._store.read(stream, after, limit)
        self.commits += len(found) if stream.run_id is None else 0
        return found


class Decoded:
    """Counts commits that are decoded, and asks of a control plane that has read nothing yet."""

    def __init__(self, local: LocalWiring, execution_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        bodies = {body for (body,) in local.database.rows("SELECT body FROM commits")}

        def counted(body: bytes, _: Sequence[AnyEvent]) -> None:
            self.count += body in bodies

        observe_decoding(monkeypatch, counted)
        self._local, self._id = local, execution_id

    def __call__(self, view: str, **query: str) -> Any:
        return self.answer(lambda: self._answer(view, query))

    def answer(self, call: Callable[[], Any]) -> Any:
        """Return the answer of a call, and count what is decoded for it."""
        self.count = 0
        self._local.control.recent = RecentCommits(self._local.store)
        answer = call()
        self.bytes = len(json.dumps(answer))
        return answer

    def _answer(self, view: str, query: Mapping[str, str]) -> Any:
        words = {"begin": "from", "end": "to"}
        service = Service(lambda: self._local.control, lambda: b"key")
        parameters = {words.get(name, name): value for name, value in query.items()}
        answer = ask(service, "GET", f"/api/executions/{self._id}/{view}", parameters)
        assert answer.status == 200, answer.sent
        return answer.body
