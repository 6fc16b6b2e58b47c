"""Routes that read executions, asked for what is not there, for too much, and while the execution is being written."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from tests.asking import ask
from tests.properties import some
from tests.unit.control.long_playbooks import chain, loop
from tests.unit.control.workflows import source

VIEWS = {
    "": (),
    "/events": ("after", "before", "at", "tail", "limit", "step", "task", "name", "status", "iteration", "fields"),
    "/changes": ("after", "limit", "fields"),
    "/timeline": ("limit", "rows", "step", "from", "to"),
    "/graph": ("layout", "at", "format"),
    "/cost": (),
    "/state": ("at",),
    "/why": ("step", "at"),
    "/diff": ("other",),
    "/logs": ("step", "task", "full", "after", "limit"),
    "/steps/map/summary": ("buckets",),
    "/steps/nope/summary": (),
    "/steps/map/iterations": ("status", "q", "from", "after", "limit"),
    "/steps/map/iterations/29": (),
    "/steps/map/iterations/99999999": (),
    "/steps/map/iterations/-1": (),
    "/object": ("key", "start"),
    "/pages": ("run", "seq"),
}
LISTS = {
    "/api/executions": ("status", "path", "label", "q", "since", "limit", "cursor"),
    "/api/executions/stats": ("path", "since", "label"),
    "/api/callbacks": ("status", "path", "limit", "cursor"),
}
VALUES = [
    *(
        "-1",
        "0",
        "1",
        "999999999",
        "9" * 30,
        "9" * 400,
        "1e9",
        "0x10",
        "²",
        "٣",
        "",
        "\x00",
        "é" * 5000,
        "null",
        "true",
        "../..",
        "c",
    ),
    *("617", "3.5", ".".join(["1"] * 11), "1,2,3"),
    *("2001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999Z", "0000-00-00T00:00:00Z"),
]
IDS = ["0", "9" * 19, "9" * 30, "18446744073709551616", "-1", "abc", "%00"]
ANSWERED = {200, 400, 404, 422}


@pytest.fixture(scope="module")
def stored() -> Iterator[tuple[LocalWiring, str]]:
    local = LocalWiring()
    execution_id = local.start(StartRequest(playbook=source(loop(30, "local")))).execution_id
    assert local.run(execution_id)
    yield local, execution_id
    local.close()


def statuses(local: LocalWiring, asked: list[tuple[str, dict[str, str]]]) -> dict[str, int]:
    service = Service(lambda: local.control, lambda: b"key")
    return {f"{path} {given}"[:200]: ask(service, "GET", path, given).status for path, given in asked}


@pytest.mark.one_in(2)
@pytest.mark.sized
@pytest.mark.parametrize("view", some(VIEWS, 3))
def test_values_that_nothing_has_are_refused_or_find_nothing(stored: tuple[LocalWiring, str], view: str) -> None:
    local, execution_id = stored
    places = [
        f"{execution_id}.{where}"
        for where in ("control.999999999.0", "control.0.999999", "nobody.0.0", "control.0", "control.0.0s")
    ]
    at = f"/api/executions/{execution_id}{view}"
    found = statuses(local, [(at, {name: value}) for name in VIEWS[view] for value in (*VALUES, *places)])
    found |= statuses(local, [(f"/api/executions/{other}{view}", {}) for other in IDS])
    assert {what: status for what, status in found.items() if status not in ANSWERED} == {}


@pytest.mark.parametrize("path", LISTS)
def test_lists_answer_hostile_parameter_values_without_a_server_error(stored: tuple[LocalWiring, str], path: str) -> None:
    found = statuses(stored[0], [(path, {name: value}) for name in LISTS[path] for value in VALUES])
    assert {what: status for what, status in found.items() if status not in ANSWERED} == {}


def test_an_execution_is_read_while_it_is_written() -> None:
    local = LocalWiring()
    try:
        execution_id = local.start(StartRequest(playbook=source([*chain(150)]))).execution_id
        service = Service(lambda: local.control, lambda: b"key")
        running = Thread(target=local.run, args=(execution_id,))
        running.start()
        answered: set[int] = set()
        seen: list[Any] = []
        while running.is_alive() or not seen:
            for view in (
                "",
                "/events",
                "/changes",
                "/timeline",
                "/graph",
                "/cost",
                "/state",
                "/why",
                "/logs",
                "/steps/s7/summary",
            ):
                answer = ask(
                    service, "GET", f"/api/executions/{execution_id}{view}", {"rows": "50"} if view == "/timeline" else {}
                )
                answered.add(answer.status)
            seen.append(ask(service, "GET", f"/api/executions/{execution_id}", {}).body["events"])
        running.join()
        assert answered == {200}
        assert seen == sorted(seen)
    finally:
        local.close()


def test_the_state_in_the_middle_of_a_long_run_is_as_documented() -> None:
    """`ask` compares each answer with the OpenAPI document."""
    local = LocalWiring()
    try:
        execution_id = local.start(StartRequest(playbook=source(loop(1_500, "local")))).execution_id
        assert local.run(execution_id)
        service, at = Service(lambda: local.control, lambda: b"key"), f"/api/executions/{execution_id}"
        (event,) = ask(service, "GET", f"{at}/events", {"at": "5900", "limit": "1"}).body["events"]
        answer = ask(service, "GET", f"{at}/state", {"at": event["event_id"]})
        assert answer.status == 200 and answer.body["run"]["partial"] is True
    finally:
        local.close()
