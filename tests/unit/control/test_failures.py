"""Handlers of failures: one execution per failed end, and none for the failure of a handler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.control.admit import StartRequest, register
from noetl_core.control.lifecycle.operate import NotNow
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.control.sweeping.reconcile import Swept, reconcile
from noetl_core.control.triggers.operate import fire_refused
from noetl_core.dsl.dump import dump
from noetl_core.dsl.model import OnFailure
from noetl_core.dsl.parse import parse_playbook
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.dsl.sections.failures import default_handler
from noetl_core.engine import ids
from noetl_core.engine.redrive.plan import Redrive
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from tests.properties import CRASHES_IN
from tests.servers import Handler, serving, url_of
from tests.sim.ports import Faults
from tests.sim.world import World
from tests.unit.tools.aws_playbooks import mocked

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: x, path: %s }\n"
ALERT = (
    HEAD % "ops/alert" + "workflow: [{ step: tell, tool: { kind: noop, result: '{{ [workload.failure, trigger.kind] }}' } }]\n"
)


def fails(on_failure: str = "", path: str = "team/job") -> str:
    spec = f"executor: {{ spec: {{ on_failure: {on_failure} }} }}\n" if on_failure else ""
    return HEAD % path + spec + 'workflow: [{ step: start, tool: { name: break, kind: noop, result: "{{ 1 / 0 }}" } }]\n'


@pytest.fixture
def local() -> Iterator[LocalWiring]:
    with closing(LocalWiring()) as local:
        register(local.control, ALERT)
        yield local


def failed(local: LocalWiring, source: str, **more: Any) -> dict[str, Any]:
    """The summary of an execution that fails, and of what handles that."""
    started = local.start(StartRequest(playbook=source, **more))
    assert local.run(started.execution_id, timeout_s=30)
    summary = executions.summary(local.control, started.execution_id)
    assert summary["status"] == "failed"
    return summary


def test_a_playbook_handles_a_failure(local: LocalWiring) -> None:
    local.control.link = "https://console.example.org/{execution_id}"
    summary = failed(local, fails("{ playbook: ops/alert }"))
    id = summary["execution_id"]
    handled = summary["on_failure"]
    assert handled == {"epoch": 0, "handler": "ops/alert", "execution_id": ids.failure_handler_id(id, 0)}
    handler = executions.summary(local.control, handled["execution_id"])
    told, kind = handler["result"]
    assert (handler["status"], kind, handler["parent"]) == ("completed", "failure", {"execution_id": id})
    assert (told["execution_id"], told["path"], told["step"], told["task"]) == (id, "team/job", "start", "break")
    assert told["error"]["kind"] == "template"
    assert told["link"] == f"https://console.example.org/{id}"


def test_each_failed_end_is_handled_once(local: LocalWiring) -> None:
    summary = failed(local, fails("{ playbook: ops/alert }"))
    id = summary["execution_id"]
    before = local.control.load(id).seq
    reconcile(local.control, id, Swept())
    assert local.control.load(id).seq == before, "whoever looks at it again finds it handled"
    redrive(local.control, id, Redrive(None, {}, {}))
    local.runner.adopt(id)
    assert local.run(id, timeout_s=30)
    handled = executions.summary(local.control, id)["on_failure"]
    assert (handled["epoch"], handled["execution_id"]) == (1, ids.failure_handler_id(id, 1))
    assert len(local.control.index.heads(path="ops/alert")) == 2


def test_the_default_is_for_playbooks_that_say_nothing(local: LocalWiring) -> None:
    local.control.on_failure = default_handler("ops/alert@1")
    assert failed(local, fails())["on_failure"]["handler"] == "ops/alert@1"
    assert "on_failure" not in failed(local, fails("{ disabled: true }"))
    assert len(local.control.index.heads(path="ops/alert")) == 1


def test_the_failure_of_a_handler_is_not_handled(local: LocalWiring) -> None:
    broken = fails("{ playbook: ops/broken }", "ops/broken")
    register(local.control, broken)
    summary = failed(local, fails("{ playbook: ops/broken }"))
    handler = executions.summary(local.control, summary["on_failure"]["execution_id"])
    assert (handler["status"], "on_failure" in handler) == ("failed", False)
    assert len(local.control.index.heads(path="ops/broken")) == 1


def test_only_the_failure_of_the_root_of_a_family_is_handled(local: LocalWiring) -> None:
    register(local.control, fails("{ playbook: ops/alert }"))
    caller = HEAD % "team/caller" + "executor: { spec: { on_failure: { playbook: ops/alert } } }\n"
    summary = failed(local, caller + "workflow: [{ step: call, tool: { kind: playbook, path: team/job } }]\n")
    (head,) = local.control.index.heads(path="ops/alert")
    assert head.execution_id == summary["on_failure"]["execution_id"]
    started = local.start(
        StartRequest(playbook=caller + "workflow: [{ step: call, tool: { kind: playbook, path: team/job, detach: true } }]\n")
    )
    assert local.run(started.execution_id, timeout_s=30)
    (child,) = [h for h in local.control.index.heads(path="team/job") if (h.parent or {}).get("detached")]
    local.runner.adopt(child.execution_id)
    assert local.run(child.execution_id, timeout_s=30)
    assert "execution_id" in executions.summary(local.control, child.execution_id)["on_failure"], (
        "nobody else hears of a detached one"
    )


def test_a_caller_sees_the_code_of_the_error_of_a_playbook(local: LocalWiring) -> None:
    rule = "{ else: { then: { do: fail, error: { kind: not_found, code: NoSuchOrder, message: gone } } } }"
    text = HEAD % "team/job" + "workflow: [{ step: look, tool: { kind: noop, spec: { policy: { rules: [RULE] } } } }]\n"
    register(local.control, text.replace("RULE", rule))
    caller = HEAD % "team/caller" + "workflow: [{ step: call, tool: { kind: playbook, path: team/job } }]\n"
    error = failed(local, caller)["error"]
    assert (error["kind"], error["code"], error["message"]) == ("not_found", "NoSuchOrder", "playbook team/job failed: gone")


def test_other_ends_are_not_handled_as_failures(local: LocalWiring) -> None:
    source = fails("{ playbook: ops/alert }").replace("{{ 1 / 0 }}", "fine")
    started = local.start(StartRequest(playbook=source))
    assert local.run(started.execution_id, timeout_s=30)
    assert "on_failure" not in executions.summary(local.control, started.execution_id)


@pytest.mark.parametrize("named", ["ops/nowhere", "ops/alert@9", "ops/alert@prod"])
def test_a_handler_that_cannot_start_shows_in_summary_and_refused_list(local: LocalWiring, named: str) -> None:
    summary = failed(local, fails(f"{{ playbook: {named} }}"))
    handled = summary["on_failure"]
    assert (handled["handler"], "execution_id" in handled) == (named, False)
    (refused,) = local.control.triggers.list_refused(0, 10)
    assert (refused.kind, refused.path, refused.reason) == ("failure", "team/job", handled["error"])
    assert refused.facts["failure"]["execution_id"] == summary["execution_id"]


def test_a_handler_that_could_not_start_is_started_again(local: LocalWiring) -> None:
    id = failed(local, fails("{ playbook: ops/later }"))["execution_id"]
    (refused,) = local.control.triggers.list_refused(0, 10)
    again = fire_refused(local.control, refused.id)
    assert (again["result"], again["reason"]) == ("refused", "no playbook ops/later")
    register(local.control, ALERT.replace("ops/alert", "ops/later"))
    started = fire_refused(local.control, refused.id)
    assert (started["result"], started["execution_id"]) == ("started", ids.failure_handler_id(id, 0))
    assert list(local.control.triggers.list_refused(0, 10)) == []
    assert executions.summary(local.control, id)["on_failure"]["execution_id"] == started["execution_id"]
    local.runner.adopt(started["execution_id"])
    assert local.run(started["execution_id"], timeout_s=30)
    assert executions.summary(local.control, started["execution_id"])["result"][0]["execution_id"] == id


def test_a_redriven_failure_is_not_handled_again(local: LocalWiring) -> None:
    id = failed(local, fails("{ playbook: ops/later }"))["execution_id"]
    (refused,) = local.control.triggers.list_refused(0, 10)
    redrive(local.control, id, Redrive(None, {}, {}))
    with pytest.raises(NotNow, match="is in progress or was redriven"):
        fire_refused(local.control, refused.id)


def test_a_webhook_gets_the_failure_as_json(local: LocalWiring) -> None:
    got: list[dict[str, Any]] = []

    class Hook(Handler):
        def do_POST(self) -> None:
            got.append({"body": json.loads(self.told()), "key": self.headers["Idempotency-Key"], "to": self.path})
            self.say(503 if len(got) == 1 else 200)

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Hook)) as server:
        summary = failed(local, fails(f'{{ webhook: "{url_of(server)}/x?p={{{{ workload.failure.path }}}}" }}'))
    handler = executions.summary(local.control, summary["on_failure"]["execution_id"])
    assert handler["status"] == "completed", handler["error"]
    assert [g["key"] for g in got] == [handler["execution_id"]] * 2, "a refused post is tried again"
    assert got[0]["body"]["execution_id"] == summary["execution_id"]
    assert got[0]["to"] == "/x?p=team/job"
    assert handler["playbook"]["version"] == 0, "it is in no list of the catalog"


class Pager(ThreadingHTTPServer):
    """Remembers who asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Paged)
        self.seen: list[str | None] = []


