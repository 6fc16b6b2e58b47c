"""The catalog, search attributes, handlers of failures and backfills on the stack, as a user asks for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest

from noetl_infra.stack import Stack
from tests import commands
from tests.commands import ENV, Completed
from tests.e2e.support import Api, aws
from tests.servers import Handler, serving, url_of
from tests.waiting import eventually

Run = Callable[..., Completed]


@pytest.fixture
def noetl(stack: Stack, tmp_path: Path) -> Run:
    def run(*arguments: str) -> Completed:
        return commands.run(*arguments, cwd=tmp_path, env={**ENV, "NOETL_API_URL": stack.api_url}, timeout=120)

    return run


def told(done: Completed) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def register(api: Api, source: Mapping[str, Any]) -> None:
    status, answer = api.call("POST", "/api/playbooks", json.dumps(source))
    assert status == 201, answer


def playbook(path: str, tool: Any, workload: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": path.rpartition("/")[2], "path": path},
        "executor": {"spec": spec},
        "workload": workload or {},
        "workflow": [{"step": "only", "tool": tool}],
    }


def noop(result: Any) -> dict[str, Any]:
    return {"kind": "noop", "result": result}


@pytest.mark.nightly
def test_an_alias_names_the_version_that_starts_and_weights_split_it(api: Api, noetl: Run) -> None:
    path = "catalog/greet"
    for word in ("Hello", "Good day"):
        register(api, playbook(path, noop(word)))
    parent = playbook("catalog/parent", {"kind": "playbook", "path": f"{path}@prod"})
    register(api, parent)
    assert noetl("playbooks", "alias", path, "prod", "1", "--on", "stack").stdout == f"{path}@prod is version 1\n"
    assert told(noetl("run", f"{path}@prod", "--on", "stack", "--output", "json"))["result"] == "Hello"
    assert told(noetl("run", "catalog/parent", "--on", "stack", "--output", "json"))["result"] == "Hello"
    assert noetl("playbooks", "alias", path, "prod", "2", "--on", "stack").returncode == 0
    assert told(noetl("run", "catalog/parent", "--on", "stack", "--output", "json"))["result"] == "Good day"
    assert noetl("playbooks", "alias", path, "prod", "1=50", "2=50", "--on", "stack").returncode == 0
    asked = [{"path": f"{path}@prod", "idempotency_key": f"split-{n}"} for n in range(12)]
    starts = [[api.call("POST", "/api/executions", body) for body in asked] for _ in range(2)]
    ids = [answer["execution_id"] for _, answer in starts[0]]
    assert [answer["execution_id"] for _, answer in starts[1]] == ids
    assert {api.wait(one)["playbook"]["version"] for one in ids} == {1, 2}
    status, answer = api.call("POST", "/api/executions", {"path": f"{path}@prdo"})
    assert (status, answer["error"]["code"]) == (404, "not_found")
    assert "prod" in answer["error"]["message"]
    done = noetl("run", f"{path}@prdo", "--on", "stack")
    assert (done.returncode, done.stderr.count("prdo")) == (2, 1), done.stderr


@pytest.mark.nightly
def test_tags_are_listed_and_a_deleted_playbook_starts_nothing(api: Api, noetl: Run) -> None:
    path = "catalog/tagged"
    trigger = {"schedule": "0 2 * * *", "name": "nightly"}
    register(api, playbook(path, noop("done"), triggers=[trigger]))
    assert noetl("playbooks", "tag", path, "nightly", "team:data", "--on", "stack").returncode == 0
    (listed,) = told(noetl("playbooks", "ls", "--tag", "team:data", "--on", "stack", "--output", "json"))
    assert (listed["path"], listed["tags"]) == (path, ["nightly", "team:data"])
    before = told(noetl("run", path, "--on", "stack", "--output", "json"))
    assert noetl("playbooks", "delete", path, "--on", "stack").returncode == 0
    eventually(lambda: api.call("POST", "/api/executions", {"path": path})[0] == 410)  # processes go by what they have just read
    done = noetl("run", path, "--on", "stack")
    assert (done.returncode, done.stderr.count("was deleted at")) == (2, 1), done.stderr
    status, answer = api.call("POST", "/api/executions", {"path": path})
    assert (status, answer["error"]["code"]) == (410, "deleted")
    assert api.summary(before["execution_id"])["status"] == "completed"
    assert told(noetl("playbooks", "ls", "--tag", "team:data", "--on", "stack", "--output", "json")) == []
    assert noetl("playbooks", "undelete", path, "--on", "stack").returncode == 0
    assert told(noetl("run", path, "--on", "stack", "--output", "json"))["result"] == "done"
    shown = told(noetl("playbooks", "show", path, "--on", "stack", "--output", "json"))
    tagged = "tags: none -> nightly, team:data"
    assert [change["what"] for change in shown["changes"]] == ["undeleted", "deleted", tagged, "registered version 1"]


def test_executions_are_found_by_their_search_attributes(api: Api, noetl: Run) -> None:
    source = playbook(
        "catalog/order",
        {**noop(12), "set_ctx": {"total": "{{ outcome.result }}"}},
        {"customer": "nobody"},
        search={"customer": "{{ workload.customer }}", "total": "{{ ctx.total }}"},
    )
    register(api, source)
    for customer in ("acme", "other"):
        assert noetl("run", "catalog/order", "--set", f"customer={customer}", "--on", "stack").returncode == 0
    (found,) = told(noetl("ls", "--where", "customer=acme", "--on", "stack", "--output", "json"))
    assert found["search"] == {"customer": "acme", "total": 12}
    assert len(told(noetl("ls", "--where", "total=12", "--path", "catalog/order", "--on", "stack", "--output", "json"))) == 2
    status, answer = api.call("GET", "/api/executions?search=customer%3Dacme%26total%3D12")
    assert (status, [one["execution_id"] for one in answer["executions"]]) == (200, [found["execution_id"]])


class Told(HTTPServer):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.heard: list[tuple[dict[str, str], Any]] = []


class Answer(Handler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Told)
        server.heard.append(({name.lower(): value for name, value in self.headers.items()}, json.loads(self.told())))
        self.say(200, b"{}")


BROKEN = noop("{{ 1 / 0 }}")


def failed(api: Api, path: str) -> dict[str, Any]:
    """Run what fails, and return its summary once it says what became of its handler."""
    status, answer = api.call("POST", "/api/executions", {"path": path})
    assert status == 202, answer
    assert api.wait(answer["execution_id"])["status"] == "failed"
    eventually(lambda: "on_failure" in api.summary(answer["execution_id"]))
    return api.summary(answer["execution_id"])


def test_a_failure_starts_a_playbook_once_for_each_failed_end(api: Api, noetl: Run) -> None:
    register(
        api, playbook("catalog/alert", noop("{{ workload.failure.path }}: {{ workload.failure.error.kind }}"), {"failure": {}})
    )
    register(api, playbook("catalog/job", BROKEN, on_failure={"playbook": "catalog/alert@latest"}))
    summary = failed(api, "catalog/job")
    handler = api.wait(summary["on_failure"]["execution_id"])
    assert (handler["result"], handler["trigger"]["kind"]) == ("catalog/job: template", "failure")
    assert noetl("redrive", summary["execution_id"], "--on", "stack").returncode == 1
    eventually(lambda: len(api.executions("catalog/alert")) == 2)


def test_a_failure_is_posted_to_an_address(api: Api) -> None:
    with serving(Told()) as server:
        register(api, playbook("catalog/posted", BROKEN, on_failure={"webhook": f"{url_of(server)}/x"}))
        summary = failed(api, "catalog/posted")
        assert api.wait(summary["on_failure"]["execution_id"])["status"] == "completed"
        ((headers, body),) = server.heard
    assert (body["execution_id"], body["path"]) == (summary["execution_id"], "catalog/posted")
    assert headers["idempotency-key"] == summary["on_failure"]["execution_id"]


@pytest.mark.nightly
def test_a_failure_is_published_to_a_topic(stack: Stack, api: Api) -> None:
    sns, sqs = aws(stack, "sns"), aws(stack, "sqs")
    topic = sns.create_topic(Name="matrix-failures")["TopicArn"]
    queue = sqs.create_queue(QueueName="matrix-failures")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    register(api, playbook("catalog/published", BROKEN, on_failure={"sns": "matrix-failures"}))
    summary = failed(api, "catalog/published")
    handler = api.wait(summary["on_failure"]["execution_id"])
    assert handler["status"] == "completed", handler["error"]
    (message,) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=10)["Messages"]
    notification = json.loads(message["Body"])
    assert notification["Subject"] == "failed: catalog/published"
    assert json.loads(notification["Message"])["execution_id"] == summary["execution_id"]


@pytest.mark.nightly
def test_a_handler_that_is_not_there_is_seen_and_tried_again(api: Api, noetl: Run) -> None:
    register(api, playbook("catalog/untold", BROKEN, on_failure={"playbook": "catalog/nobody"}))
    summary = failed(api, "catalog/untold")
    assert "catalog/nobody" in summary["on_failure"]["error"]
    (refused,) = told(noetl("triggers", "refused", "catalog/untold", "--on", "stack", "--output", "json"))
    done = noetl("triggers", "retry", refused["id"], "--on", "stack")
    assert (done.returncode, done.stderr.count("catalog/nobody")) == (1, 1), done.stderr
    register(api, playbook("catalog/nobody", noop("told"), {"failure": {}}))
    assert noetl("triggers", "retry", refused["id"], "--on", "stack").returncode == 0
    assert api.wait(api.summary(summary["execution_id"])["on_failure"]["execution_id"])["result"] == "told"
    assert told(noetl("triggers", "refused", "catalog/untold", "--on", "stack", "--output", "json")) == []


@pytest.mark.nightly
def test_a_backfill_runs_each_occurrence_once_and_one_that_failed_again(api: Api, noetl: Run) -> None:
    path = "catalog/report"
    trigger = {"schedule": "0 2 * * *", "timezone": "Europe/Berlin", "payload": {"day": "{{ trigger.scheduled_at }}"}}
    broken = noop("{{ 1 / (0 if '03-28' in workload.day else 1) }}")
    register(api, playbook(path, broken, {"day": None}, triggers=[trigger | {"enabled": False}]))
    week = ("--from", "2026-03-25", "--to", "2026-04-01", "--on", "stack")
    preview = noetl("backfill", path, *week, "--preview")
    assert preview.stdout == f"{path}@1: 7 occurrences of schedule, from 2026-03-25T01:00:00Z to 2026-03-31T00:00:00Z\n"
    done = noetl("backfill", path, *week, "--parallel", "3", "--output", "json")
    assert done.returncode == 1, done.stderr
    summary = json.loads(done.stdout)
    assert summary["error"]["message"] == "1 of 7 occurrences failed"
    again = noetl("backfill", path, *week)
    assert "which was started before" in again.stderr
    assert len(api.executions(path)) == 7
    wrong = noetl("redrive", summary["execution_id"], "--from", "backfill@3", "--on", "stack", "--output", "json")
    assert wrong.returncode == 1, wrong.stderr
    assert json.loads(wrong.stdout)["error"]["message"] == "1 of 7 occurrences failed"
    assert len(api.executions(path)) == 8, "the one that failed, once more"


@pytest.mark.nightly
def test_a_backfill_is_cancelled_as_one(api: Api, noetl: Run) -> None:
    path = "catalog/slow"
    trigger = {"schedule": "0 * * * *", "enabled": False}
    register(api, playbook(path, {"kind": "callback", "signal": "go"}, triggers=[trigger]))
    body = {"from": "2026-01-01", "to": "2026-01-03", "parallel": 4}
    status, answer = api.call("POST", f"/api/playbooks/{path}/backfill", body)
    assert (status, answer["occurrences"]) == (202, 48), answer
    eventually(lambda: [one["status"] for one in api.executions(path)] == ["waiting"] * 4)
    assert noetl("cancel", answer["execution_id"], "--on", "stack").returncode == 0
    assert api.wait(answer["execution_id"])["status"] == "cancelled"
    eventually(lambda: {one["status"] for one in api.executions(path)} == {"cancelled"})
    again = noetl("backfill", path, "--from", "2026-01-01", "--to", "2026-01-03", "--on", "stack")
    assert f"is cancelled: `noetl redrive {answer['execution_id']} --on stack` runs what is missing" in again.stderr
    assert len(api.executions(path)) == 4
