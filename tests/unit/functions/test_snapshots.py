"""Lambda SnapStart: environments that go on from one snapshot share what it holds, and must share nothing that has to differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench.functions.aws_stub import Services
from bench.functions.cold import PLAYBOOK, environment, message, request

from noetl_core.log.codec import decode_events
from noetl_core.runtime import worker_wiring
from tests.properties import some
from tests.servers import serving, url_of

ROOT = Path(__file__).parents[3]
DAY = 86_400 * 10**6


@dataclass(frozen=True)
class Restored:
    """The contents of a snapshot, and the answers of two environments restored from it."""

    kept: dict[str, Any]
    first: dict[str, Any]
    second: dict[str, Any]


@pytest.fixture
def services() -> Iterator[Services]:
    with serving(Services()) as server:
        yield server


def restored(function: str, event: Any, services: Services) -> Restored:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.unit.functions.restored", function],
        input=json.dumps(event),
        env={**os.environ, **environment(url_of(services)), "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    told = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith(('{"sockets"', '{"drawn"'))]
    return Restored(*told)


def runs(services: Services) -> list[dict[str, Any]]:
    """The commits of run streams, in the order in which they were put."""
    return [item for item in services.put if item["pk"]["S"].startswith("r#")]


def claimed_by(item: dict[str, Any]) -> str:
    """The worker that a claim names."""
    claim: Any = decode_events(b64decode(item["body"]["B"]), int(item["v"]["N"]))[0]
    return str(claim.data["worker"])


def started(services: Services) -> Restored:
    """Two environments of admit that start an execution each."""
    return restored("admit", request("POST", "/api/executions", {"playbook": PLAYBOOK}), services)


@pytest.mark.nightly
def test_two_environments_of_one_snapshot_draw_nothing_twice(services: Services) -> None:
    both = started(services)
    assert [a for a, b in zip(both.first["drawn"], both.second["drawn"], strict=True) if a == b] == []
    ids = [json.loads(e["answer"]["body"])["execution_id"] for e in (both.first, both.second)]
    assert len(set(ids)) == 2
    writers = [item["writer"]["S"] for item in services.put if "writer" in item]
    assert len(set(writers)) == len(writers) >= 2


@pytest.mark.nightly
def test_two_workers_of_one_snapshot_are_two_writers_with_names_and_leases_of_their_own(services: Services) -> None:
    """They get the same command, the second a day later, at a table that takes every write."""
    started(services)
    command = services.sent["commands"][0]
    services.put.clear()
    both = restored("worker", {"Records": [message(command)]}, services)
    assert both.second["now"] - both.first["now"] >= DAY
    commits = runs(services)
    assert len(commits) >= 2
    writers = [item["writer"]["S"] for item in commits]
    assert len(set(writers)) == len(writers)
    first, second = (item for item in commits if item.get("lease_until"))
    assert int(second["lease_until"]["N"]) - int(first["lease_until"]["N"]) >= DAY
    assert claimed_by(first) != claimed_by(second)


@pytest.mark.one_in(3)
@pytest.mark.sized
@pytest.mark.parametrize("function", some(["admit", "credentials", "router", "sweeper", "worker"], 2))
def test_a_snapshot_holds_no_connection_no_client_and_no_credentials(function: str, services: Services) -> None:
    event = {"admit": request("GET", "/api/health"), "credentials": request("GET", "/api/credentials")}.get(function)
    both = restored(function, event or ({} if function == "sweeper" else {"Records": [message("{}")]}), services)
    assert both.kept == {"sockets": 0, "clients": 0, "sessions": 0, "hooks": [1, 1]}


def test_a_worker_disconnects_its_tools_before_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    made = cache(lambda: SimpleNamespace(tools=SimpleNamespace(close=lambda: closed.append("tools"))))
    monkeypatch.setattr(worker_wiring, "worker", made)
    worker_wiring.disconnect()
    assert closed == []  # there is no worker yet
    made()
    worker_wiring.disconnect()
    assert closed == ["tools"]
