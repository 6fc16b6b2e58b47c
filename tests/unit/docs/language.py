"""The examples of the language reference: how a page's blocks are read, completed and run.

A `yaml` block is followed by what it gives: a `json` block (a run, and what came of it) or a `text` block (the diagnostics of a
playbook that is refused). `docs/language/README.md` says the same to its readers.
"""

from __future__ import annotations

import atexit
import json
import re
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from noetl_core.adapters.local.secrets import PREFIX, LocalSecrets
from noetl_core.control.admit import StartRequest, register
from noetl_core.control.callbacks import answer, open_callbacks
from noetl_core.dsl.parse import check
from noetl_core.engine.outcome import Outcome
from noetl_core.events.event import fact
from noetl_core.events.waiting import SignalReceived
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.base import ToolCall
from noetl_core.tools.registry import ToolRegistry
from noetl_core.views.executions import executions
from tests.databases import postgres
from tests.running import events_of

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: example, path: docs/example }\n"
ROOT_KEYS = ("apiVersion", "keychain", "executor", "workload", "workflow", "workbook", "vars")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A `yaml` block of `page` at `line`, completed, and the block that says what it gives."""

    page: str
    line: int
    source: str
    kind: str
    expected: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def examples(page: Path) -> Iterator[Example]:
    """Every `yaml` block with what follows it; a block without an expectation has kind ''."""
    text = page.read_text()
    blocks = [(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in BLOCK.finditer(text)]
    for n, (language, body, line) in enumerate(blocks):
        if language != "yaml":
            continue
        kind, expected = blocks[n + 1][:2] if n + 1 < len(blocks) else ("", "")
        yield Example(page.name, line, completed(body), kind if kind in ("json", "text") else "", expected)


def completed(block: str) -> str:
    """A whole playbook: steps get `workflow`, tasks a step called `work`, and everything the head."""
    first = next(line for line in block.splitlines() if line and not line.startswith("#"))
    if first.startswith("apiVersion"):
        return block
    if first.startswith("- step:"):
        block = "workflow:\n" + textwrap.indent(block, "  ")
    elif first.startswith("- "):
        block = "workflow:\n  - step: work\n    tool:\n" + textwrap.indent(block, "      ")
    elif first.split(":")[0] not in ROOT_KEYS:
        raise AssertionError(f"an example begins with a root key, a step or a task, not with {first!r}")
    return HEAD + block


class DemoService:
    """`kind: http` in the examples: the little service that `docs/language/README.md` describes."""

    kind = "http"
    inline = True

    def run(self, call: ToolCall) -> Outcome:
        path, params = urlsplit(str(call.inputs["url"])).path, call.inputs.get("params") or {}
        if path == "/pages":
            page = int(params.get("page", 1))
            body = {"data": [2 * page - 1, 2 * page], "paging": {"page": page, "hasMore": page < 3}}
            return self._answer(200, body)
        if path == "/flaky":
            return self._answer(200 if call.attempt > 2 else 503, {"attempt": call.attempt})
        if path == "/busy":
            return self._answer(503, None)
        if path == "/echo":
            return self._answer(200, {"params": dict(params), "json": call.inputs.get("json")})
        return self._answer(404, None)

    @staticmethod
    def _answer(status: int, data: Any) -> Outcome:
        helper = {"status": status, "headers": {"retry-after": "0.01"} if status == 503 else {}}
        if status == 200:
            got = {"status": status, "headers": {}, "data": data, "url": "https://api.example.org", "elapsed_ms": 1}
            return Outcome.ok(got, http=helper)
        kind: Any = "not_found" if status == 404 else "server_error"
        return Outcome.failed(kind, f"the service answered {status}", code=status, http=helper)


def run(example: Example, others: list[str]) -> dict[str, Any]:
    """Run an example that expects `json` on the local runner; `others` are playbooks it may call. The summary, with `tasks` and
    `order` (the steps) as they ran, and the `effective` spec of every task."""
    inputs = json.loads(example.expected).get("given", {})
    with ExitStack() as services:
        if "kind: sqs" in example.source:
            services.enter_context(_queue())
        if "kind: dynamodb" in example.source:
            services.enter_context(_items())
        return _run(example, others, inputs)


def _run(example: Example, others: list[str], inputs: dict[str, Any]) -> dict[str, Any]:
    demo = {"type": "postgres", "data": {"user": "reader", "password": "s3cret-word"}}  # as `noetl credentials put` stores it
    registry, work = tools(example.source)
    chat = {"type": "http_credential", "data": {"url": "https://api.example.org/echo"}}
    credentials = {"DEMO": demo, "WORK": {"type": "postgres", "data": work}, "CHAT": chat}
    held = {PREFIX + name: json.dumps(credential) for name, credential in credentials.items()}
    secrets = LocalSecrets(Path("no-such-file"), held)
    local = LocalWiring(tools=registry, secrets=secrets)
    try:
        for other in others:
            register(local.control, other)
        started = local.start(StartRequest(playbook=example.source, payload=inputs.get("payload", {}), ctx=inputs.get("ctx", {})))
        for name, data in inputs.get("signals", {}).items():
            local.control.route(started.execution_id, facts=[fact(SignalReceived, id=name, name=name, data=data)])
        for scripted_answer in inputs.get("answers", []):
            reply(local, started.execution_id, scripted_answer)
        assert local.run(started.execution_id, timeout_s=30)
        out = executions.summary(local.control, started.execution_id)
        log = events_of(local.control, started.execution_id)[0]
        out["tasks"] = [e["task"] for e in log if e["name"] == "TaskProcessed"]
        out["order"] = [e["step"] for e in log if e["name"] == "StepScheduled"]
        out["event_names"] = [e["name"] for e in log]
        out["effective"] = {
            t.name: dict(t.spec) for s in local.control.playbook(out["playbook"]["digest"]).steps for t in s.tasks
        }
        return out
    finally:
        local.close()


def tools(source: str) -> tuple[ToolRegistry, dict[str, Any]]:
    """The tools of an example, and the credential `work`: where rows are claimed, that of a database with the table `orders`."""
    if "kind: postgres" not in source:
        return ToolRegistry({"http": DemoService()}), {}
    import psycopg

    from noetl_core.tools.network.addresses import AddressPolicy
    from noetl_core.tools.postgres.tool import PostgresTool

    uri = _database()
    columns = "id bigint PRIMARY KEY, amount int, state text NOT NULL DEFAULT 'open', claimed_by text, claimed_until timestamptz"
    with psycopg.connect(uri) as connection:
        connection.execute("DROP TABLE IF EXISTS orders")
        connection.execute(f"CREATE TABLE orders ({columns})".encode())
        connection.execute("INSERT INTO orders VALUES (1, 10), (2, 200), (3, 30)")
    return ToolRegistry({"http": DemoService(), "postgres": PostgresTool(AddressPolicy(allow_private=True))}), {"dsn": uri}


@contextmanager
def _queue() -> Iterator[None]:
    """The queue `orders`, with three messages."""
    from noetl_core.aws.clients import client
    from tests.contract.aws import environment
    from tests.fast_moto import mock_aws

    with mock_aws(), environment():
        url = client("sqs").create_queue(QueueName="orders")["QueueUrl"]
        for amount in (10, 200, 30):
            client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps({"amount": amount}))
        yield


@contextmanager
def _items() -> Iterator[None]:
    """The table `orders`, with three items, all in the index `todo`."""
    from noetl_core.aws.clients import client
    from tests.contract.aws import environment
    from tests.fast_moto import mock_aws

    with mock_aws(), environment():
        dynamodb, id_ = client("dynamodb"), {"AttributeName": "id", "KeyType": "HASH"}
        key = [{"AttributeName": "todo", "KeyType": "HASH"}, {"AttributeName": "id", "KeyType": "RANGE"}]
        dynamodb.create_table(
            TableName="orders",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": n, "AttributeType": t} for n, t in (("id", "N"), ("todo", "S"))],
            KeySchema=[id_],
            GlobalSecondaryIndexes=[{"IndexName": "todo", "KeySchema": key, "Projection": {"ProjectionType": "ALL"}}],
        )
        for n, amount in enumerate((10, 200, 30), 1):
            item = {"id": {"N": str(n)}, "amount": {"N": str(amount)}, "state": {"S": "open"}, "todo": {"S": "charge"}}
            dynamodb.put_item(TableName="orders", Item=item)
        yield


@cache
def _database() -> str:
    """A database for the process."""
    server = postgres()
    uri = server.__enter__()
    atexit.register(server.__exit__, None, None, None)
    return uri


def reply(local: LocalWiring, execution_id: str, data: Any) -> None:
    """Answer the callback by token that the execution comes to."""
    for _ in range(200):
        local.run(execution_id, timeout_s=0.02)
        waiting = open_callbacks(local.control, execution_id)
        if waiting:
            answer(local.control, waiting[0]["token"], data)
            return
    raise AssertionError("nothing waits for an answer")


def diagnostics(example: Example) -> list[str]:
    """Return the diagnostics of a refused example, without positions."""
    return [str(d).split(" ", 1)[1] for d in check(example.source)[1] if d.severity == "error"]
