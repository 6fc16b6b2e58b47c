"""Events, messages, webhooks and uploads on the stack: what comes twice starts its playbook once."""

from __future__ import annotations

import hmac
import json
import os
import time
from base64 import b64encode
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from noetl_infra.stack import Stack
from tests.e2e.support import Api, aws
from tests.stacks import ORDERS, SCANS
from tests.waiting import eventually

SECRET = "It's a Secret to Everybody"
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: taker, path: ways-in/{name}}}
executor: {{spec: {{triggers: [{{{trigger}}}]}}}}
workflow: [{{step: only, tool: {{kind: noop, args: {{got: "{got}"}}}}}}]
"""


def register(api: Api, name: str, trigger: str, got: str) -> None:
    status, answer = api.call("POST", "/api/playbooks", PLAYBOOK.format(name=name, trigger=trigger, got=got))
    assert status in (200, 201), answer


def results(api: Api, name: str, amount: int, quiet_s: float = 3, timeout_s: float = 90) -> list[Any]:
    """Return the results of a playbook's executions, once there are `amount` and no more come."""
    path, until = f"ways-in/{name}", time.monotonic() + timeout_s
    while len(listed(api, path)) < amount:
        assert time.monotonic() < until, f"{len(listed(api, path))} of {amount} have started"
        time.sleep(0.3)
    time.sleep(quiet_s)
    found = [api.wait(execution_id) for execution_id in listed(api, path)]
    assert {one["status"] for one in found} == {"completed"}, found
    return sorted((one["result"]["got"] for one in found), key=str)


def listed(api: Api, path: str) -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        status, page = api.call("GET", f"/api/executions?path={path}&limit=100{cursor}")
        assert status == 200, page
        found += [str(one["execution_id"]) for one in page["executions"]]
        if not page.get("cursor"):
            return found
        cursor = f"&cursor={page['cursor']}"


def test_an_event_starts_the_playbook_with_a_matching_pattern(stack: Stack, api: Api) -> None:
    register(api, "event", "event: {source: [ways.in], detail: {n: [{numeric: ['>', 0]}]}}", "{{ trigger.event.detail.n }}")
    entries = [{"Source": "ways.in", "DetailType": "Placed", "Detail": json.dumps({"n": n})} for n in (0, 1, 2)]
    aws(stack, "events").put_events(Entries=[*entries, {"Source": "else", "DetailType": "Placed", "Detail": '{"n": 3}'}])
    assert results(api, "event", 2) == [1, 2]


def test_a_message_starts_a_playbook(stack: Stack, api: Api) -> None:
    register(api, "queue", f"queue: {ORDERS}", "{{ trigger.event.body.n }} {{ trigger.event.attributes.shop }}")
    sqs = aws(stack, "sqs")
    url = sqs.create_queue(QueueName=ORDERS, Attributes={"VisibilityTimeout": "360"})["QueueUrl"]
    shop = {"shop": {"DataType": "String", "StringValue": "berlin"}}
    for n in range(3):
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"n": n}), MessageAttributes=shop)
    assert results(api, "queue", 3) == ["0 berlin", "1 berlin", "2 berlin"]


def test_a_trigger_that_nothing_reaches_is_a_warning(api: Api) -> None:
    body = PLAYBOOK.format(name="unread", trigger=f"queue: not-{ORDERS}", got="1")
    _, answer = api.call("POST", "/api/playbooks", body)
    assert [w.partition(" names ")[2] for w in answer["warnings"]] == [f'queue not-{ORDERS} (did you mean "{ORDERS}"?)']
    _, listed = api.call("GET", "/api/triggers?path=ways-in/unread")
    assert answer["warnings"] == [f"trigger queue: {listed['triggers'][0]['unreached']}"]
    for trigger in (
        f"queue: {ORDERS}",
        "event: {source: [ways.in]}",
        f"upload: {{bucket: {SCANS}}}",
        "upload: {prefix: uploads/}",
    ):
        _, answer = api.call("POST", "/api/playbooks", PLAYBOOK.format(name="read", trigger=trigger, got="1"))
        assert answer["warnings"] == [], trigger


def post(stack: Stack, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, Any]:
    request = Request(f"{stack.api_url}/api/hooks/{path}", body, {"Content-Type": "application/json", **headers}, method="POST")
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())


def signed(body: bytes, delivery: str, secret: str = SECRET) -> dict[str, str]:
    made = hmac.new(secret.encode(), body, "sha256").hexdigest()
    return {"X-Hub-Signature-256": f"sha256={made}", "X-GitHub-Delivery": delivery, "X-GitHub-Event": "push"}


