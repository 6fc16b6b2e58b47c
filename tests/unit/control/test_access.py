"""Access rights: rights of callers, playbooks passed as text, credentials for some playbooks only, available pools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.api.callers import Rights
from noetl_core.api.rights import RIGHTS
from noetl_core.control.admit import StartRequest
from noetl_core.control.triggers.uploads import take_upload
from noetl_core.ports import Upload
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.service.operations.base import cursor_key
from noetl_core.views.executions import executions
from tests import api_requests
from tests.api_requests import Answer, routes

HELD = "tok-7d1e5c90ab"
DAILY = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: daily, path: reports/daily }
keychain: [{ name: api, kind: credential }]
workflow:
  - step: read
    tool:
      - { name: field, kind: secrets, secret: api, field: token }
      - { name: chain, kind: noop, result: "{{ keychain.api | length }}" }
      - { name: say, kind: noop, result: read }
"""
THEFT = DAILY.replace("result: read", "result: stolen")
PARENT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: parent, path: reports/parent }
workflow: [{ step: call, tool: { kind: playbook, path: %s } }]
"""
IAM = {"identity": {"userArn": "arn:aws:sts::123456789012:assumed-role/Clerk/me"}}


def token(*scopes: str, groups: str = "") -> dict[str, Any]:
    return {"authorizer": {"claims": {"scope": " ".join(f"noetl/{s}" for s in scopes), "cognito:groups": groups}}}


class Asker:
    """Requests to the routes of a stack, by callers of all kinds, over a local store."""

    def __init__(self, folder: Path) -> None:
        self.secrets = LocalSecrets(folder / "credentials.json")
        self.local = LocalWiring(folder / "runs.db", secrets=self.secrets)
        self.rights = Rights()

    def as_on_a_stack(self) -> None:
        """Demand that each credential names its playbooks."""
        self.local.worker.paths_required = True

    def __call__(self, caller: Mapping[str, Any], method: str, path: str, body: Any = None, **query: str) -> Answer:
        control = self.local.control
        service = Service(
            lambda: control,
            cursor_key(lambda: control),
            secrets=lambda: self.secrets,
            rights=self.rights,
            paths_required=self.local.worker.paths_required,
        )
        text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
        return api_requests.ask(service, method, f"/api/{path}", query, body=text, caller=caller)

    def ran(self, answer: Answer) -> tuple[str, Any]:
        """Return the end of an accepted execution: its status, and its result or error."""
        assert answer.status == 202, answer.body
        assert isinstance(answer.body, Mapping)
        execution_id = answer.body["execution_id"]
        self.local.run(execution_id)
        summary = self({}, "GET", f"executions/{execution_id}").body
        assert isinstance(summary, Mapping)
        return summary["status"], summary["error"] or summary["result"]


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Asker]:
    asker = Asker(tmp_path)
    yield asker
    asker.local.close()


# --- rights ---------------------------------------------------------------------------------------------------------------


def test_every_route_needs_a_right_except_those_about_the_service() -> None:
    free = {r.path for r in routes() if not r.right}
    assert free == {"/api/health", "/api/openapi.json", "/api/docs"}
    assert {r.right for r in routes() if r.right} == set(RIGHTS) - {"executions:inline", "secrets:read"}


def test_the_page_on_access_names_every_right() -> None:
    text = (Path(__file__).parents[3] / "docs" / "access.md").read_text()
    told = dict(re.findall(r"^\| `([a-z]+:[a-z]+)` \| ([^`|]+) \|$", text, re.MULTILINE))
    assert told == RIGHTS


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("method", "path", "body", "right"),
    [
        ("GET", "executions", None, "executions:read"),
        ("POST", "executions", {"path": "reports/daily"}, "executions:start"),
        ("POST", "executions/1/cancel", {}, "executions:operate"),
        ("POST", "events", {"execution_id": "1", "name": "x"}, "executions:operate"),
        ("GET", "executions/1/callbacks", None, "callbacks:answer"),
        ("POST", "callbacks", {"token": "x"}, "callbacks:answer"),
        ("GET", "callbacks", None, "executions:read"),
        ("POST", "executions/1/callbacks/w", {"data": 1}, "callbacks:answer"),
        ("POST", "playbooks", DAILY, "playbooks:write"),
        ("GET", "playbooks", None, "playbooks:read"),
        ("GET", "credentials", None, "credentials:read"),
        ("POST", "credentials", {"name": "a", "data": {"b": 1}}, "credentials:write"),
        ("DELETE", "credentials/a", None, "credentials:write"),
    ],
)
def test_a_token_opens_the_routes_its_scopes_name_and_no_others(
    ask: Asker, method: str, path: str, body: Any, right: str
) -> None:
    others = [r for r in RIGHTS if r != right]
    refused = ask(token(*others), method, path, body)
    assert refused.status == 403
    assert f"`{right}`" in refused.text()
    for allowed in (token(right), token(groups=f"[ops {right}]")):
        answer = ask(allowed, method, path, body)
        assert answer.status != 403 or "right" not in answer.text()
    assert ask({"authorizer": {"claims": {"scope": f"elsewhere/{right}"}}}, method, path, body).status == 403


def test_a_request_without_an_identity_is_refused_only_under_jwt(ask: Asker) -> None:
    for auth, status in (("NONE", 200), ("IAM", 200), ("JWT", 403)):
        ask.rights = Rights(auth)
        assert ask({}, "GET", "executions").status == status
    assert ask({}, "POST", "callbacks", {"token": "x"}).status == 403  # it is the token that is none
    assert "right" not in ask({}, "POST", "callbacks", {"token": "x"}).text()
    ask.rights = Rights("IAM", inliners=frozenset({"*"}))
    assert ask({}, "POST", "executions", {"playbook": DAILY}).body["playbook"]["version"] == 0


def test_reading_the_data_of_a_credential_needs_the_right_secrets_read(ask: Asker) -> None:
    ask({}, "POST", "credentials", {"name": "api", "data": {"token": HELD}})
    seen = ask(token("credentials:read"), "GET", "credentials/api", include_data="true")
    assert (seen.status, HELD in seen.text()) == (403, False)
    shown = ask(token("credentials:read", "secrets:read"), "GET", "credentials/api", include_data="true")
    assert (shown.status, HELD in shown.text()) == (200, True)


# --- playbooks by their text ----------------------------------------------------------------------------------------------


def test_starting_a_text_without_the_right_to_register_creates_no_version(ask: Asker) -> None:
    assert ask({}, "POST", "playbooks", DAILY.replace("result: read", "result: registered")).status == 201
    for caller in (token("executions:start", "executions:inline"), IAM):
        started = ask(caller, "POST", "executions", {"playbook": PARENT % "reports/none", "payload": {}})
        assert started.status == 202
        assert started.body["playbook"]["version"] == 0
    listed = ask({}, "GET", "playbooks").body["playbooks"]
    assert [(p["path"], p["version"]) for p in listed] == [("reports/daily", 1)]
    assert ask({}, "GET", "playbooks/reports/parent").status == 404


def test_starting_or_redriving_with_a_text_needs_the_inline_right(ask: Asker) -> None:
    execution = ask({}, "POST", "executions", {"playbook": PARENT % "reports/none"}).body["execution_id"]
    ask.local.run(execution)
    clerk = token("executions:start", "executions:operate")
    assert ask(clerk, "POST", "executions", {"playbook": DAILY}).status == 403
    assert ask(clerk, "POST", f"executions/{execution}/redrive", {"playbook": PARENT % "reports/other"}).status == 403
    ask.rights = Rights("IAM", inliners=frozenset({"arn:aws:iam::123456789012:role/Author"}))
    assert ask(IAM, "POST", "executions", {"playbook": DAILY}).status == 403
    author = {"identity": {"userArn": "arn:aws:sts::123456789012:assumed-role/Author/me"}}
    assert ask(author, "POST", "executions", {"playbook": DAILY}).status == 202


def test_on_a_stack_nobody_starts_a_text_until_the_right_is_given(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_AUTH", "IAM")
    monkeypatch.delenv("INLINE_STARTERS", raising=False)
    ask.rights = Rights.from_environment()
    for caller in (IAM, {}):
        refused = ask(caller, "POST", "executions", {"playbook": DAILY})
        assert refused.status == 403
        assert "the right `executions:inline` is needed; register the playbook" in refused.text()
        assert "InlineStarters" in refused.text()
    assert ask(IAM, "POST", "playbooks", DAILY).status == 201
    assert ask(IAM, "POST", "executions", {"path": "reports/daily"}).status == 202
    monkeypatch.setenv("API_AUTH", "NONE")
    ask.rights = Rights.from_environment()
    assert ask({}, "POST", "executions", {"playbook": DAILY}).status == 202


def test_a_text_that_was_only_started_cannot_be_started_by_digest(ask: Asker) -> None:
    digest = ask(IAM, "POST", "executions", {"playbook": THEFT}).body["playbook"]["digest"]
    assert ask(IAM, "POST", "executions", {"playbook_id": digest}).status == 404
    assert ask({}, "POST", "playbooks", THEFT).status == 201
    assert ask(IAM, "POST", "executions", {"playbook_id": digest}).body["playbook"]["version"] == 1


# --- credentials for some playbooks ---------------------------------------------------------------------------------------


@pytest.fixture
def kept(ask: Asker) -> Asker:
    """A credential for the playbooks under `reports/`, and one of them registered."""
    body = {"name": "api", "data": {"token": HELD}, "paths": ["reports/*"]}
    assert ask({}, "POST", "credentials", body).body["paths"] == ["reports/*"]
    assert ask({}, "POST", "playbooks", DAILY).status == 201
    return ask


def test_a_registered_playbook_of_a_named_path_reads_the_credential(kept: Asker) -> None:
    assert kept.ran(kept(IAM, "POST", "executions", {"path": "reports/daily"})) == ("completed", "read")


def test_a_credential_without_paths_is_every_playbooks(ask: Asker) -> None:
    ask({}, "POST", "credentials", {"name": "api", "data": {"token": HELD}})
    (listed,) = ask({}, "GET", "credentials").body["credentials"]
    assert (listed["name"], listed["fields"], listed["paths"]) == ("api", ["token"], None)
    assert ask.ran(ask(IAM, "POST", "executions", {"playbook": DAILY})) == ("completed", "read")


def test_on_a_stack_a_credential_names_its_playbooks(ask: Asker) -> None:
    ask.as_on_a_stack()
    body = {"name": "api", "data": {"token": HELD}}
    answer = ask({}, "POST", "credentials", body)
    assert (answer.status, answer.body["error"]["code"]) == (422, "paths_missing")
    assert "--paths '*'" in answer.body["error"]["details"][0]["hint"]
    assert ask({}, "GET", "credentials").body["credentials"] == []
    assert ask({}, "POST", "credentials", {**body, "paths": ["*"]}).status == 201
    assert ask({}, "POST", "playbooks", DAILY).status == 201
    assert ask.ran(ask(IAM, "POST", "executions", {"path": "reports/daily"})) == ("completed", "read")


def test_on_a_stack_an_older_credential_without_paths_is_refused_where_it_is_read(ask: Asker) -> None:
    ask.as_on_a_stack()
    ask.secrets.put("api", {"data": {"token": HELD}})
    assert ask({}, "POST", "playbooks", DAILY).status == 201
    ended = ask.ran(ask(IAM, "POST", "executions", {"path": "reports/daily"}))
    refused(ended)
    assert "noetl credentials put api --data @FILE --paths ... --on stack" in ended[1]["message"]


def refused(ended: tuple[str, Any]) -> None:
    status, error = ended
    assert status == "failed"
    assert error["kind"] == "auth"
    assert "credential 'api'" in error["message"]
    assert HELD not in json.dumps(error)


@pytest.mark.parametrize("task", ["field", "chain"])
def test_a_playbook_of_another_path_does_not_read_the_credential(kept: Asker, task: str) -> None:
    elsewhere = DAILY.replace("reports/daily", "team/daily")
    if task == "chain":
        elsewhere = elsewhere.replace("      - { name: field, kind: secrets, secret: api, field: token }\n", "")
    kept({}, "POST", "playbooks", elsewhere)
    refused(kept.ran(kept(IAM, "POST", "executions", {"path": "team/daily"})))


def test_a_text_that_claims_a_named_path_does_not_read_the_credential(kept: Asker) -> None:
    refused(kept.ran(kept(IAM, "POST", "executions", {"playbook": THEFT})))
    refused(kept.ran(kept(token("executions:start", "executions:inline"), "POST", "executions", {"playbook": THEFT})))


def test_the_text_of_a_registered_version_reads_the_credential_for_any_sender(kept: Asker) -> None:
    assert kept.ran(kept(IAM, "POST", "executions", {"playbook": DAILY})) == ("completed", "read")


def test_a_redrive_with_another_text_does_not_read_the_credential(kept: Asker) -> None:
    kept.secrets.delete("api")
    answer = kept(IAM, "POST", "executions", {"path": "reports/daily"})
    assert kept.ran(answer)[0] == "failed"
    kept({}, "POST", "credentials", {"name": "api", "data": {"token": HELD}, "paths": ["reports/*"]})
    redriven = kept(IAM, "POST", f"executions/{answer.body['execution_id']}/redrive", {"playbook": THEFT})
    refused(kept.ran(redriven))


def test_a_child_reads_by_its_own_path_not_by_its_parents(kept: Asker) -> None:
    kept({}, "POST", "playbooks", DAILY.replace("reports/daily", "team/daily"))
    kept({}, "POST", "playbooks", PARENT % "team/daily")
    kept.local.run(execution := kept({}, "POST", "executions", {"path": "reports/parent"}).body["execution_id"])
    assert kept({}, "GET", f"executions/{execution}").body["status"] == "failed"
    assert kept.ran(kept(IAM, "POST", "executions", {"playbook": PARENT % "reports/daily"}))[0] == "completed"


def test_a_credential_with_invalid_paths_is_read_by_no_playbook(kept: Asker) -> None:
    for odd in ("reports/*", [7], {"a": 1}, []):
        kept.secrets.put("api", {"data": {"token": HELD}, "paths": odd})
        refused(kept.ran(kept(IAM, "POST", "executions", {"path": "reports/daily"})))
    assert kept({}, "POST", "credentials", {"name": "api", "data": {"a": 1}, "paths": []}).status == 400
    assert kept({}, "POST", "credentials", {"name": "api", "data": {"a": 1}, "paths": [1]}).status == 400


class Put:
    """An inbox that holds one object."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, upload: Upload) -> bytes:
        return self.text.encode()

    def copy(self, upload: Upload, key: str) -> Mapping[str, Any]:
        return {"kind": "result_ref", "store": "s3", "key": key, "size": len(self.text)}

    def reject(self, upload: Upload, error: Mapping[str, Any]) -> None:
        """Nobody looks for it here."""


