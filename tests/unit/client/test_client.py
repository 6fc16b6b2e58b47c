"""The typed client against the API on a port: every method, refusals, and what its page shows."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.api.app import Api as Served
from noetl_core.client import Api, Client, Refused, TokenInTheClear, Unreachable
from noetl_core.ports import RefusedDelivery
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.service.operations.base import cursor_key
from tests.api_server import served
from tests.servers import Handler, serving, url_of
from tests.waiting import run_until_it_waits

ROOT = Path(__file__).parents[3]
METHODS = sorted({name for each in Api.__mro__[1:-3] for name in vars(each) if not name.startswith("_")} - {"call"})
HELLO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: hello, path: docs/hello }
workload: { name: world }
workflow:
  - step: start
    tool: { kind: noop, message: said, result: "Hello, {{ workload.name }}!" }
"""
LOOPED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: looped, path: docs/looped }
workflow:
  - step: map
    loop: { in: [a, b, c], iterator: x }
    tool: { kind: noop, result: "{{ iter.x }}" }
"""
ASK = HELLO.replace("docs/hello", "docs/ask").replace(
    'kind: noop, message: said, result: "Hello, {{ workload.name }}!"', "kind: callback, description: Ship it?"
)


@pytest.fixture(scope="module")
def local() -> Iterator[LocalWiring]:
    wiring = LocalWiring()
    yield wiring
    wiring.close()


@pytest.fixture(scope="module")
def url(local: LocalWiring, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    secrets = LocalSecrets(tmp_path_factory.mktemp("secrets") / "credentials.json")
    service = Service(
        lambda: local.control, cursor_key(lambda: local.control), {"name": "test"}, lambda: secrets, rights=lambda *_: True
    )
    with served(Served(service)) as address:
        yield address


def test_the_example_of_the_documentation_runs(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "api.md").read_text(), re.DOTALL)
    exec(compile(example, "docs/api.md", "exec"), {"url": url, "playbook": HELLO})
    assert "PlaybookExecutionRequested" in capsys.readouterr().out


def test_an_execution_from_its_start_to_its_views(url: str, local: LocalWiring) -> None:
    api = Client(url)
    assert api.health()["wiring"] == {"name": "test"}
    assert api.runtime()["version"] == api.health()["version"]
    assert api.validate(HELLO) == {
        "valid": True,
        "diagnostics": [],
        "warnings": [],
        "playbook": {"path": "docs/hello", "workload": {"name": "world"}, "inputs": None},
    }
    assert api.validate(HELLO.replace("noop", "nope"))["diagnostics"][0]["code"] == "E118"
    version = api.register(HELLO)["version"]
    assert api.playbook("docs/hello", version)["source"] == HELLO
    assert api.playbook_versions("docs/hello")["versions"][-1]["version"] == version
    assert [p["path"] for p in api.playbooks("docs/h")["playbooks"]] == ["docs/hello"]
    assert api.set_alias("docs/hello", "prod", {version: 1})["aliases"] == {"prod": {str(version): 1}}
    assert api.playbook("docs/hello", "prod")["version"] == version
    assert api.set_alias("docs/hello", "prod", None)["aliases"] == {}
    assert api.tag_playbook("docs/hello", ["a", "b"], ["b"])["tags"] == ["a"]
    assert [p["path"] for p in api.playbooks("docs/h", tag="a")["playbooks"]] == ["docs/hello"]
    assert api.delete_playbook("docs/hello")["deleted_at"] == api.about_playbook("docs/hello")["deleted_at"] is not None
    assert [p["path"] for p in api.playbooks("docs/h", deleted=True)["playbooks"]] == ["docs/hello"]
    assert api.undelete_playbook("docs/hello")["deleted_at"] is None
    hourly = 'executor: { spec: { triggers: [{ schedule: "0 * * * *" }] } }\nworkflow:'
    api.register(HELLO.replace("workflow:", hourly))
    assert api.backfill("docs/hello", "2026-01-01", "2026-01-02", preview=True)["occurrences"] == 24
    api.register(HELLO)
    id = api.start(path="docs/hello", payload={"name": "Ada"}, labels={"env": "prod"})["execution_id"]
    assert [e["execution_id"] for e in api.executions(label="env:prod", q="docs/")["executions"]] == [id]
    assert local.run(id, timeout_s=20)
    assert api.execution(id)["result"] == "Hello, Ada!"
    assert id in [e["execution_id"] for e in api.executions(status="completed", path="docs/hello")["executions"]]
    assert api.stats(path="docs/hello")["counts"]["completed"] >= 1
    assert api.events(id, name="StepDone")["events"][0]["step"] == "start"
    assert api.events(id, tail=2, fields="name")["events"][-1]["name"] == "PlaybookProcessed"
    assert api.state(id)["status"] == "completed"
    assert api.ctx(id)["ctx"] == {}
    assert api.render(id, "{{ steps.start.result }}")["value"] == "Hello, Ada!"
    assert api.render(id, "{{ steps.start.status or 'not yet' }}", at=f"{id}.control.0.0")["value"] == "not yet"
    assert api.timeline(id)["spans"][0]["step"] == "start"
    assert api.timeline(id, rows=5, step="start", begin="0")["rows"] == {"total": 1, "shown": 1}
    assert api.graph(id)["nodes"][0]["status"] == "ok"
    assert api.graph(id, layout=True)["layout"]["layers"] == api.playbook_graph(HELLO, layout=True)["layout"]["layers"] == 1
    assert api.drawing(id, "mermaid").startswith("flowchart")
    assert api.cost(id)["total"]["cost"] > 0
    assert api.logs(id, full=True)["logs"][0]["stdout"] == "said"
    assert api.replay(id)["differences"] == []
    assert api.replay(id, playbook=HELLO.replace("Hello,", "Bye,"))["commits"] > 0
    assert api.redrive(id, begin="start", preview=True)["redrive"]["again"][0]["step"] == "start"
    changed = api.changes(id, limit=3)
    assert changed is not None and changed["ended"] and len(changed["events"]) == 3
    assert api.changes(id, after=changed["cursor"], known=changed["etag"]) is None
    assert api.why(id)["facts"] == [] and api.why(id, "start")["facts"][0]["fact"] == "entry"
    assert api.diff(id, id)["differences"] == []
    assert (planned := api.plan(path="docs/hello", payload={}, last=1))["read"] == 1 and planned["seconds"]["high"] > 0
    assert api.step_summary(id, "start")["runs"]["count"] == 1
    looped = api.start(playbook=LOOPED)["execution_id"]
    assert local.run(looped, timeout_s=20)
    assert [i["index"] for i in api.iterations(looped, "map", begin=1, limit=5)["iterations"]] == [1, 2]
    assert api.iteration(looped, "map", "1")["item"] == "b"
    assert len(api.step_summary(looped, "map", buckets=2)["buckets"]["cells"]) == 2
    assert api.queue()["dead_letters"] == {}
    assert api.limits("none") == {"limits": [], "rates": []}
    ref = local.results.put(f"{id}/values/x.json", b"[1]")
    assert api.object_piece(id, ref["key"], 1) == {"data": "MV0=", "next": None}
    run = api.events(id, name="StepDone")["events"][0]["step_run_id"]
    assert api.page_result(id, run, 1)["result"] == "Hello, Ada!"


SCHEDULED = HELLO.replace("docs/hello", "docs/scheduled").replace(
    "workload:", 'executor: { spec: { triggers: [{ schedule: "@daily", payload: { name: "{{ trigger.name }}" } }] } }\nworkload:'
)


def test_triggers_are_listed_switched_and_fired(url: str, local: LocalWiring) -> None:
    api = Client(url)
    api.register(SCHEDULED)
    assert [t["name"] for t in api.triggers(path="docs/scheduled", kind="schedule")["triggers"]] == ["schedule"]
    assert api.switch_trigger("docs/scheduled", "schedule", on=False)["enabled"] is False
    fired = api.fire_trigger("docs/scheduled", "schedule", at="2026-11-22T00:00:00Z")
    assert api.fire_trigger("docs/scheduled", "schedule", at="2026-11-22T00:00:00Z") == fired
    (past,) = api.trigger("docs/scheduled", "schedule")["firings"]
    assert past == {**fired, "execution": past["execution"]}
    assert past["execution"]["status"] == "running"
    local.triggers.refuse(RefusedDelivery("1", "docs/scheduled", "schedule", "schedule", "o", 0, "workload", "why"))
    assert [r["reason"] for r in api.refused(path="docs/scheduled", limit=5)["refused"]] == ["why"]
    assert api.fire_refused("1")["result"] == "started"
    local.triggers.refuse(RefusedDelivery("2", "docs/scheduled", "schedule", "schedule", "o", 0, "workload", "why"))
    assert api.forget_refused("2")["deleted"] is True


def test_waiting_executions_are_paused_answered_and_cancelled(url: str, local: LocalWiring) -> None:
    api = Client(url)
    ids = [api.start(playbook=ASK)["execution_id"] for _ in range(2)]
    for id in ids:
        run_until_it_waits(local, id)
    (open_callback,) = api.callbacks(ids[0])["callbacks"]
    waiting = {c["execution_id"]: c["wait_id"] for c in api.waiting_callbacks()["callbacks"]}
    assert waiting[ids[0]] == open_callback["wait_id"]
    assert api.past_answers(ids[1], waiting[ids[1]])["answers"] == []
    assert api.wait_heartbeat(ids[1], waiting[ids[1]])["callback"] == "alive"
    assert api.answer_wait(ids[1], waiting[ids[1]], {"ok": True})["callback"] == "answered"
    assert api.pause(ids[0])["status"] == "paused"
    assert api.resume(ids[0])["status"] == "waiting"
    assert api.callback_heartbeat(open_callback["token"])["callback"] == "alive"
    assert api.answer_callback(open_callback["token"], {"ok": True})["callback"] == "answered"
    assert api.signal(ids[1], "nobody waits for it", signal_id="once")["execution_id"] == ids[1]
    assert api.cancel(ids[1], reason="enough")["status"] == "cancelled"
    batched = api.batch("cancel", ids=[ids[0]], preview=True)
    assert [each["execution_id"] for each in batched["executions"]] == [ids[0]]
    (other,) = [Client(url).start(playbook=ASK)["execution_id"]]
    run_until_it_waits(local, other)
    token = api.callbacks(other)["callbacks"][0]["token"]
    assert api.answer_callback(token, error={"kind": "auth", "message": "no"})["callback"] == "answered"
    assert local.run(other, timeout_s=20)
    error = api.execution(other)["error"]
    assert error is not None and error["kind"] == "auth"


def test_credentials_are_kept_and_shown(url: str) -> None:
    api = Client(url)
    assert api.put_credential("team/pg", {"user": "u"}, type="postgres", paths=["reports/*"])["fields"] == ["user"]
    assert [c["name"] for c in api.credentials("team/")["credentials"]] == ["team/pg"]
    assert api.credential("team/pg", include_data=True)["data"] == {"user": "u"}
    assert api.delete_credential("team/pg") == {"name": "team/pg", "deleted": True}


def test_every_method_was_called_here() -> None:
    text = Path(__file__).read_text()
    uncalled = [name for name in METHODS if f"api.{name}(" not in text and f"Client(url).{name}(" not in text]
    assert uncalled == [], "call these methods of the client in a test of this module"


def test_a_refusal_carries_the_message_and_its_location(url: str) -> None:
    with pytest.raises(Refused) as end:
        Client(url).executions(limit=0)
    assert (end.value.status, end.value.code, end.value.request_id) == (400, "malformed", "req-1")
    assert end.value.details == [{"loc": "query.limit", "message": "limit must be a number from 1 to 1000", "hint": ""}]


@pytest.mark.parametrize("id", ["../playbooks", "1/../../health", "%2e", "1?x=1", "é"])
def test_an_id_is_one_part_of_the_path_whatever_is_in_it(url: str, id: str) -> None:
    with pytest.raises(Refused) as end:
        Client(url).execution(id)
    assert end.value.status == 404


def test_a_closed_port_and_a_foreign_server_are_unreachable() -> None:
    with pytest.raises(Unreachable):
        Client("http://127.0.0.1:1").health()

    class Page(Handler):
        def do_GET(self) -> None:
            self.say(200, b"<html>", Content_Type="text/html")

    with serving(HTTPServer(("127.0.0.1", 0), Page)) as server, pytest.raises(Unreachable, match="not JSON"):
        Client(url_of(server)).health()


def test_a_token_is_not_sent_in_the_clear() -> None:
    with pytest.raises(TokenInTheClear, match="without TLS"):
        Client("http://api.example.com", token="ey.J.x").health()


def test_certificates_are_read_for_https_alone_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[object] = []
    made = httpx.Client.__init__

    def noted(client: httpx.Client, **options: Any) -> None:
        used.append(options["verify"])
        made(client, **options)

    monkeypatch.setattr(httpx.Client, "__init__", noted)
    for scheme in ("http", "https"):
        with pytest.raises(Unreachable):
            Client(f"{scheme}://127.0.0.1:1").health()
    plain, secure = used
    assert plain is False
    assert isinstance(secure, ssl.SSLContext) and secure.verify_mode is ssl.CERT_REQUIRED and secure.check_hostname
