"""Access tokens that workers share: requested once, sealed, and in no event."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.local.access_tokens import SqliteTokenCache
from noetl_core.adapters.local.database import MEMORY, Database
from noetl_core.adapters.local.sealer import LocalSealer
from noetl_core.control.admit import StartRequest
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.grants import Grant
from noetl_core.tools.http.access_tokens import Tokens
from noetl_core.tools.network.addresses import AddressPolicy
from noetl_core.tools.oauth2 import grant_of
from noetl_core.views.executions import executions
from tests.credentials import Held
from tests.oauth_server import CLIENT, OAuthServer
from tests.running import events_of
from tests.servers import serving

KEY = b"k" * 32
SECOND = 1_000_000


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with serving(OAuthServer()) as server:
        yield server


@pytest.fixture
def cache() -> Iterator[SqliteTokenCache]:
    database = Database(MEMORY)
    yield SqliteTokenCache(database)
    database.close()


def worker(cache: SqliteTokenCache, now: list[int] | None = None) -> Tokens:
    """The tokens of one more process."""
    clock = [1_800_000_000 * SECOND] if now is None else now
    return Tokens(AddressPolicy(allow_private=True), cache, LocalSealer(lambda: KEY), lambda: KEY, lambda: clock[0])


def grant(server: OAuthServer, **fields: Any) -> Grant:
    return grant_of({"type": "oauth2", "token_url": server.base + "/token", **CLIENT, **fields})


def test_workers_share_a_token(server: OAuthServer, cache: SqliteTokenCache) -> None:
    values = {worker(cache).wait(grant(server), "").value for _ in range(3)}
    assert len(values) == len(server.token_requests) == 1


def test_workers_that_ask_at_once_make_one_request(server: OAuthServer, cache: SqliteTokenCache) -> None:
    values: list[str] = []
    workers = [worker(cache) for _ in range(6)]
    threads = [threading.Thread(target=lambda w=w: values.append(w.wait(grant(server), "").value)) for w in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(values), len(set(values)), len(server.token_requests)) == (6, 1, 1)


def test_one_worker_renews_the_token_and_the_others_reuse_it(server: OAuthServer, cache: SqliteTokenCache) -> None:
    now = [1_800_000_000 * SECOND]
    first, second = worker(cache, now), worker(cache, now)
    assert first.wait(grant(server), "").value == second.wait(grant(server), "").value
    now[0] += 3599 * SECOND
    assert first.wait(grant(server), "").value == second.wait(grant(server), "").value
    assert len(server.token_requests) == 2


def test_a_refused_token_is_not_taken_from_the_cache_again(server: OAuthServer, cache: SqliteTokenCache) -> None:
    first, second = worker(cache), worker(cache)
    old = first.wait(grant(server), "")
    second.wait(grant(server), "")
    newer = asyncio.run(first.token(grant(server), "", old))
    assert newer.value != old.value
    assert asyncio.run(second.token(grant(server), "", second.wait(grant(server), ""))).value == newer.value
    assert len(server.token_requests) == 2


def test_a_renewal_that_fails_is_left_to_others(server: OAuthServer, cache: SqliteTokenCache) -> None:
    server.refuse = (503, {})
    with pytest.raises(Exception, match="HTTP 503"):
        worker(cache).wait(grant(server), "")
    server.refuse = None
    assert worker(cache).wait(grant(server), "").value


def test_a_token_that_another_key_sealed_is_requested_anew(server: OAuthServer, cache: SqliteTokenCache) -> None:
    worker(cache).wait(grant(server), "")
    other = Tokens(
        AddressPolicy(allow_private=True), cache, LocalSealer(lambda: b"o" * 32), lambda: KEY, lambda: 1_800_000_000 * SECOND
    )
    assert other.wait(grant(server), "").value
    assert len(server.token_requests) == 2


PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: t/tokens}
workload: {api: ""}
workflow:
  - step: start
    loop: {in: "{{ range(20) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 10}}
    tool:
      - {name: look, kind: http, url: "{{ workload.api }}/api/{{ iter.n }}", auth: app}
"""


def test_executions_and_processes_share_a_token_that_no_event_and_no_file_shows(server: OAuthServer, tmp_path: Path) -> None:
    secrets: Any = Held({"app": {"type": "oauth2", "data": {"token_url": server.base + "/token", **CLIENT}}})
    text = ""
    for _ in range(2):
        local = LocalWiring(tmp_path / "log.sqlite", secrets=secrets)
        started = local.start(StartRequest(playbook=PLAYBOOK, payload={"api": server.base}))
        local.run(started.execution_id)
        summary = executions.summary(local.control, started.execution_id)
        assert summary["status"] == "completed", summary["error"]
        text += json.dumps(summary) + str(events_of(local.control, started.execution_id, limit=1000)[0])
        local.close()
    assert (len(server.token_requests), len(server.calls)) == (1, 40)
    assert "acc3ss" not in text and "s3cret" not in text and "***" in text
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"acc3ss" not in files and b"s3cret" not in files
    with sqlite3.connect(tmp_path / "log.sqlite") as database:
        rows = database.execute("SELECT key, sealed, accesses FROM tokens").fetchall()
    assert len(rows) == 1 and rows[0][2] == 1  # the second process read it once, for twenty calls