def test_an_upload_registers_by_the_right_to_put_it(kept: Asker) -> None:
    inbox = Put(THEFT)
    assert take_upload(kept.local.control, Upload("inbox", "playbooks/reports/daily.yaml"), inbox).startswith("registered")
    assert take_upload(kept.local.control, Upload("inbox", "playbooks/team/daily.yaml"), inbox).startswith("refused")
    assert kept.ran(kept(IAM, "POST", "executions", {"path": "reports/daily"})) == ("completed", "stolen")


# --- pools ----------------------------------------------------------------------------------------------------------------

POOLED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: pooled, path: test/pooled }
workflow:
  - step: work
    spec: { pool: pyhton }
    tool: { kind: noop }
"""


def test_a_pool_that_is_not_there_is_refused_where_the_execution_would_begin(ask: Asker) -> None:
    answer = ask({}, "POST", "executions", {"playbook": POOLED})
    assert (answer.status, answer.body["error"]["code"]) == (422, "unknown_pool")
    message = answer.body["error"]["message"]
    assert message == "step work names pool 'pyhton', which does not exist (did you mean \"python\"?)"
    elsewhere = ask({}, "POST", "executions", {"playbook": POOLED.replace("pyhton", "gpu")}).text()
    assert "there are: default, python" in elsewhere
    assert ask({}, "GET", "executions").body["executions"] == []
    assert ask.ran(ask({}, "POST", "executions", {"playbook": POOLED.replace("pyhton", "python")}))[0] == "completed"


def test_a_child_or_an_upload_with_an_unknown_pool_fails_by_name(ask: Asker) -> None:
    ask({}, "POST", "playbooks", POOLED)
    status, error = ask.ran(ask({}, "POST", "executions", {"playbook": PARENT % "test/pooled"}))
    assert status == "failed"
    assert "'pyhton'" in error["message"]
    outcome = take_upload(ask.local.control, Upload("inbox", "triggers/test/pooled/x.csv", etag="1"), Put("a,b"))
    assert outcome.startswith("refused") and "'pyhton'" in outcome


def test_a_local_run_accepts_the_pools_of_noetl_pools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_POOLS", "pyhton, big")
    local = LocalWiring(tmp_path / "runs.db")
    started = local.start(StartRequest(playbook=POOLED))
    local.run(started.execution_id)
    assert local.control.load(started.execution_id).status == "completed"
    local.close()


# --- a parent that a caller names -------------------------------------------------------------------------------------------

ECHO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: echo, path: test/echo}
workload: {given: null, n: "{{ workload.given.private | default('nothing') }}"}
workflow: [{step: start, tool: {kind: noop, result: "{{ workload.given.private | default('nothing') }}"}}]
"""