class Paged(Handler):
    def do_POST(self) -> None:
        pager = self.server
        assert isinstance(pager, Pager)
        self.told()
        pager.seen.append(self.headers["Authorization"])
        self.say(200)


def test_a_webhook_may_need_a_credential_that_is_for_its_playbook_alone(tmp_path: Path) -> None:
    secrets = LocalSecrets(tmp_path / "credentials.json")
    secrets.put("pager", {"type": "bearer", "data": {"token": "t0ken"}, "paths": ["team/*"]})
    with (
        closing(LocalWiring(secrets=secrets)) as local,
        serving(Pager()) as server,
    ):
        to = f'{{ webhook: "{url_of(server)}/x", credential: pager }}'

        def handler(source: str, registers: bool = True) -> dict[str, Any]:
            if registers:
                register(local.control, source)
            summary = failed(local, source, registers=registers)
            return executions.summary(local.control, summary["on_failure"]["execution_id"])

        done = handler(fails(to))
        assert (done["status"], server.seen) == ("completed", ["Bearer t0ken"])
        elsewhere = f'{{ webhook: "{url_of(server)}/{{{{ workload.failure.path }}}}", credential: pager }}'
        refused = [handler(fails(to, "ops/job")), handler(fails(to, "team/text"), False), handler(fails(elsewhere, "team/led"))]
        made = local.control.catalog.by_digest(local.control.load(done["execution_id"]).digest).source
        forged = local.start(StartRequest(playbook=made.replace("/x", "/y"), registers=False))
        assert local.run(forged.execution_id, timeout_s=30)
        refused.append(executions.summary(local.control, forged.execution_id))
        assert [(one["status"], one["error"]["kind"]) for one in refused] == [("failed", "auth")] * 4
        assert len(server.seen) == 1


