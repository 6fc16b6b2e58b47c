"""The API of a local store in the console's process: requests are answered side by side, each with what it asked for."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from noetl_console.answering import Asked
from noetl_console.carrying import Carrier
from noetl_console.local import AT_ONCE, LocalApi
from noetl_core.api.callers import Caller, Rights
from noetl_core.runtime.local import LocalWiring
from tests.console.sample_store import WAITS, carried_out

PATIENCE_S = 30


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "runs.db")


@pytest.fixture
def api(store: str) -> Iterator[LocalApi]:
    made = LocalApi(store)
    yield made
    made.close()


def test_a_slow_request_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    credentials = tmp_path / "credentials.json"
    os.mkfifo(credentials)  # a reader waits until somebody writes
    with closing(LocalApi(store)) as api, ThreadPoolExecutor() as threads:
        held = threads.submit(api.answer, Asked("GET", "/api/credentials"))
        with credentials.open("w") as written:  # it is open when the request reads it
            other = threads.submit(api.answer, Asked("GET", "/api/health"))
            assert other.result(PATIENCE_S).status == 200
            assert not held.done()
            written.write("{}")
        assert held.result(PATIENCE_S).status == 200


def test_a_request_is_read_as_it_came_whatever_comes_meanwhile(api: LocalApi, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on, judged = Event(), Event(), Rights.__call__

    def slow(rights: Rights, caller: Caller, right: str) -> bool | None:
        if not begun.is_set():
            begun.set()
            assert go_on.wait(PATIENCE_S)
        return judged(rights, caller, right)

    monkeypatch.setattr(Rights, "__call__", slow)
    with ThreadPoolExecutor() as threads:
        held = threads.submit(api.answer, Asked("GET", "/api/executions", "limit=1"))
        try:
            assert begun.wait(PATIENCE_S)
            assert api.answer(Asked("GET", "/api/executions", "limit=none")).status == 400
        finally:
            go_on.set()
        assert held.result(PATIENCE_S).status == 200


def test_requests_side_by_side_are_answered_each_with_its_own(api: LocalApi, store: str) -> None:
    wiring = LocalWiring(store)
    ids = [carried_out(wiring, WAITS) for _ in range(6)]
    wiring.close()

    def ask(number: int) -> None:
        execution_id = ids[number % len(ids)]
        what = ("", "/state", "/changes", "/events?limit=1000", "/graph", "/nowhere")[number % 5 if number % 7 else 5]
        path, _, query = f"/api/executions/{execution_id}{what}".partition("?")
        answered = api.answer(Asked("GET", path, query))
        if what == "/nowhere":
            assert (answered.status, path in answered.body.decode()) == (404, True)
        else:
            assert answered.status == 200, answered.body
            assert set(_ids(json.loads(answered.body))) == {execution_id}

    with ThreadPoolExecutor(2 * AT_ONCE) as threads:
        for done in [threads.submit(ask, number) for number in range(400)]:
            done.result(PATIENCE_S)


def _ids(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if "execution_id" in value:
            yield value["execution_id"]
        for each in value.values():
            yield from _ids(each)
    elif isinstance(value, list):
        for each in value:
            yield from _ids(each)


def test_the_answer_of_a_called_playbook_wakes_the_thread_of_its_caller(api: LocalApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second thread for the called playbook would keep the command that continues the caller."""
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: n, path: %s }\nworkflow:\n  - step: a\n    tool: "

    def request(method: str, path: str, body: object = None) -> Any:
        sent = b"" if body is None else json.dumps(body).encode()
        return json.loads(api.answer(Asked(method, path, "", {"Content-Type": "application/json"}, sent)).body)

    request("POST", "/api/playbooks", {"playbook": head % "called" + "{ kind: callback, timeout: 1d }\n"})
    text = head % "caller" + "{ kind: playbook, path: called }\n"
    caller = request("POST", "/api/executions", {"playbook": text})["execution_id"]
    until = time.monotonic() + PATIENCE_S
    while not (waiting := request("GET", "/api/callbacks")["callbacks"]):
        assert time.monotonic() < until
        time.sleep(0.05)
    carried: list[str] = []
    carry = Carrier.carry

    def recorded(carrier: Carrier, execution_id: str) -> None:
        carried.append(execution_id)
        carry(carrier, execution_id)

    monkeypatch.setattr(Carrier, "carry", recorded)
    request("POST", f"/api/executions/{waiting[0]['execution_id']}/callbacks/{waiting[0]['wait_id']}", {"data": 1})
    assert carried == [caller]
    while request("GET", f"/api/executions/{caller}")["status"] != "completed":
        assert time.monotonic() < until
        time.sleep(0.05)