@pytest.mark.nightly  # over moto at each commit: tests/unit/functions/test_hooks_and_admit.py
def test_a_webhook_sent_twice_starts_one_execution_and_an_invalid_none(stack: Stack, api: Api) -> None:
    status, answer = api.call("POST", "/api/credentials", {"name": "hooks/ways-in", "data": {"secret": SECRET}, "paths": ["*"]})
    assert status == 201, answer
    register(api, "webhook", "webhook: {form: github, credential: hooks/ways-in}", "{{ trigger.event.body.n }}")
    amount = 8
    bodies = {n: json.dumps({"n": n, "pad": "x" * (400_000 if n == 0 else 10)}).encode() for n in range(amount)}

    def deliver(n: int) -> tuple[int, str]:
        """As a sender does: a stack that is busy is asked again."""
        while True:
            status, told = post(stack, "ways-in/webhook/webhook", bodies[n], signed(bodies[n], f"guid-{n}"))
            if status != 429:
                return status, str(told.get("execution_id", told))
            time.sleep(0.5)

    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(deliver, [*bodies, *bodies]))
    assert {status for status, _ in told} == {202}, [one for one in told if one[0] != 202]
    for path, headers in (
        ("ways-in/webhook/webhook", signed(b"{}", "guid-x", "guess")),
        ("ways-in/webhook/other", signed(b"{}", "guid-x")),
        ("ways-in/nothing/webhook", {}),
    ):
        status, refused = post(stack, path, b"{}", headers)
        assert (status, refused["error"]["code"]) == (401, "unauthorized")
    register(api, "gone", "webhook: {form: github, credential: hooks/ways-in}", "")
    assert api.call("DELETE", "/api/playbooks/ways-in/gone")[0] == 200
    eventually(lambda: post(stack, "ways-in/gone/webhook", b"{}", signed(b"{}", "guid-z"))[0] == 410)
    assert results(api, "webhook", amount) == sorted(range(amount), key=str)
    assert set(listed(api, "ways-in/webhook")) == {execution_id for _, execution_id in told}


@pytest.mark.nightly
def test_a_binary_webhook_body_arrives_unchanged_under_its_passthrough_type(stack: Stack, api: Api) -> None:
    status, answer = api.call(
        "POST", "/api/credentials", {"name": "hooks/ways-in-bytes", "data": {"secret": SECRET}, "paths": ["*"]}
    )
    assert status == 201, answer
    register(
        api,
        "bytes",
        "webhook: {form: github, credential: hooks/ways-in-bytes}",
        "{{ trigger.event.encoding | default('none') }} {{ trigger.event.body }}",
    )
    odd, binary = bytes(range(256)), {"Content-Type": "application/octet-stream"}
    assert post(stack, "ways-in/bytes/webhook", odd, signed(odd, "bytes-1") | binary)[0] == 202
    assert post(stack, "ways-in/bytes/webhook", odd, signed(odd, "bytes-1") | binary)[0] == 202, "and again"
    assert post(stack, "ways-in/bytes/webhook", b"{}", signed(odd, "bytes-2") | binary)[0] == 401
    if "NOETL_E2E_ENDPOINT" not in os.environ:  # LocalStack's gateway changes nothing
        assert post(stack, "ways-in/bytes/webhook", odd, signed(odd, "bytes-3"))[0] == 401, "the gateway has changed it"
    assert results(api, "bytes", 1) == [f"base64 {b64encode(odd).decode()}"]


@pytest.mark.nightly
def test_objects_of_the_inbox_and_of_another_bucket_start_playbooks_which_open_them(stack: Stack, api: Api) -> None:
    register(api, "upload", "upload: {prefix: uploads/ways-in/, suffix: .json}", "{{ trigger.event.object.n }}")
    register(api, "scan", f"upload: {{bucket: {SCANS}, prefix: in/}}", "{{ trigger.event.object.n }} of {{ trigger.event.key }}")
    s3, inbox = aws(stack, "s3"), stack.outputs["InboxBucketName"]
    for n in range(20):
        s3.put_object(Bucket=inbox, Key=f"uploads/ways-in/no {n}.json", Body=json.dumps({"n": n}).encode())
    s3.put_object(Bucket=inbox, Key="uploads/ways-in/other.csv", Body=b"n\n1\n")
    s3.create_bucket(Bucket=SCANS)
    told = {"QueueArn": stack.outputs["InboxQueueArn"], "Events": ["s3:ObjectCreated:*"]}
    s3.put_bucket_notification_configuration(Bucket=SCANS, NotificationConfiguration={"QueueConfigurations": [told]})
    s3.put_object(Bucket=SCANS, Key="in/a b.json", Body=b'{"n": 7}')
    s3.put_object(Bucket=SCANS, Key="out/c.json", Body=b'{"n": 8}')
    assert results(api, "upload", 20) == sorted(range(20), key=str)
    assert results(api, "scan", 1, quiet_s=0) == ["7 of in/a b.json"]
