"""Inputs on their way in: rendered once and recorded, refused before anything is written, and diagnosed for typos."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest, admit, register
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.engine.records import StreamId, request_of
from noetl_core.engine.redrive.plan import Redrive
from noetl_core.engine.workload import BadWorkload
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.service.operations.base import cursor_key
from noetl_core.views.executions import executions
from noetl_core.views.explain.replay import replay
from tests.api_requests import ask

PARTS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: p, path: t/p }}
workload:
  host: a.example
  url: "https://{{{{ workload.host }}}}/{end}"
  n: 1
  x-schema: {{ properties: {{ n: {{ type: integer, minimum: 1 }} }} }}
workflow:
  - step: start
    tool: {{ kind: python, args: {{ url: "{{{{ workload.url }}}}", n: "{{{{ workload.n }}}}" }}, code: "result = {code}" }}
    next: {{ arcs: [{{ step: end, when: "{{{{ workload.url == event.result }}}}" }}] }}
  - step: end
    tool: {{ kind: noop, result: "{{{{ url }}}}" }}
"""
SOURCE = PARTS.format(end="items", code="url")
PARENT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: parent, path: t/parent }
workload: { n: 1, rows: null }
workflow:
  - step: start
    tool: { kind: playbook, path: t/p, payload: { host: b.example, n: "{{ workload.n }}" } }
"""


@pytest.fixture
def local() -> Iterator[LocalWiring]:
    wiring = LocalWiring()
    yield wiring
    wiring.close()


def run(local: LocalWiring, source: str, **payload: Any) -> dict[str, Any]:
    started = local.start(StartRequest(playbook=source, payload=payload))
    local.run(started.execution_id)
    return executions.summary(local.control, started.execution_id)


def api(local: LocalWiring, body: Any) -> tuple[int, Any]:
    service = Service(lambda: local.control, cursor_key(lambda: local.control))
    text = body if isinstance(body, str) else json.dumps(body)
    answer = ask(service, "POST", "/api/executions", body=text)
    return answer.status, answer.body


def test_the_control_plane_and_the_workers_see_one_rendered_workload(local: LocalWiring) -> None:
    out = run(local, SOURCE, host="b.example")
    assert (out["status"], out["result"]) == ("completed", "https://b.example/items")
    assert list(out["steps"]) == ["start", "end"]


@pytest.fixture
def unrendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No default can be rendered from now on."""
    monkeypatch.setattr("noetl_core.control.admit.rendered_defaults", None)


def test_rendered_inputs_are_recorded_and_replay_reuses_them(local: LocalWiring, request: pytest.FixtureRequest) -> None:
    out = run(local, SOURCE, host="b.example")
    requested = request_of(local.store.read(StreamId(out["execution_id"]), limit=1)[0])
    assert requested["payload"] == {"host": "b.example"}
    assert requested["rendered"] == {"url": "https://b.example/items"}
    request.getfixturevalue("unrendered")
    assert replay(local.control, out["execution_id"]).differences == ()


def test_a_playbook_without_templates_records_nothing_more(local: LocalWiring) -> None:
    out = run(local, SOURCE, url="x")
    assert "rendered" not in local.store.read(StreamId(out["execution_id"]), limit=1)[0].events[0].data


def test_a_child_renders_its_defaults_with_the_payload_of_its_parent(local: LocalWiring) -> None:
    register(local.control, SOURCE)
    assert run(local, PARENT)["result"] == "https://b.example/items"


def test_a_child_with_invalid_inputs_fails_the_task_of_its_parent(local: LocalWiring) -> None:
    register(local.control, SOURCE)
    out = run(local, PARENT, n=0)
    assert (out["status"], out["error"]["kind"]) == ("failed", "schema")
    assert "the workload of t/p: workload.n is below 1" in out["error"]["message"]


def test_a_childs_inputs_behind_a_reference_are_validated_and_usable(local: LocalWiring) -> None:
    child = PARTS.format(end="{{ workload.rows[2999].n }}", code="url").replace("n: 1\n", "n: 1\n  rows: []\n")
    register(local.control, child.replace("properties: {", "properties: { rows: { type: array, minItems: 3000 },"))
    parent = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: parent, path: t/parent }
workflow:
  - step: start
    tool: { kind: python, code: "result = [{'n': i} for i in range(3000)]" }
    next: { arcs: [{ step: call, args: { rows: "{{ event.result }}" } }] }
  - step: call
    tool: { kind: playbook, path: t/p, payload: { host: b.example, rows: "{{ args.rows }}" } }
"""
    out = run(local, parent)
    assert (out["error"], out["result"]) == (None, "https://b.example/2999")
    short = run(local, parent.replace("range(3000)", "range(2500)"))
    assert short["error"]["kind"] == "schema"


def test_a_redrive_with_another_version_renders_its_defaults(local: LocalWiring) -> None:
    first = run(local, PARTS.format(end="items", code="url / 0"), host="b.example")
    assert first["status"] == "failed"
    redrive(local.control, first["execution_id"], Redrive(), source=PARTS.format(end="v2", code="url"))
    local.run(first["execution_id"])
    out = executions.summary(local.control, first["execution_id"])
    assert (out["status"], out["result"]) == ("completed", "https://b.example/v2")
    assert replay(local.control, first["execution_id"]).differences == ()


def test_a_redrive_with_the_same_version_keeps_the_rendered_inputs(local: LocalWiring, request: pytest.FixtureRequest) -> None:
    out = run(local, PARTS.format(end="{{ execution_id }}", code="1 / 0"))
    request.getfixturevalue("unrendered")
    redrive(local.control, out["execution_id"], Redrive())
    local.run(out["execution_id"])
    assert local.control.load(out["execution_id"]).rendered == {"url": f"https://a.example/{out['execution_id']}"}


# --- refusals and warnings --------------------------------------------------------------------------------------------------


def test_unfit_inputs_are_answered_422_and_leave_nothing(local: LocalWiring) -> None:
    status, body = api(local, {"playbook": SOURCE, "payload": {"n": "1"}})
    assert (status, body["error"]["code"]) == (422, "workload")
    assert body["error"]["details"] == [{"loc": "body.payload", "message": "workload.n is string, not integer", "hint": ""}]
    assert list(local.index.heads()) == []
    with pytest.raises(BadWorkload):
        admit(local.control, StartRequest(playbook=SOURCE.replace("{{ workload.host }}", "{{ workload.host + 1 }}")))
    assert list(local.index.heads()) == []


def test_slips_are_answered_as_warnings(local: LocalWiring) -> None:
    status, body = api(local, {"playbook": SOURCE, "payload": {"hots": "x", "host": 5, "s3": {}}})
    assert status == 202
    assert body["warnings"] == [
        'workload has no "hots" (did you mean "host"?)',
        "workload.host is a number, where the playbook has text",
    ]
    assert api(local, {"playbook": SOURCE})[1]["warnings"] == []