def test_naming_another_execution_as_parent_opens_none_of_its_values_and_writes_nothing_into_its_log(tmp_path: Path) -> None:
    """A caller that may start executions may name any parent. It is only a label: a called execution alone is family."""
    local = LocalWiring(tmp_path / "runs.db")
    theirs = local.start(StartRequest(playbook=ECHO)).execution_id
    assert local.run(theirs, timeout_s=20)
    key = f"{theirs}/upload/object"
    local.control.results.put(key, b'{"private": "of somebody else"}')
    before = local.control.load(theirs).seq
    reference = {"kind": "result_ref", "store": "s3", "key": key}
    asked = {"playbook": ECHO, "parent": {"execution_id": theirs}, "payload": {"given": reference}}
    service = Service(lambda: local.control, cursor_key(lambda: local.control))
    mine = api_requests.ask(service, "POST", "/api/executions", body=json.dumps(asked)).body["execution_id"]
    assert local.run(mine, timeout_s=20)
    summary = executions.summary(local.control, mine)
    rendered, after = local.control.load(mine).rendered, local.control.load(theirs).seq
    local.close()
    assert (summary["status"], summary["result"], summary["parent"]) == ("completed", "nothing", {"execution_id": theirs})
    assert rendered == {"n": "nothing"}
    assert after == before
