"""A canary secret goes through every tool, by every way in, and is looked for at every way out of the worker (docs/access.md).

Ways out: the log's commits and snapshots, what lists show, queue messages, stored objects, task logs, every read of the API, the
process's own logs and output. Traces and metrics: `tests/unit/functions/test_traces.py`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.control.admit import StartRequest, register
from noetl_core.control.lifecycle import operate
from noetl_core.dsl.kinds import KINDS
from noetl_core.log.codec import encode_command
from noetl_core.runtime.local import LocalWiring
from tests.contract.aws import environment
from tests.databases import postgres
from tests.fast_moto import mock_aws
from tests.servers import Handler, serving, url_of
from tests.unit.docs.demo_aws import make_items
from tests.unit.worker.canary import CANARY, found_in, ways_out
from tests.waiting import run_until_it_waits

ERROR = "{ policy: { rules: [{ else: { then: { do: continue } } }] } }"
CHILD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: child, path: canary/child }
workflow: [{ step: say, tool: { kind: noop, result: "{{ workload }}" } }]
"""
PLAYBOOK = f"""\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: canary, path: canary/all }}
keychain:
  - {{ name: api, kind: credential }}
  - {{ name: granted, kind: oauth2, token_url: "{{{{ workload.url }}}}/token", client_id: other, client_secret: "{{{{ keychain.api.token }}}}" }}
workload: {{ url: "", dsn: "" }}
executor: {{ spec: {{ policy: {{ failure: {{ mode: best_effort }}, limits: {{ max_payload_bytes: 512 }} }} }} }}
workbook:
  tasks:
    echo: {{ kind: noop, result: "{{{{ args }}}}" }}
workflow:
  - step: http
    tool:
      - name: query
        kind: http
        url: "{{{{ workload.url }}}}/echo"
        params: {{ key: "{{{{ keychain.api.token }}}}" }}
        headers: {{ X-Key: "{{{{ keychain.api.token | upper }}}}", X-Long: "{{{{ keychain.api.token }}}}{{{{ 'x' * 2000 }}}}" }}
        cookies: {{ session: "{{{{ keychain.api.token }}}}" }}
      - {{ name: bearer, kind: http, method: POST, url: "{{{{ workload.url }}}}/echo", auth: {{ type: bearer, token: "{{{{ keychain.api.token }}}}" }}, json: {{ a: "{{{{ keychain.api.token }}}}" }} }}
      - {{ name: basic, kind: http, url: "{{{{ workload.url }}}}/echo", auth: {{ type: basic, username: me, password: "{{{{ keychain.api.token }}}}" }} }}
      - {{ name: named, kind: http, url: "{{{{ workload.url }}}}/echo", auth: api, spec: {ERROR} }}
      - {{ name: refused, kind: http, url: "{{{{ workload.url }}}}/refuse/{{{{ keychain.api.token }}}}", spec: {ERROR} }}
      - {{ name: nowhere, kind: http, url: "http://{{{{ keychain.api.token | lower }}}}.invalid/", spec: {ERROR} }}
      - {{ name: wrong, kind: http, url: "{{{{ keychain.api.token }}}}", spec: {ERROR} }}
      - {{ name: header, kind: http, url: "{{{{ workload.url }}}}", headers: {{ "{{{{ keychain.api.token }}}} x": 1 }}, spec: {ERROR} }}
  - step: bodies
    tool:
      - {{ name: oauth, kind: http, url: "{{{{ workload.url }}}}/echo", auth: {{ type: oauth2, token_url: "{{{{ workload.url }}}}/token", client_id: me, client_secret: "{{{{ keychain.api.token }}}}" }} }}
      - {{ name: declared, kind: http, url: "{{{{ workload.url }}}}/echo", headers: {{ X-Key: "{{{{ keychain.granted.access_token }}}}" }} }}
      - {{ name: nogrant, kind: http, url: "{{{{ workload.url }}}}/echo", auth: {{ type: oauth2, token_url: "{{{{ workload.url }}}}/refuse", client_id: "{{{{ keychain.api.token }}}}", client_secret: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: files, kind: http, method: POST, url: "{{{{ workload.url }}}}/echo", form: {{ a: "{{{{ keychain.api.token }}}}" }}, files: {{ f: {{ content: "{{{{ keychain.api.token }}}}", filename: "{{{{ keychain.api.token }}}}" }}, g: {{ json: ["{{{{ keychain.api.token }}}}"], content_type: "{{{{ keychain.api.token }}}}" }} }}, spec: {ERROR} }}
      - {{ name: formdata, kind: http, method: POST, url: "{{{{ workload.url }}}}/echo", form: {{ a: "{{{{ keychain.api.token }}}}" }}, files: {{ f: "{{{{ keychain.api.token }}}}" }} }}
      - {{ name: kept, kind: http, url: "{{{{ workload.url }}}}/echo", headers: {{ X-Key: "{{{{ keychain.api.token }}}}" }}, spec: {{ store: true }} }}
      - {{ name: keptbytes, kind: http, method: POST, url: "{{{{ workload.url }}}}/echo", body: "{{{{ keychain.api.token }}}}", spec: {{ store: bytes }} }}
      - {{ name: sent, kind: http, method: POST, url: "{{{{ workload.url }}}}/echo", body: "{{{{ kept.data }}}}", auth: api }}
  - step: llm
    tool:
      - {{ name: asks, kind: llm, url: "{{{{ workload.url }}}}/v1", model: "{{{{ keychain.api.token }}}}", prompt: "{{{{ keychain.api.token }}}}", auth: {{ type: bearer, token: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: stored, kind: llm, url: "{{{{ workload.url }}}}/refuse", model: m, messages: [{{ role: user, content: "{{{{ keychain.api.token }}}}" }}], auth: api, schema: {{ type: object }}, spec: {ERROR} }}
      - {{ name: nowhere, kind: llm, url: "{{{{ keychain.api.token }}}}", model: m, prompt: hm, spec: {ERROR} }}
      - {{ name: badly, kind: llm, url: "{{{{ workload.url }}}}", model: m, prompt: hm, options: {{ "{{{{ keychain.api.token }}}}": 1, stream: 1 }}, schema: "{{{{ {{keychain.api.token: 1}} }}}}", spec: {ERROR} }}
  - step: mcp
    tool:
      - {{ name: calls, kind: mcp, url: "{{{{ workload.url }}}}/mcp", tool: "{{{{ keychain.api.token }}}}", arguments: {{ a: "{{{{ keychain.api.token }}}}" }}, auth: {{ type: bearer, token: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: stored, kind: mcp, url: "{{{{ workload.url }}}}/mcp", tool: echo, arguments: {{ "{{{{ keychain.api.token }}}}": 1 }}, auth: api, headers: {{ X-Key: "{{{{ keychain.api.token }}}}" }} }}
      - {{ name: failing, kind: mcp, url: "{{{{ workload.url }}}}/mcp", tool: fail, arguments: {{ a: "{{{{ keychain.api.token }}}}" }}, auth: api, spec: {ERROR} }}
      - {{ name: lists, kind: mcp, url: "{{{{ workload.url }}}}/refuse", action: list, auth: api, headers: {{ "{{{{ keychain.api.token }}}} x": 1 }}, spec: {ERROR} }}
      - {{ name: refused, kind: mcp, url: "{{{{ workload.url }}}}/refuse/{{{{ keychain.api.token }}}}", tool: t, auth: api, spec: {ERROR} }}
      - {{ name: nowhere, kind: mcp, url: "{{{{ keychain.api.token }}}}", tool: t, spec: {ERROR} }}
  - step: shell
    tool:
      - {{ name: says, kind: shell, script: 'echo "$T"; echo "$T" | rev >&2', env: {{ T: "{{{{ keychain.api.token }}}}" }} }}
      - {{ name: fails, kind: shell, script: 'echo "$T" >&2; exit 1', args: {{ T: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: reads, kind: shell, command: ["cat", "-"], stdin: {{ a: "{{{{ keychain.api.token }}}}" }} }}
      - {{ name: missing, kind: shell, command: ["{{{{ keychain.api.token }}}}"], spec: {ERROR} }}
      - {{ name: named, kind: shell, command: ["env"], env: {{ "{{{{ keychain.api.token }}}}": 1 }}, cwd: "{{{{ keychain.api.token }}}}", spec: {ERROR} }}
  - step: python
    tool:
      - name: shapes
        kind: python
        args: {{ token: "{{{{ keychain.api.token }}}}" }}
        code: |
          import base64, sys
          print(token, list(token)[0:0], token.swapcase())
          print("half", token[:len(token) // 2], file=sys.stderr)
          raw = token.encode()
          result = [token, list(token), list(raw), token[::-1], token.swapcase(), raw.hex(), base64.b64encode(b"x:" + raw).decode(),
                    base64.b32encode(raw).decode(), token[:len(token) // 2], token[len(token) // 2:], {{token: token}}, (token + " ") * 200]
      - name: raises
        kind: python
        args: {{ token: "{{{{ keychain.api.token }}}}" }}
        code: "raise ValueError(token)"
        spec: {ERROR}
      - {{ name: syntax, kind: python, code: "{{{{ keychain.api.token }}}}", args: {{ x: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: ends, kind: python, args: {{ t: "{{{{ keychain.api.token }}}}" }}, code: "import sys; sys.exit(t)", spec: {ERROR} }}
  - step: sql
    tool:
      - {{ name: duck, kind: duckdb, command: "SELECT $t AS t, reverse($t) AS r, upper($t) AS u", params: {{ t: "{{{{ keychain.api.token }}}}" }} }}
      - {{ name: cast, kind: duckdb, command: "SELECT CAST($t AS INT)", params: {{ t: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: pg, kind: postgres, auth: "{{{{ workload.dsn }}}}", command: "SELECT %(t)s AS t, reverse(%(t)s) AS r", params: {{ t: "{{{{ keychain.api.token }}}}" }} }}
      - {{ name: pgcast, kind: postgres, auth: "{{{{ workload.dsn }}}}", command: "SELECT %(t)s::text::int", params: {{ t: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: pgauth, kind: postgres, auth: {{ host: 127.0.0.1, port: 1, user: "{{{{ keychain.api.token }}}}", password: "{{{{ keychain.api.token }}}}" }}, command: SELECT 1, spec: {ERROR} }}
      - {{ name: pgdsn, kind: postgres, auth: "postgresql://u:{{{{ keychain.api.token }}}}@127.0.0.1:1/x", command: SELECT 1, spec: {ERROR} }}
      - {{ name: pgbad, kind: postgres, auth: "= {{{{ keychain.api.token }}}}", command: SELECT 1, spec: {ERROR} }}
      - {{ name: duckfile, kind: duckdb, command: "SELECT $t AS t", to: csv, params: {{ t: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: duckpg, kind: duckdb, command: SELECT 1, attach: {{ a: {{ auth: "{{{{ workload.dsn }}}}", queries: {{ q: "SELECT '{{{{ keychain.api.token }}}}'::int AS n" }} }} }}, spec: {ERROR} }}
      - {{ name: moved, kind: transfer, source: {{ rows: [{{ id: "{{{{ keychain.api.token }}}}" }}] }}, target: {{ kind: postgres, auth: "{{{{ workload.dsn }}}}", table: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: staged, kind: transfer, source: {{ kind: duckdb, command: "SELECT $t AS t", params: {{ t: "{{{{ keychain.api.token }}}}" }} }}, target: {{ kind: postgres, auth: "{{{{ workload.dsn }}}}", table: nowhere }}, spec: {ERROR} }}
      - {{ name: pgcopied, kind: postgres, auth: "{{{{ workload.dsn }}}}", copy: {{ query: "SELECT %(t)s AS t", to: csv }}, params: {{ t: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: snow, kind: snowflake, auth: {{ account: "a/b", user: "{{{{ keychain.api.token }}}}", password: "{{{{ keychain.api.token }}}}" }}, command: "SELECT '{{{{ keychain.api.token }}}}'", params: {{ t: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: snowfile, kind: snowflake, auth: api, command: "SELECT %(t)s", params: {{ t: "{{{{ keychain.api.token }}}}" }}, to: csv, spec: {ERROR} }}
      - {{ name: snowkey, kind: snowflake, auth: {{ account: a, user: a, private_key: "{{{{ keychain.api.token }}}}" }}, command: SELECT 1, spec: {ERROR} }}
      - {{ name: boxed, kind: container, cluster: canary, task_definition: canary, container: main, command: ["{{{{ keychain.api.token }}}}"], env: {{ T: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: boxname, kind: container, task_definition: "{{{{ keychain.api.token }}}}", network: {{ subnets: ["{{{{ keychain.api.token }}}}"] }}, spec: {ERROR} }}
      - {{ name: pgwrong, kind: postgres, auth: "{{{{ workload.dsn }}}}", copy: {{ from: [{{ id: "{{{{ keychain.api.token }}}}" }}], into: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
  - step: others
    tool:
      - {{ name: kept, kind: noop, result: "{{{{ keychain.api.token }}}}", set_iter: {{ token: "{{{{ keychain.api.token }}}}" }}, set_ctx: {{ seen: "{{{{ keychain.api.token }}}}" }} }}
      - {{ name: field, kind: secrets, secret: api, field: token }}
      - {{ name: all, kind: secrets, secret: api }}
      - {{ name: again, kind: noop, result: ["{{{{ field }}}}", "{{{{ all }}}}", "{{{{ iter.token }}}}", "{{{{ _prev }}}}", "{{{{ ctx.seen }}}}"] }}
      - {{ name: store, kind: store, data: {{ a: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: storekey, kind: store, data: 1, key: "{{{{ keychain.api.token }}}}.json", spec: {ERROR} }}
      - {{ name: quantum, kind: quantum, circuit: "{{{{ keychain.api.token }}}}", spec: {ERROR} }}
      - {{ name: book, kind: workbook, task: echo, args: {{ t: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: policy, kind: noop, result: 1, spec: {{ policy: {{ rules: [{{ else: {{ then: {{ do: continue, set_ctx: {{ p: "{{{{ keychain.api.token }}}}" }} }} }} }}] }} }} }}
      - {{ name: kind, kind: python, args: {{ n: "{{{{ keychain.api.token }}}}" }}, code: "result = n", spec: {{ memory_mb: "{{{{ keychain.api.token }}}}", policy: {{ rules: [{{ else: {{ then: {{ do: continue }} }} }}] }} }} }}
      - {{ name: time, kind: noop, spec: {{ timeout: "{{{{ keychain.api.token }}}}", policy: {{ rules: [{{ else: {{ then: {{ do: continue }} }} }}] }} }} }}
      - {{ name: failing, kind: noop, result: "{{{{ keychain.api.token | int(default='x') + 1 }}}}", spec: {ERROR} }}
  - step: aws
    tool:
      - {{ name: kvput, kind: kv, action: put, key: k, value: "{{{{ keychain.api.token }}}}", spec: {ERROR} }}
      - {{ name: artput, kind: artifact, action: put, key: k, data: ["{{{{ keychain.api.token }}}}"], spec: {ERROR} }}
      - {{ name: artkey, kind: artifact, key: "{{{{ keychain.api.token }}}}", spec: {ERROR} }}
      - {{ name: kvkey, kind: kv, key: "{{{{ keychain.api.token }}}}", spec: {ERROR} }}
      - {{ name: sqs, kind: sqs, queue: canary, message: "{{{{ keychain.api.token }}}}", attributes: {{ a: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: sqsqueue, kind: sqs, queue: "{{{{ keychain.api.token }}}}", message: x, spec: {ERROR} }}
      - {{ name: sns, kind: sns, topic: canary, subject: "{{{{ keychain.api.token }}}}", message: "{{{{ keychain.api.token }}}}", attributes: {{ a: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: snstopic, kind: sns, topic: "{{{{ keychain.api.token }}}}", message: x, spec: {ERROR} }}
      - {{ name: bus, kind: eventbridge, bus: canary, source: "{{{{ keychain.api.token }}}}", detail_type: "{{{{ keychain.api.token }}}}", detail: {{ a: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: busname, kind: eventbridge, bus: "{{{{ keychain.api.token }}}}:", source: a, detail_type: b, detail: {{ a: 1 }}, spec: {ERROR} }}
      - {{ name: busdetail, kind: eventbridge, source: a, detail_type: b, details: ["{{{{ keychain.api.token }}}}"], spec: {ERROR} }}
      - {{ name: mail, kind: email, from: "{{{{ keychain.api.token }}}} <canary@example.org>", to: a@example.org, subject: "{{{{ keychain.api.token }}}}", text: "{{{{ keychain.api.token }}}}", attachments: [{{ name: a.json, data: ["{{{{ keychain.api.token }}}}"] }}], spec: {ERROR} }}
      - {{ name: mailfrom, kind: email, from: "{{{{ keychain.api.token }}}}@example.org", to: a@example.org, subject: a, text: a, spec: {ERROR} }}
      - {{ name: mailto, kind: email, from: canary@example.org, to: "{{{{ keychain.api.token }}}}", subject: a, text: a, spec: {ERROR} }}
      - {{ name: mailfile, kind: email, from: canary@example.org, to: a@example.org, subject: a, text: a, attachments: ["{{{{ keychain.api.token }}}}"], spec: {ERROR} }}
      - {{ name: dynput, kind: dynamodb, action: put, table: canary, item: {{ pk: "{{{{ keychain.api.token }}}}", sk: a, v: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: dynget, kind: dynamodb, table: canary, key: {{ pk: "{{{{ keychain.api.token }}}}", sk: a }}, spec: {ERROR} }}
      - {{ name: dynupdate, kind: dynamodb, action: update, table: canary, key: {{ pk: a, sk: a }}, update: "SET x = {{{{ keychain.api.token }}}}", spec: {ERROR} }}
      - {{ name: dyntable, kind: dynamodb, table: "{{{{ keychain.api.token }}}}", key: {{ pk: a, sk: a }}, spec: {ERROR} }}
      - {{ name: lam, kind: lambda, function: "{{{{ keychain.api.token }}}}", payload: "{{{{ keychain.api.token }}}}", spec: {ERROR} }}
      - {{ name: s3put, kind: s3, action: put, bucket: canary, key: a.txt, data: "{{{{ keychain.api.token }}}}", metadata: {{ m: "{{{{ keychain.api.token }}}}" }}, spec: {ERROR} }}
      - {{ name: s3key, kind: s3, bucket: canary, key: "{{{{ keychain.api.token }}}}", spec: {ERROR} }}
      - {{ name: s3uri, kind: s3, uri: "{{{{ keychain.api.token }}}}", spec: {ERROR} }}
      - {{ name: s3list, kind: s3, action: list, bucket: canary, prefix: "{{{{ keychain.api.token }}}}", spec: {ERROR} }}
      - {{ name: s3sign, kind: s3, action: presign, bucket: canary, key: "{{{{ keychain.api.token }}}}", spec: {{ secret: false, policy: {{ rules: [{{ else: {{ then: {{ do: continue }} }} }}] }} }} }}
  - step: loop
    loop: {{ in: "{{{{ range(4) | list }}}}", iterator: n, spec: {{ policy: {{ exec: distributed, max_in_flight: 2 }} }} }}
    tool:
      - {{ name: each, kind: noop, result: {{ n: "{{{{ iter.n }}}}", t: "{{{{ keychain.api.token }}}}" }}, set_ctx: {{ last: "{{{{ keychain.api.token }}}}" }}, spec: {{ policy: {{ rules: [{{ else: {{ then: {{ do: continue }} }} }}] }} }} }}
  - step: child
    tool:
      - {{ name: masked, kind: noop, result: "{{{{ keychain.api.token }}}}" }}
      - {{ name: call, kind: playbook, path: canary/child, args: {{ t: "{{{{ masked }}}}" }}, spec: {ERROR} }}
      - {{ name: path, kind: playbook, path: "{{{{ masked }}}}", spec: {ERROR} }}
  - step: waits
    tool:
      - {{ name: got, kind: secrets, secret: api, field: token }}
      - {{ name: told, kind: callback, signal: go, description: "{{{{ got }}}}", spec: {ERROR} }}
      - {{ name: ask, kind: callback, signal: go, description: Go?, timeout: 1h }}
      - {{ name: after, kind: noop, result: "{{{{ got }}}}" }}
  - step: templates
    tool:
      - {{ name: key, kind: noop, result: {{ "{{{{ keychain.api.token }}}}": 1 }}, spec: {ERROR} }}
      - {{ name: made, kind: noop, result: "{{{{ {{keychain.api.token: 1}} }}}}", spec: {ERROR} }}
      - {{ name: public, kind: noop, result: "{{{{ {{'user': keychain.api.token, 'x': {{'name': [keychain.api.token]}}}} }}}}", spec: {ERROR} }}
      - {{ name: posted, kind: http, method: POST, url: "{{{{ workload.url }}}}/echo", json: "{{{{ {{'account': keychain.api.token}} }}}}", spec: {ERROR} }}
      - {{ name: pairs, kind: noop, result: "{{{{ dict([[keychain.api.token, 1]]) }}}}", spec: {ERROR} }}
      - {{ name: index, kind: noop, result: "{{{{ workload[keychain.api.token] }}}}", spec: {ERROR} }}
      - {{ name: attribute, kind: noop, result: "{{{{ keychain.api.token.nothing + 1 }}}}", spec: {ERROR} }}
      - {{ name: filter, kind: noop, result: "{{{{ keychain.api.token | fromjson }}}}", spec: {ERROR} }}
      - {{ name: number, kind: noop, result: "{{{{ keychain.api.token | int(default=none) + 1 }}}}", spec: {ERROR} }}
      - {{ name: sum, kind: noop, result: "{{{{ 1 + keychain.api.token }}}}", spec: {ERROR} }}
      - {{ name: call, kind: noop, result: "{{{{ keychain.api.token // 2 }}}}", spec: {ERROR} }}
      - {{ name: format, kind: noop, result: "{{{{ '%d' % keychain.api.token }}}}", spec: {ERROR} }}
      - {{ name: pattern, kind: noop, result: "{{{{ 'x' | regex_replace('(' ~ keychain.api.token, '') }}}}", spec: {ERROR} }}
      - {{ name: grouped, kind: noop, result: "{{{{ [{{'a': keychain.api.token}}] | groupby('a') }}}}", spec: {ERROR} }}
      - {{ name: ctxkey, kind: noop, result: 1, set_ctx: {{ "{{{{ keychain.api.token }}}}": 2 }}, spec: {ERROR} }}
      - {{ name: unlisted, kind: noop, result: "{{{{ ['a', keychain.api.token] | map(keychain.api.token) | list }}}}", spec: {ERROR} }}
      - {{ name: date, kind: noop, result: "{{{{ keychain.api.token | format_datetime }}}}", spec: {ERROR} }}
      - {{ name: one, kind: http, url: "{{{{ workload.url }}}}/echo", spec: {{ policy: {{ rules: [{{ when: "{{{{ outcome.result.data[keychain.api.token] + 1 }}}}", then: {{ do: continue }} }}, {{ else: {{ then: {{ do: fail }} }} }}] }} }} }}
"""
STEPS = ("http", "bodies", "llm", "mcp", "shell", "python", "sql", "others", "aws", "loop", "child", "waits", "templates")