def test_a_failure_is_published_to_a_topic(local: LocalWiring) -> None:
    with mocked():
        topic = client("sns").create_topic(Name="alerts")["TopicArn"]
        queue = client("sqs").create_queue(QueueName="heard")["QueueUrl"]
        client("sns").subscribe(
            TopicArn=topic, Protocol="sqs", Endpoint=topic.replace(":sns:", ":sqs:").replace("alerts", "heard")
        )
        path = "team/" + "long-" * 40 + "path"
        summaries = [failed(local, fails(f"{{ sns: '{to}' }}", path)) for to in ("alerts", topic)]
        ends = [executions.summary(local.control, summary["on_failure"]["execution_id"]) for summary in summaries]
        assert [end["status"] for end in ends] == ["completed"] * 2, ends
        messages = client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    heard = [json.loads(message["Body"]) for message in messages]
    assert {one["Subject"] for one in heard} == {f"failed: {path}"[:99]}
    assert {json.loads(one["Message"])["execution_id"] for one in heard} == {one["execution_id"] for one in summaries}


def test_a_topic_is_a_playbook_of_one_task(local: LocalWiring) -> None:
    started = failed(local, fails("{ sns: alerts }"))["on_failure"]["execution_id"]
    source = local.control.catalog.by_digest(local.control.load(started).digest).source
    (task,) = parse_playbook(source).steps[0].tasks
    assert (task.kind, task.inputs["topic"]) == ("sns", "alerts")


