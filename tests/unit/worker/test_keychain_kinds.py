"""The kinds of keychain entries: what each is resolved to, by whom they are shared, and what is said of those that cannot be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.control.admit import StartRequest
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.engine.redrive.plan import Redrive
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from tests.credentials import Held
from tests.oauth_server import CLIENT, OAuthServer
from tests.running import events_of
from tests.servers import serving

STORED: dict[str, dict[str, Any]] = {
    "pg_reports": {"type": "postgres", "data": {"user": "reader", "password": "s3cret-word"}},
    "partner/client-id": {"data": {"value": CLIENT["client_id"]}},
    "partner/client-secret": {"data": {"secret": CLIENT["client_secret"], "note": "x"}},
    "jwt": {"type": "bearer", "data": {"token": "st0red-t0ken-word"}},
    "several": {"data": {"a": "1-of-many", "b": "2-of-many"}},
}


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with serving(OAuthServer()) as server:
        yield server


def run(
    keychain: list[dict[str, Any]], tasks: list[dict[str, Any]], tmp_path: Path | None = None, **payload: Any
) -> dict[str, Any]:
    """The summary of a run of one step, with the text of its log as `log`."""
    document = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "k", "path": "t/k"},
        "keychain": keychain,
        "workload": payload,
        "workflow": [{"step": "start", "tool": tasks}],
    }
    held: Any = Held(STORED)
    local = LocalWiring(":memory:" if tmp_path is None else tmp_path / "log.sqlite", secrets=held)
    try:
        started = local.start(StartRequest(playbook=yaml.safe_dump(document, sort_keys=False)))
        local.run(started.execution_id)
        out = executions.summary(local.control, started.execution_id)
        out["log"] = str(events_of(local.control, started.execution_id, limit=1000)[0])
        return out
    finally:
        local.close()


def known(value: str, expected: str) -> list[dict[str, Any]]:
    """A task that fails unless `value` is what is expected; what a secret decides is secret itself."""
    rules = [{"when": "{{ outcome.result == 'yes' }}", "then": {"do": "continue"}}, {"else": {"then": {"do": "fail"}}}]
    test = "{{ 'yes' if " + value + " == '" + expected + "' else 'no' }}"
    return [{"name": "t", "kind": "noop", "result": test, "spec": {"policy": {"rules": rules}}}]


OAUTH = {
    "kind": "oauth2",
    "token_url": "{{ workload.api }}/token",
    "client_id": "{{ keychain.client.id }}",
    "client_secret": "{{ keychain.client.secret }}",
}
CLIENT_ENTRY = {"name": "client", "kind": "secret_manager", "map": {"id": "partner/client-id", "secret": "partner/client-secret"}}


@pytest.mark.parametrize(
    ("entries", "value", "expected"),
    [
        ([{"name": "x", "kind": "static", "data": {"base": "b-{{ workload.env }}"}}], "keychain.x.base", "b-prod"),
        ([{"name": "x", "kind": "static", "base": "b", "version": "v3"}], "keychain.x.version", "v3"),
        ([{"name": "x", "kind": "credential_ref", "ref": "pg_{{ workload.what }}"}], "keychain.x.user", "reader"),
        ([{"name": "x", "kind": "secret_manager", "secret": "pg_reports"}], "keychain.x.user", "reader"),
        ([{"name": "x", "kind": "secret_manager", "secret": "pg_reports", "field": "user"}], "keychain.x.value", "reader"),
        ([CLIENT_ENTRY], "keychain.client.secret", CLIENT["client_secret"]),
        ([{"name": "x", "kind": "bearer", "credential": "jwt"}], "keychain.x.token", "st0red-t0ken-word"),
        (
            [CLIENT_ENTRY, {"name": "x", "kind": "bearer", "token": "t-{{ keychain.client.id }}"}],
            "keychain.x.token",
            "t-my-client",
        ),
        ([{"name": "pg_reports", "kind": "anything"}], "keychain.pg_reports.user", "reader"),
    ],
)
def test_each_kind_of_entry_gives_its_fields(entries: list[dict[str, Any]], value: str, expected: str) -> None:
    out = run(entries, known(value, expected), env="prod", what="reports")
    assert (out["status"], out["error"]) == ("completed", None)
    assert "s3cret" not in out["log"] and "st0red" not in out["log"]


def test_a_token_is_read_in_a_template_and_used_by_auth_with_one_request(server: OAuthServer, tmp_path: Path) -> None:
    get = {"kind": "http", "url": "{{ workload.api }}/api"}
    tasks: list[dict[str, Any]] = [
        {"name": "a", **get, "headers": {"Authorization": "Bearer {{ keychain.app.token }}"}},
        {"name": "b", **get, "auth": "app"},
        {"name": "c", **get, "auth": "{{ keychain.app }}"},
    ]
    out = run([CLIENT_ENTRY, {"name": "app", **OAUTH}], tasks, tmp_path, api=server.base)
    assert (out["status"], out["error"]) == ("completed", None)
    assert (len(server.token_requests), len({authorization for _, authorization in server.calls}), len(server.calls)) == (1, 1, 3)
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"acc3ss" not in files and b"s3cret" not in files and "acc3ss" not in json.dumps(out)


@pytest.mark.parametrize(("scope", "requests"), [({}, 2), ({"scope": "shared"}, 2), ({"scope": "global"}, 1)])
def test_only_tokens_of_global_scope_are_shared_by_executions(
    server: OAuthServer, tmp_path: Path, scope: dict[str, Any], requests: int
) -> None:
    task: dict[str, Any] = {"name": "a", "kind": "http", "url": "{{ workload.api }}/api", "auth": "app"}
    for _ in range(2):
        out = run([CLIENT_ENTRY, {"name": "app", **OAUTH, **scope}], [task], tmp_path, api=server.base)
        assert (out["status"], out["error"]) == ("completed", None)
    assert len(server.token_requests) == requests


def test_a_refused_token_request_fails_the_task_with_the_services_reason(server: OAuthServer) -> None:
    entry = {**OAUTH, "name": "app", "client_secret": "wr0ng-{{ keychain.client.secret }}"}
    out = run([CLIENT_ENTRY, entry], known("keychain.app.token", "x"), api=server.base)
    assert (out["status"], out["error"]["kind"]) == ("failed", "auth")
    assert 'keychain entry "app": no access token: POST' in out["error"]["message"]
    assert "(invalid_client: *** is not the secret)" in out["error"]["message"]
    assert "wr0ng" not in out["log"] and "s3cret" not in out["log"]


def test_a_token_that_cannot_be_had_now_is_worth_another_attempt(server: OAuthServer) -> None:
    server.refuse = (503, {})
    out = run([CLIENT_ENTRY, {"name": "app", **OAUTH}], known("keychain.app.token", "x"), api=server.base)
    assert (out["error"]["kind"], out["error"]["retryable"]) == ("server_error", True)


def test_a_token_of_another_kind_of_service(server: OAuthServer) -> None:
    server.answer = {"data": {"jwt": "acc3ss-t0ken-1-of-the-server"}, "access_token": None}
    entry = {"name": "app", "kind": "bearer", "token_url": "{{ workload.api }}/token", "json": CLIENT, "token_field": "data.jwt"}
    task = {"name": "a", "kind": "http", "url": "{{ workload.api }}/api", "auth": "app"}
    out = run([entry], [task], api=server.base)
    assert (out["status"], out["error"]) == ("completed", None)
    assert server.token_requests == [{**CLIENT, "authorization": "", "method": "POST"}]


# --- before the workflow starts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "kind", "message"),
    [
        (
            [{"name": "x", "kind": "pg", "credential": "nowhere"}],
            "not_found",
            "keychain entry \"x\": there is no credential 'nowhere'",
        ),
        (
            [{"name": "x", "kind": "secret_manager", "map": {"a": "nowhere"}}],
            "not_found",
            'keychain entry "x": there is no credential',
        ),
        (
            [{"name": "x", "kind": "secret_manager", "map": {"c": "several"}}],
            "schema",
            "has several fields and none called 'c': it has a, b",
        ),
        ([{"name": "x", "kind": "secret_manager", "secret": "several", "field": "c"}], "schema", "no field 'c': it has a, b"),
        ([{"name": "x", "kind": "bearer", "credential": "several"}], "schema", "has no field `token`: it has a, b"),
        (
            [CLIENT_ENTRY, {"name": "x", "kind": "static", "a": "{{ keychain.client.idd }}"}],
            "template",
            'keychain.client has no "idd"',
        ),
        (
            [{"name": "x", "kind": "oauth2", "token_url": "http://x"}],
            "schema",
            'keychain entry "x" of type oauth2 needs `client_id`',
        ),
    ],
)
def test_an_entry_that_cannot_be_resolved_fails_the_execution_before_anything_is_done(
    entries: list[dict[str, Any]], kind: str, message: str
) -> None:
    out = run(entries, [{"name": "a", "kind": "noop"}, {"name": "b", "kind": "noop", "result": "{{ keychain.x.a }}"}])
    assert (out["status"], out["error"]["kind"], out["error"]["step"]) == ("failed", kind, "start")
    assert message in out["error"]["message"] and out["error"]["message"].endswith("(task b of step start reads it)")
    assert "TaskProcessed" not in out["log"] and "TaskStarted" not in out["log"]


MISSING = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: k, path: t/k }
KEYCHAIN
workflow:
  - step: first
    tool: { name: begin, kind: noop, result: 1 }
    next: { arcs: [{ step: load }] }
  - step: load
    tool: { name: fetch, kind: http, url: "http://127.0.0.1:1/", auth: reports }
"""


