"""Callers in the log: every start, operation, answer, registration and stored credential records its caller and the way of the
request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.api.rights import RIGHTS
from noetl_core.control.admit import StartRequest, register
from noetl_core.control.triggers.notifications import uploads_in
from noetl_core.control.triggers.start import start_triggered
from noetl_core.control.triggers.uploads import take_upload
from noetl_core.engine.fold.control_stream import fold
from noetl_core.engine.state import State
from noetl_core.events.event import Event
from noetl_core.ports import Upload
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.service.operations.base import cursor_key
from tests import api_requests
from tests.api_requests import Answer

ADA = {"identity": {"userArn": "arn:aws:sts::123456789012:assumed-role/Author/ada"}}
EVE = {"authorizer": {"claims": {"sub": "7f3c-eve", "scope": " ".join(f"noetl/{right}" for right in RIGHTS)}}}
ARN = ADA["identity"]["userArn"]
WAITS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: waits, path: team/waits }
executor: { spec: { triggers: [{ name: nightly, schedule: "0 2 * * *" }] } }
workflow:
  - step: call
    tool: { kind: playbook, path: team/child }
  - step: wait
    tool: { kind: callback, signal: go }
"""
CHILD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: child, path: team/child }
workload: { s3: null }
workflow:
  - step: wait
    tool: { kind: callback, signal: go }