@pytest.mark.parametrize(
    ("on_failure", "code", "says"),
    [
        ("{}", "E111", "one of playbook, webhook, sns, disabled"),
        ("{ playbook: a, webhook: 'https://b' }", "E114", "playbook and webhook"),
        ("{ playbook: a, credential: b }", "E114", "a credential is for a webhook"),
        ("{ webhook: ftp://x }", "E115", "is not an address"),
        ("{ playbook: 'a@' }", "E115", "has no version after the @"),
        ("{ playbook: 'a b' }", "E115", "is not the path"),
        ("{ sns: 'a b' }", "E115", "neither the name of a topic"),
        ("{ playbok: a }", "E110", "playbook"),
        ("{ webhook: 'https://{{ keychain.x.y }}' }", "E205", "write the name of the credential"),
    ],
)  # fmt: skip
def test_invalid_handlers_are_refused(on_failure: str, code: str, says: str) -> None:
    with pytest.raises(InvalidPlaybook) as refused:
        parse_playbook(fails(on_failure))
    assert (code, True) in [(d.code, says in f"{d.message} {d.hint}") for d in refused.value.diagnostics]


def test_a_handler_is_dumped_as_it_was_read() -> None:
    playbook = parse_playbook(fails("{ webhook: 'https://x', credential: hook }"))
    assert playbook.executor.on_failure == OnFailure(webhook="https://x", credential="hook")
    assert parse_playbook(dump(playbook)).executor == playbook.executor


@pytest.mark.parametrize(
    ("line", "handler"),
    [
        ("", None),
        ("ops/alert@prod", OnFailure(playbook="ops/alert@prod")),
        (" https://x.example.org/hook ", OnFailure(webhook="https://x.example.org/hook")),
        ("arn:aws:sns:eu-west-1:123456789012:alerts", OnFailure(sns="arn:aws:sns:eu-west-1:123456789012:alerts")),
    ],
)
def test_a_default_handler_is_read_from_one_line(line: str, handler: OnFailure | None) -> None:
    assert default_handler(line) == handler


@pytest.mark.parametrize("line", ["a b", "ops/alert@", "arn:aws:sqs:eu-west-1:1:x", "http://"])
def test_a_default_that_names_no_handler_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"is no|neither|has no version"):
        default_handler(line)


@pytest.mark.sized
@pytest.mark.parametrize("named", ["ops/alert", "ops/nowhere"])
def test_a_failure_is_handled_once_despite_crashes(named: str) -> None:
    """A process dies before, and after, each call that an execution makes that fails."""
    points = 0
    for crash_after in (False, True):
        crash_at = CRASHES_IN // 2 if crash_after else 1
        while True:
            world = World(faults=Faults(crash_at=crash_at, crash_after=crash_after))
            world.catalog.register("ops/alert", parse_playbook(ALERT).digest, ALERT, 1)
            id = world.start(fails(f"{{ playbook: {named} }}")).execution_id
            world.run(id)
            world.drain()
            state = world.state(id)
            assert state.status == "failed"
            assert state.handled is not None, crash_at
            assert world.names(id).count("FailureHandled") == 1
            handlers = [h for h in world.index.all_heads.values() if h.path == "ops/alert"]
            if named == "ops/alert":
                assert [h.status for h in handlers] == ["completed"], crash_at
                assert state.handled.get("execution_id") == handlers[0].execution_id
            else:
                assert not handlers
                assert len(world.triggers.list_refused(0, 10)) == 1
            assert not world.index.due_at
            if world.faults.calls < crash_at:
                break
            crash_at += CRASHES_IN
            points += CRASHES_IN
    assert points >= 30


def test_handlers_that_start_failing_executions_do_not_loop(local: LocalWiring) -> None:
    again = "{ name: again, kind: playbook, path: team/job, detach: true }"
    handler = HEAD % "ops/again" + "workload: { failure: {} }\nworkflow: [{ step: tell, tool: " + again + " }]\n"
    register(local.control, handler)
    register(local.control, fails("{ playbook: ops/again }"))
    failed(local, fails("{ playbook: ops/again }"))
    for _ in range(60):
        alive = [head for head in local.control.index.heads(path=None) if head.status == "running"]
        for head in alive:
            local.runner.adopt(head.execution_id)
            assert local.run(head.execution_id, timeout_s=30)
        if not alive:
            break
    else:
        pytest.fail("there is no end to it")
    last = next(head for head in local.control.index.heads(path="ops/again") if head.status == "failed")
    error = executions.summary(local.control, last.execution_id)["error"]
    assert "sub-playbooks are nested more than 20 deep" in error["message"]