@pytest.mark.parametrize(
    ("keychain", "step", "done", "says"),
    [
        ("keychain: [{ name: reports, kind: api_key }]", "first", [], "(task fetch of step load reads it)"),
        ("", "load", ["begin"], "http: there is no credential 'reports'"),
    ],
    ids=["an entry of the keychain", "named by auth alone"],
)
def test_a_missing_credential_is_named_with_its_task_and_the_remedy(
    tmp_path: Path, keychain: str, step: str, done: list[str], says: str
) -> None:
    local = LocalWiring(secrets=LocalSecrets(tmp_path / "credentials.json", {}))
    try:
        started = local.start(StartRequest(playbook=MISSING.replace("KEYCHAIN", keychain)))
        assert local.run(started.execution_id, timeout_s=10)
        error = executions.summary(local.control, started.execution_id)["error"]
        logged = events_of(local.control, started.execution_id, limit=100)[0]
    finally:
        local.close()
    assert (error["kind"], error["step"], error.get("task")) == ("not_found", step, "fetch" if done else None)
    assert "'reports'" in error["message"] and "noetl credentials put reports --data @FILE" in error["message"]
    assert says in error["message"]
    assert [e["task"] for e in logged if e["name"] == "TaskProcessed" and e["task"] != "fetch"] == done


