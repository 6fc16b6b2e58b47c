"""Routes that read executions, asked for what is not there, for too much, and while the execution is being written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from threading import Thread
from typing import Any
from unittest.mock import Mock

import pytest

from noetl_core.api.fields import specs
from noetl_core.api.requests import REQUESTS
from noetl_core.api.requests.executions import EXECUTION
from noetl_core.control.admit import StartRequest
from noetl_core.control.core import Control
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from tests.api_requests import ask
from tests.properties import some
from tests.unit.control.long_playbooks import chain, loop
from tests.unit.control.workflows import source

STEPS = {"step": ("map", "nope"), "iteration": ("29", "99999999", "-1")}
"""Values of the parameters in paths below an execution."""


def _views() -> dict[str, tuple[str, ...]]:
    """Return the paths below an execution that GET reads, with the names of their query parameters."""
    found = {}
    for request in REQUESTS:
        at, _, below = request.http.path.partition(EXECUTION)
        if request.http.method == "GET" and not at and request.http.path.startswith(EXECUTION):
            names = re.findall(r"{(\w+)}", below)
            for values in product(*(STEPS[name] for name in names)):
                path = below.format(**dict(zip(names, values, strict=True)))
                found[path] = tuple(spec.name for spec in specs(request) if spec.place == "query")
    return found


VIEWS = _views()
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


def statuses(control: Control, asked: list[tuple[str, dict[str, str]]]) -> dict[str, int]:
    service = Service(lambda: control, lambda: b"key")
    return {f"{path} {parameters}"[:200]: ask(service, "GET", path, parameters).status for path, parameters in asked}


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
    found = statuses(local.control, [(at, {name: value}) for name in VIEWS[view] for value in (*VALUES, *places)])
    found |= statuses(local.control, [(f"/api/executions/{other}{view}", {}) for other in IDS])
    assert {what: status for what, status in found.items() if status not in ANSWERED} == {}


@pytest.mark.parametrize("view", VIEWS)
def test_an_execution_of_a_playbook_that_this_release_refuses_gets_a_documented_answer(
    stored: tuple[LocalWiring, str], view: str
) -> None:
    """`ask` compares each status with the OpenAPI document."""
    local, execution_id = stored
    query = {"/diff": {"other": execution_id}, "/object": {"key": "k"}, "/pages": {"run": "r", "seq": "1"}}.get(view, {})
    refusing = replace(local.control)  # with caches of its own
    refusing.playbook = Mock(side_effect=InvalidPlaybook([]))
    found = statuses(refusing, [(f"/api/executions/{execution_id}{view}", query)])
    assert set(found.values()) <= ANSWERED


@pytest.mark.parametrize("path", LISTS)
def test_lists_answer_hostile_parameter_values_without_a_server_error(stored: tuple[LocalWiring, str], path: str) -> None:
    found = statuses(stored[0].control, [(path, {name: value}) for name in LISTS[path] for value in VALUES])
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
