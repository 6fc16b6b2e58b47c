"""Routes beside executions: queue, runtime, docs, credentials, templates; and the views as the API gives them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl_core.api.app import Api
from noetl_core.api.callers import Rights
from noetl_core.control.admit import StartRequest
from noetl_core.service.answering import nothing_here
from noetl_core.service.api_service import Service
from tests import api_requests
from tests.unit.control.local_api import SOURCE, Asker


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Asker]:
    asker = Asker(tmp_path)
    yield asker
    asker.local.close()


def test_health_runtime_and_queue_say_where_they_are(ask: Asker) -> None:
    assert ask("GET", "health").body["wiring"] == {"name": "local"}
    runtime = ask("GET", "runtime").body
    assert runtime["pools"] == {"default": {"concurrency": 16}}
    assert {"http", "python", "playbook"} <= set(runtime["kinds"])
    empty = {"waiting": 0, "in_flight": 0, "delayed": 0}
    assert ask("GET", "queue").body == {"pools": {"default": empty}, "control": empty, "dead_letters": {}}
    ask.local.start(StartRequest(playbook=SOURCE))
    assert ask("GET", "queue").body["pools"]["default"]["waiting"] == 1


def test_the_docs_page_names_every_route_and_runs_nothing(ask: Asker) -> None:
    page = ask("GET", "docs")
    assert page.content_type.startswith("text/html")
    assert "/api/executions/{execution_id}/replay" in page.text()
    assert "<script" not in page.text()
    headers = Api(ask.service).resolve({"httpMethod": "GET", "path": "/api/docs"}, None)["multiValueHeaders"]
    assert headers["Content-Type"] == ["text/html; charset=utf-8"]
    assert "default-src 'none'" in headers["Content-Security-Policy"][0]


# --- credentials ----------------------------------------------------------------------------------------------------------


def test_credentials_are_kept_shown_by_their_fields_and_forgotten(ask: Asker) -> None:
    body = {
        "name": "team/pg.main",
        "type": "postgres",
        "description": "the main one",
        "data": {"user": "u", "password": "s3cret"},
    }
    put = ask("POST", "credentials", body)
    shown: dict[str, Any] = {
        "name": "team/pg.main",
        "type": "postgres",
        "description": "the main one",
        "fields": ["password", "user"],
    }
    shown |= {"paths": None, "by": {"principal": "anonymous", "source": "api"}}
    assert (put.status, put.body) == (201, shown)
    assert ask.secrets.get("team/pg.main")["data"] == {"user": "u", "password": "s3cret"}
    assert ask("GET", "credentials").body == {"credentials": [shown]}
    assert ask("GET", "credentials", prefix="other").body == {"credentials": []}
    assert ask("GET", "credentials/team/pg.main").body == shown
    assert ask("DELETE", "credentials/team/pg.main").status == 200
    assert ask("GET", "credentials/team/pg.main").status == 404
    assert ask("DELETE", "credentials/team/pg.main").status == 404


def test_only_callers_with_the_right_read_a_credentials_data(ask: Asker) -> None:
    ask("POST", "credentials", {"name": "api", "data": {"token": "s3cret"}})
    refused = ask("GET", "credentials/api", include_data="true")
    assert refused.status == 403
    assert "s3cret" not in refused.text()
    assert ask("GET", "credentials/api", caller={"may": True}, include_data="true").body["data"] == {"token": "s3cret"}
    assert "data" not in ask("GET", "credentials/api", caller={"may": True}).body


@pytest.mark.parametrize("name", ["", "..", "../x", "a//b", "/a", "a b", "a/b/c/d/e", "x" * 200, "é"])
def test_an_invalid_credential_name_is_refused(ask: Asker, name: str) -> None:
    assert ask("POST", "credentials", {"name": name, "data": {"a": 1}}).status == 400


def test_a_function_without_credentials_has_none(ask: Asker) -> None:
    bare = Service(lambda: ask.local.control, lambda: b"")
    assert api_requests.ask(bare, "GET", "/api/credentials", checked=False).status == 404  # API Gateway asks the other function
    alone = Service(nothing_here, nothing_here, secrets=lambda: ask.secrets)
    assert api_requests.ask(alone, "GET", "/api/credentials").status == 200
    assert api_requests.ask(alone, "GET", "/api/executions", checked=False).status == 404


ROLE = "arn:aws:iam::123456789012:role/Ops"


@pytest.mark.parametrize(
    ("caller", "may"),
    [
        ({}, False),
        ({"authorizer": None, "identity": None}, False),
        ({"authorizer": {"claims": {"scope": "openid noetl/secrets"}}}, True),
        ({"authorizer": {"claims": {"scope": "secrets"}}}, True),
        ({"authorizer": {"claims": {"scope": "noetl/secrets-not"}}}, False),
        ({"authorizer": {"claims": {"cognito:groups": "[ops secrets]"}}}, True),
        ({"authorizer": {"claims": {"cognito:groups": ["secrets"]}}}, True),
        ({"authorizer": {"claims": {"cognito:groups": "ops,nosecrets"}}}, False),
        ({"identity": {"userArn": ROLE}}, True),
        ({"identity": {"userArn": "arn:aws:sts::123456789012:assumed-role/Ops/me"}}, True),
        ({"identity": {"userArn": "arn:aws:sts::999999999999:assumed-role/Ops/me"}}, False),
        ({"identity": {"userArn": "arn:aws:iam::123456789012:user/Ops"}}, False),
    ],
)
def test_only_the_configured_roles_may_read_secrets(caller: dict[str, Any], may: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_READERS", f" {ROLE}, ")
    assert Rights.from_environment()(caller, "secrets:read") is may


# --- templates ------------------------------------------------------------------------------------------------------------


def test_a_rendered_template_sees_the_values_of_the_control_plane(ask: Asker) -> None:
    execution_id = ask.waiting()

    def value(template: Any, **more: str) -> Any:
        return ask("POST", "context/render", {"execution_id": execution_id, "template": template, **more}).body["value"]

    assert value("{{ workload.n }}") == 2
    assert value({"n": "{{ steps.start.result | length }}", "all": ["{{ ctx.seen }}", "x"]}) == {"n": 20, "all": [2, "x"]}
    assert value("{{ to }}", step="ask") == "Ada"
    assert value("{{ nobody.knows }}") is None


@pytest.mark.parametrize(
    "template",
    [
        "{{ keychain.pg.password }}",
        {"a": ["{{ 'x' ~ keychain }}"]},
        "{{ ",
        "{{ 1 / 0 }}",
        "{{ range(10**9) | list }}",
        "{{ ''.__class__ }}",
    ],
)
def test_a_template_that_reads_secrets_or_is_invalid_is_refused(ask: Asker, template: Any) -> None:
    answer = ask("POST", "context/render", {"execution_id": ask.waiting(), "template": template})
    assert (answer.status, answer.body["error"]["code"]) == (422, "template")


# --- views ----------------------------------------------------------------------------------------------------------------


def test_logs_come_in_pages_and_whole(ask: Asker) -> None:
    execution_id = ask.waiting()
    page = ask("GET", f"executions/{execution_id}/logs", limit="1").body
    (entry,) = page["logs"]
    assert (entry["step"], entry["task"], len(entry["stdout"])) == ("start", "say", 4096)
    assert page["more"]
    rest = ask("GET", f"executions/{execution_id}/logs", after=page["cursor"]).body
    assert (rest["logs"], rest["more"]) == ([], False)
    (whole,) = ask("GET", f"executions/{execution_id}/logs", full="true").body["logs"]
    assert whole["stdout"] == "x" * 9_000
    assert "more" not in whole


def test_every_event_has_its_state(ask: Asker) -> None:
    execution_id = ask.waiting()
    events = ask("GET", f"executions/{execution_id}/events").body["events"]
    states = {e["event_id"]: ask("GET", f"executions/{execution_id}/state", at=e["event_id"]) for e in events}
    assert {s.status for s in states.values()} == {200}
    processed = next(e for e in events if e["name"] == "TaskProcessed" and e["task"] == "list")
    run = states[processed["event_id"]].body["run"]
    assert run["ctx"] == {"seen": 2}
    assert run["tasks"]["list"]["status"] == "ok"
    started = next(e for e in events if e["name"] == "TaskStarted" and e["task"] == "list")
    assert "list" not in states[started["event_id"]].body["run"]["tasks"]
    patched = next(e for e in events if e["name"] == "CtxPatched")
    assert states[patched["event_id"]].body["ctx"] == {"seen": 2}
    assert states[events[0]["event_id"]].body["ctx"] == {}


def test_a_replay_agrees_and_another_playbook_shows_where_it_would_not(ask: Asker) -> None:
    execution_id = ask.waiting()
    path = f"executions/{execution_id}/replay"
    assert ask("GET", path).body["differences"] == []
    other = ask("POST", path, {"playbook": SOURCE.replace("to: Ada", "to: Eve")}).body
    (difference,) = other["differences"]
    assert "Eve" in json.dumps(difference["decided"])
    assert "Ada" in json.dumps(difference["recorded"])
    same = ask("POST", path, {"playbook": SOURCE.replace("views }", "views }\n# another text")}).body
    assert same["differences"] == []
    rest = ask("GET", path, after="0").body
    assert rest["commits"] == ask("GET", path).body["commits"] - 1
    lacking = SOURCE.replace("step: ask", "step: other")
    assert ask("POST", path, {"playbook": lacking}, after="1").status == 400


@pytest.mark.parametrize(("form", "begins"), [("mermaid", "flowchart TD"), ("dot", "digraph"), ("svg", "<svg")])
def test_a_graph_comes_in_its_own_type(ask: Asker, form: str, begins: str) -> None:
    answer = ask("GET", f"executions/{ask.waiting()}/graph", format=form)
    assert answer.text().startswith(begins)
    assert answer.content_type == ("image/svg+xml" if form == "svg" else "text/plain")
    assert ask("GET", f"executions/{ask.waiting()}/graph").body["nodes"][1]["status"] == "waiting"


def test_a_page_of_events_stays_within_the_response_limit(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_core.views.history.pages.MAX_PAGE_BYTES", 5_000)
    execution_id = ask.waiting()
    found: list[Any] = []
    after: dict[str, Any] = {}
    while True:
        page = ask("GET", f"executions/{execution_id}/events", **after).body
        assert len(json.dumps(page["events"])) < 5_000 + 15_000
        found += page["events"]
        after = {"after": page["cursor"]}
        if not page["more"]:
            break
    assert len(found) > 10
    monkeypatch.undo()
    assert found == ask("GET", f"executions/{execution_id}/events").body["events"]


def test_a_cursor_signed_with_another_key_is_refused(ask: Asker) -> None:
    execution_id = ask.waiting()
    cursor = ask("GET", f"executions/{execution_id}/events", limit="2").body["cursor"]
    assert ask("GET", f"executions/{execution_id}/events", after=cursor).status == 200
    stranger = Service(lambda: ask.local.control, lambda: b"guessed: the table's name")
    path = f"/api/executions/{execution_id}/events"
    assert api_requests.ask(stranger, "GET", path, {"after": cursor}).status == 400


def test_an_answer_too_large_for_the_gateway_is_refused_not_lost(ask: Asker) -> None:
    answer = Api(ask.service, max_answer=500).resolve({"httpMethod": "GET", "path": "/api/openapi.json"}, None)
    assert answer["statusCode"] == 413
    assert json.loads(answer["body"])["error"]["code"] == "too_large"