def test_an_unused_entry_is_not_resolved() -> None:
    out = run([{"name": "x", "kind": "pg", "credential": "nowhere"}], [{"name": "a", "kind": "noop"}])
    assert out["status"] == "completed"


def test_an_entry_that_only_auth_names_is_resolved(server: OAuthServer) -> None:
    task = {"name": "a", "kind": "http", "url": "{{ workload.api }}/api", "auth": "x"}
    out = run([{"name": "x", "kind": "pg", "credential": "nowhere"}], [task], api=server.base)
    assert (out["status"], out["error"]["kind"]) == ("failed", "not_found") and not server.calls


def test_no_token_is_requested_before_one_is_needed(server: OAuthServer) -> None:
    tasks = [{"name": "a", "kind": "noop", "result": "{{ 1 if workload.on else keychain.app.token }}"}]
    out = run([CLIENT_ENTRY, {"name": "app", **OAUTH}], tasks, api=server.base, on=True)
    assert out["status"] == "completed" and not server.token_requests


def test_a_redrive_after_the_credential_was_added_runs_the_step(tmp_path: Path) -> None:
    document = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "k", "path": "t/k"},
        "keychain": [{"name": "x", "kind": "pg", "credential": "later"}],
        "workflow": [{"step": "start", "tool": known("keychain.x.user", "reader")}],
    }
    stored: dict[str, Any] = {}
    held: Any = Held(stored)
    local = LocalWiring(secrets=held)
    try:
        started = local.start(StartRequest(playbook=yaml.safe_dump(document, sort_keys=False)))
        local.run(started.execution_id)
        assert executions.summary(local.control, started.execution_id)["status"] == "failed"
        stored["later"] = STORED["pg_reports"]
        redrive(local.control, started.execution_id, Redrive())
        local.run(started.execution_id)
        out = executions.summary(local.control, started.execution_id)
        assert (out["status"], out["error"], out["steps"]["start"]["status"]) == ("completed", None, "ok")
    finally:
        local.close()