def mcp_answer(told: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of an MCP server that repeats the whole request."""
    asked = json.loads(told["body"])
    params = asked.get("params", {})
    text = [{"type": "text", "text": json.dumps(told)}]
    if asked["method"] == "initialize":
        result: dict[str, Any] = {"protocolVersion": params["protocolVersion"]}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": f"{told['headers']['Authorization']} near"}]}
    elif params.get("name") not in ("echo", "fail"):
        return {"jsonrpc": "2.0", "id": asked.get("id"), "error": {"code": -32602, "message": json.dumps(told)}}
    else:
        result = {"content": text, "structuredContent": told, "isError": params["name"] == "fail"}
    return {"jsonrpc": "2.0", "id": asked["id"], "result": result}


class Echo(Handler):
    """Says back all it was told; refuses what it is asked to."""

    seen: list[str]

    def answer(self) -> None:
        told = {"path": self.path, "headers": dict(self.headers), "body": self.told().decode()}
        self.seen.append(json.dumps(told))
        answer = mcp_answer(told) if self.path == "/mcp" else told
        if self.path == "/token":
            answer = {"access_token": f"{CANARY}-granted", "expires_in": 3600, "said": told}
        body = json.dumps(answer).encode()
        self.say(418 if self.path.startswith("/refuse") else 200, body, Content_Type="application/json", X_Path=self.path)

    do_GET = do_POST = answer


@pytest.fixture
def url() -> Iterator[str]:
    Echo.seen = []
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Echo)) as server:
        yield url_of(server)


@pytest.fixture
def aws() -> Iterator[None]:
    """Mock the services of AWS in this process for their kinds."""
    with mock_aws(), environment():
        client("s3").create_bucket(Bucket="canary")
        client("sqs").create_queue(QueueName="canary")
        client("sns").create_topic(Name="canary")
        client("events").create_event_bus(Name="canary")
        client("sesv2").create_email_identity(EmailIdentity="canary@example.org")
        make_items("canary")
        yield


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with postgres() as uri:
        yield uri


def one_step(name: str) -> str:
    """The playbook with one of its steps alone."""
    head, *steps = PLAYBOOK.split("  - step: ")
    return head + "".join(f"  - step: {s}" for s in steps if s.startswith(f"{name}\n"))


def test_every_tool_kind_is_tried() -> None:
    missing = {kind for kind in KINDS if f"kind: {kind}" not in PLAYBOOK} - {"wait"}  # it takes nothing but times
    assert missing == set(), "add a task of each kind with the canary in its inputs to PLAYBOOK"


@pytest.mark.one_in(12)
@pytest.mark.parametrize("step", STEPS)
def test_the_canary_leaves_the_worker_nowhere(
    step: str,
    url: str,
    dsn: str,
    aws: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("NOETL_ALLOW_SHELL", "1")
    secrets = LocalSecrets(tmp_path / "home" / "credentials.json")
    secrets.put("api", {"token": CANARY})
    local = LocalWiring(tmp_path / "runs.db", secrets=secrets)
    sent: list[str] = []
    send = local.queue.send

    def sending(commands: Any, delay_s: int = 0) -> Any:
        sent.extend(str(encode_command(command)) for command in commands)
        return send(commands, delay_s)

    local.queue.send = sending  # type: ignore[method-assign]
    register(local.control, CHILD)
    started = local.start(StartRequest(playbook=one_step(step), payload={"url": url, "dsn": dsn}))
    if step == "waits":
        run_until_it_waits(local, started.execution_id)
        operate.signal(local.control, started.execution_id, "go", {"ok": True})
    assert local.run(started.execution_id, timeout_s=60)
    state = local.control.load(started.execution_id)
    assert sent and state.status in ("completed", "failed"), state.failure
    if step in ("http", "bodies", "mcp"):
        assert CANARY in "".join(Echo.seen)  # it went where it was meant to go
    if step == "bodies":
        assert state.status == "completed", state.failure
    if step == "aws":
        assert client("s3").get_object(Bucket="canary", Key="a.txt")["Body"].read() == CANARY.encode()
    out = ways_out(local, tmp_path, sent)
    local.close()
    told = capfd.readouterr()
    out |= {"logs": caplog.text, "stdout": told.out, "stderr": told.err}
    assert "***" in out["table commits"]
    assert {where: found for where, text in out.items() if (found := found_in(text))} == {}