"""


class Asker:
    """Requests of several callers to the routes of a stack, over a local store."""

    def __init__(self, folder: Path) -> None:
        self.local = LocalWiring(folder / "runs.db")
        self.secrets = LocalSecrets(folder / "credentials.json")
        control = self.local.control
        self.service = Service(lambda: control, cursor_key(lambda: control), secrets=lambda: self.secrets)

    def __call__(self, caller: Mapping[str, Any], method: str, path: str, body: Any = None, agent: str = "noetl-cli/1") -> Answer:
        text = None if body is None else json.dumps(body)
        headers = {"User-Agent": agent} if agent else {}
        return api_requests.ask(self.service, method, f"/api/{path}", body=text, caller=caller, headers=headers)

    def until_waiting(self, execution: str) -> None:
        """Carry the execution out until it waits."""
        for _ in range(200):
            self.local.run(execution, timeout_s=0.05)
            if self(ADA, "GET", f"executions/{execution}").body.get("waiting_for"):
                return
        raise AssertionError("it does not wait")

    def by(self, execution_id: str, name: str) -> list[Any]:
        """The `by` of the events of that name."""
        events = self({}, "GET", f"executions/{execution_id}/events").body["events"]
        return [event["data"].get("by") for event in events if event["name"] == name]


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Asker]:
    asker = Asker(tmp_path)
    yield asker
    asker.local.close()


def test_every_operation_on_an_execution_records_its_principal_and_source(ask: Asker) -> None:
    register(ask.local.control, CHILD)
    execution = ask(ADA, "POST", "executions", {"path": "team/child"}).body["execution_id"]
    ask.until_waiting(execution)
    ask(ADA, "POST", f"executions/{execution}/pause", {}, agent="Mozilla/5.0")
    ask(EVE, "POST", f"executions/{execution}/resume", {}, agent="curl/8")
    ask(EVE, "POST", "events", {"execution_id": execution, "name": "other"}, agent="")
    ask({}, "POST", f"executions/{execution}/cancel", {"reason": "no"})
    ask(ADA, "POST", f"executions/{execution}/redrive", {"from": "wait"})
    ada, eve = {"principal": ARN, "source": "cli"}, {"principal": "7f3c-eve", "source": "api"}
    expected = {
        "start": ("PlaybookExecutionRequested", ada),
        "pause": ("ExecutionPaused", {"principal": ARN, "source": "console"}),
        "resume": ("ExecutionResumed", eve),
        "answer": ("SignalReceived", eve),
        "cancel": ("ExecutionCancelled", {"principal": "anonymous", "source": "cli"}),
        "redrive": ("ExecutionRedriven", ada),
    }
    for name, by in expected.values():
        assert ask.by(execution, name) == [by], name
    assert ask({}, "GET", f"executions/{execution}").body["by"] == {what: by for what, (_, by) in expected.items()}


def test_a_batch_records_its_caller_for_each_execution(ask: Asker) -> None:
    register(ask.local.control, CHILD)
    execution = ask(ADA, "POST", "executions", {"path": "team/child"}).body["execution_id"]
    ask(EVE, "POST", "executions/batch", {"filter": {"ids": [execution]}, "action": "cancel"})
    assert ask.by(execution, "ExecutionCancelled") == [{"principal": "7f3c-eve", "source": "cli"}]


def test_an_answer_by_token_records_the_caller_that_sent_it(ask: Asker) -> None:
    register(ask.local.control, CHILD.replace(", signal: go", ""))
    execution = ask(ADA, "POST", "executions", {"path": "team/child"}).body["execution_id"]
    ask.until_waiting(execution)
    token = ask({}, "GET", f"executions/{execution}/callbacks").body["callbacks"][0]["token"]
    assert ask(EVE, "POST", "callbacks", {"token": token, "data": 1}).status == 202
    assert ask.by(execution, "SignalReceived") == [{"principal": "7f3c-eve", "source": "cli"}]
    assert token not in json.dumps(ask({}, "GET", f"executions/{execution}/events").body)


def test_a_repeated_request_by_another_caller_keeps_the_first_caller(ask: Asker) -> None:
    register(ask.local.control, CHILD)
    body = {"path": "team/child", "idempotency_key": "k"}
    first, again = ask(ADA, "POST", "executions", body), ask(EVE, "POST", "executions", body)
    assert (first.body["created"], again.status, again.body["created"]) == (True, 202, False)
    assert ask.by(first.body["execution_id"], "PlaybookExecutionRequested") == [{"principal": ARN, "source": "cli"}]


def test_a_childs_start_and_cancellation_are_recorded_as_its_parents(ask: Asker) -> None:
    register(ask.local.control, CHILD)
    register(ask.local.control, WAITS)
    parent = ask(ADA, "POST", "executions", {"path": "team/waits"}).body["execution_id"]
    ask.until_waiting(parent)
    (child,) = [e for e in ask({}, "GET", "executions").body["executions"] if e["playbook"]["path"] == "team/child"]
    ask(EVE, "POST", f"executions/{parent}/cancel", {})
    by_parent = {"principal": parent, "source": "playbook"}
    assert ask.by(child["execution_id"], "PlaybookExecutionRequested") == [by_parent]
    assert ask.by(child["execution_id"], "ExecutionCancelled") == [by_parent]


def test_a_scheduled_start_records_the_trigger_a_manual_one_its_caller(ask: Asker) -> None:
    register(ask.local.control, CHILD)
    register(ask.local.control, WAITS)
    record = ask.local.control.triggers.trigger("team/waits", "nightly")
    assert record is not None
    execution = start_triggered(ask.local.control, record, "1", 0, {}).execution_id
    assert ask.by(str(execution), "PlaybookExecutionRequested") == [{"principal": "team/waits/nightly", "source": "schedule"}]
    fired = ask(ADA, "POST", "triggers/team/waits/nightly/fire", {}).body["execution_id"]
    assert ask.by(fired, "PlaybookExecutionRequested") == [{"principal": ARN, "source": "cli"}]


class Put:
    """An inbox that holds one object."""

    def read(self, upload: Upload) -> bytes:
        return CHILD.encode()

    def copy(self, upload: Upload, key: str) -> Mapping[str, Any]:
        return {"kind": "result_ref", "store": "s3", "key": key, "size": 3}

    def reject(self, upload: Upload, error: Mapping[str, Any]) -> None:
        raise AssertionError(error)


def test_an_upload_registers_and_starts_in_its_uploaders_name(ask: Asker) -> None:
    def put(key: str) -> Upload:
        s3 = {"bucket": {"name": "inbox"}, "object": {"key": key, "eTag": "1"}}
        (upload,) = uploads_in({"Records": [{"s3": s3, "userIdentity": {"principalId": "AWS:AROAX:ada"}}]})
        return upload

    assert take_upload(ask.local.control, put("playbooks/team/child.yaml"), Put()).startswith("registered")
    (change,) = ask.local.control.catalog.about("team/child").changes
    assert (change.by, change.what) == ("AWS:AROAX:ada", "registered version 1")
    execution = take_upload(ask.local.control, put("triggers/team/child/x.csv"), Put()).split()[-1]
    assert ask.by(execution, "PlaybookExecutionRequested") == [{"principal": "AWS:AROAX:ada", "source": "s3"}]


def test_registrations_trigger_switches_and_credentials_record_their_caller(ask: Asker) -> None:
    ask(ADA, "POST", "playbooks", {"playbook": CHILD})
    for _ in range(2):  # the same text again registers nothing
        ask(ADA, "POST", "playbooks", {"playbook": WAITS})
    ask(EVE, "POST", "triggers/team/waits/nightly/disable", {})
    changes = ask({}, "GET", "playbooks/team/waits/about").body["changes"]
    assert [(c["by"], c["what"]) for c in changes] == [
        ("7f3c-eve", "trigger nightly disabled"),
        (ARN, "registered version 1"),
    ]
    ask(EVE, "POST", "credentials", {"name": "api", "data": {"token": "t"}})
    assert ask({}, "GET", "credentials/api").body["by"] == {"principal": "7f3c-eve", "source": "cli"}


def test_a_principal_is_of_bounded_length(ask: Asker) -> None:
    register(ask.local.control, CHILD)
    long = {"authorizer": {"claims": {"sub": "x" * 5000}}}
    execution = ask(long, "POST", "executions", {"path": "team/child"}).body.get("execution_id")
    assert execution is None or len(ask.by(execution, "PlaybookExecutionRequested")[0]["principal"]) == 200


def test_logs_whose_signals_have_a_nonce_as_author_still_load() -> None:
    state = State("1")
    older: Any = Event("SignalReceived", 0, {"id": "s", "name": "n", "by": "nonce"})
    fold(state, older, 0)
    assert state.by == {} and state.seen_signals == ["s"]
    assert StartRequest(path="a").fingerprint() == StartRequest(path="a", by={"principal": "p", "source": "api"}).fingerprint()
