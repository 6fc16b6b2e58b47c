"""Results that are declared secret: the pipeline uses them, and nothing else ever shows them (docs/language/results.md)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.control.admit import StartRequest
from noetl_core.control.lifecycle import operate
from noetl_core.dsl.model import Task
from noetl_core.dsl.parse import check
from noetl_core.engine.outcome import Outcome
from noetl_core.log.codec import encode_command
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from noetl_core.worker.secrets.secret_results import with_secret_result
from tests.properties import TIMES
from tests.servers import Handler, serving, url_of
from tests.unit.worker.canary import CANARY, found_in, ways_out
from tests.waiting import run_until_it_waits

HEAD = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: secret, path: canary/all }
workload: { url: "" }
executor: { spec: { policy: { failure: { mode: best_effort }, limits: { max_payload_bytes: LIMIT } } } }
workflow:
"""
STEPS = {
    "whole": """
  - step: login
    tool:
      - { name: token, kind: http, method: POST, url: "{{ workload.url }}/token", spec: { result: { secret: true } } }
      - name: fetch
        kind: http
        url: "{{ workload.url }}/data"
        headers: { Authorization: "Bearer {{ token.data.access_token }}" }
        json: { all: "{{ token }}" }
        spec: { policy: { rules: [{ when: "{{ outcome.result.data.authorized }}", then: { do: continue } }, { else: { then: { do: fail } } }] } }
      - { name: last, kind: noop, result: "{{ fetch.data.authorized }}" }
""",
    "fields": """
  - step: login
    tool:
      - name: token
        kind: http
        url: "{{ workload.url }}/token"
        spec:
          result: { secret: [access_token, body.user.email] }
          policy: { rules: [{ when: "{{ outcome.result.data.access_token | length > 5 and outcome.http.status == 200 }}", then: { do: continue, set_iter: { t: "{{ outcome.result.data.access_token }}" }, set_ctx: { t: "{{ output.data.access_token }}" } } }, { else: { then: { do: fail } } }] }
      - { name: fetch, kind: http, url: "{{ workload.url }}/data", auth: { type: bearer, token: "{{ iter.t }}" } }
      - { name: again, kind: http, url: "{{ workload.url }}/data", auth: { type: bearer, token: "{{ ctx.t }}" } }
      - { name: last, kind: noop, result: "{{ [again.data.authorized and fetch.data.authorized, token.data.expires_in] }}" }
""",
    "as result": """
  - step: login
    tool: { name: token, kind: http, url: "{{ workload.url }}/token", spec: { result: { secret: [data.access_token, headers.set-cookie, data.user] } } }
    next: { arcs: [{ step: more, when: "{{ event.result.data.expires_in == 3600 }}", args: { all: "{{ event.result }}" } }] }
  - step: more
    tool: { name: last, kind: noop, result: "{{ [args.all.status, steps.login.result.data.expires_in] }}" }
""",
    "missing": """
  - step: login
    tool:
      - { name: token, kind: http, url: "{{ workload.url }}/token", spec: { result: { secret: [no.such.field] } } }
      - { name: last, kind: noop, result: "{{ 1 if token.status_code == 200 else 2 }}" }
""",
    "failures": """
  - step: login
    tool:
      - { name: token, kind: http, url: "{{ workload.url }}/refuse", spec: { result: { secret: true }, policy: { rules: [{ when: "{{ outcome.error.code == 418 and outcome.http.status == 418 and 'Canary' in outcome.error.details.body and outcome.http.headers['retry-after'] == '1' }}", then: { do: continue } }, { else: { then: { do: fail } } }] } } }
      - { name: raises, kind: python, args: { url: "{{ workload.url }}" }, code: "t = 'TOKEN'\\nprint(t)\\nraise ValueError(t)", spec: { result: { secret: true }, policy: { rules: [{ else: { then: { do: continue } } }] } } }
      - { name: duck, kind: duckdb, command: "SELECT CAST('TOKEN' AS INT)", spec: { result: { secret: true }, policy: { rules: [{ else: { then: { do: continue } } }] } } }
      - { name: last, kind: noop, result: done }
""",
    "python": """
  - step: login
    tool:
      - name: token
        kind: python
        args: { a: TOK, b: EN }
        code: |
          t = PARTS
          print("have", t)
          return {"token": t, "rows": [{"t": t, "n": n} for n in range(50)], "text": f"it is {t}!", "user": t}
        spec: { result: { secret: [token, rows.t] } }
      - { name: echo, kind: python, args: { t: "{{ token.rows[3].t }}" }, code: "print(t)\\nreturn [t, len(t)]" }
      - { name: large, kind: python, code: "t = PARTS\\nreturn {'t': t, 'x': 'y' * 20000}", spec: { result: { secret: [t] } } }
      - { name: huge, kind: python, code: "t = PARTS\\nprint(t)\\nreturn [t] * 2000", spec: { result: { secret: true } } }
      - { name: last, kind: noop, result: [ "{{ echo[1] }}", "{{ large.x | length }}", "{{ token.rows[4].n }}", "{{ huge | length > 5 }}" ] }
""",
    "sealed": """
  - step: login
    tool:
      - { name: token, kind: http, url: "{{ workload.url }}/token", spec: { result: { secret: true } } }
      - { name: big, kind: python, code: "t = PARTS\\nreturn {'t': t, 'x': 'y' * 20000}", spec: { result: { secret: [t] } } }
      - { name: ask, kind: callback, signal: go }
      - { name: fetch, kind: http, url: "{{ workload.url }}/data", auth: { type: bearer, token: "{{ token.body.access_token }}" } }
      - { name: other, kind: http, url: "{{ workload.url }}/data", auth: { type: bearer, token: "{{ big.t }}" } }
      - { name: last, kind: noop, result: "{{ [fetch.data.authorized, other.data.authorized, big.x | length] }}" }
""",
    "loops": """
  - step: here
    loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel, policy: { exec: local } } }
    spec: { result: { secret: [data.access_token, data.user.email] } }
    tool: { name: token, kind: http, url: "{{ workload.url }}/token", params: { n: "{{ iter.n }}" } }
    next: { arcs: [{ step: there, when: "{{ event.result[1].data.expires_in == 3600 }}" }] }
  - step: there
    loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel, max_in_flight: 2, policy: { exec: distributed } } }
    tool:
      - { name: token, kind: http, url: "{{ workload.url }}/token", spec: { result: { secret: true } } }
      - { name: fetch, kind: http, url: "{{ workload.url }}/data", auth: { type: bearer, token: "{{ token.body.access_token }}" } }
      - { name: last, kind: noop, result: "{{ fetch.data.authorized }}" }
""",
}  # fmt: skip
RESULTS = {
    "whole": True,
    "fields": [True, 3600],
    "as result": [200, 3600],
    "missing": 1,
    "failures": "done",
    "python": [len(CANARY), 20000, 4, True],
    "sealed": [True, True, 20000],
    "loops": [True, True, True],
}


class Service(Handler):
    seen: list[str]

    def answer(self) -> None:
        self.told()
        authorized = self.headers.get("Authorization") == f"Bearer {CANARY}"
        self.seen.append(str(self.headers.get("Authorization")))
        body: Any = {"authorized": authorized}
        if self.path.startswith("/token"):
            body = {"access_token": CANARY, "user": {"email": f"{CANARY}@example.org"}, "expires_in": 3600}
        status = 418 if self.path == "/refuse" else 200
        if status == 418:
            body = {"message": f"{CANARY} is not wanted"}  # a key whose text explains an error
        cookie = {"Set_Cookie": f"session={CANARY}"} if self.path != "/data" else {}
        self.say(status, json.dumps(body).encode(), Content_Type="application/json", Retry_After="1", **cookie)

    do_GET = do_POST = answer


@pytest.fixture
def url() -> Iterator[str]:
    Service.seen = []
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Service)) as server:
        yield url_of(server)


LIMITS = (8192, 64)


@pytest.mark.one_in(3)
@pytest.mark.sized
@pytest.mark.parametrize(("name", "limit"), [*(product(STEPS, LIMITS) if TIMES else zip(STEPS, cycle(LIMITS), strict=False))])
def test_the_pipeline_uses_a_secret_result_and_nothing_shows_it(
    name: str, limit: int, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    half = len(CANARY) // 2
    parts = f"'{CANARY[: half - 4]}' + '{CANARY[half - 4 : half + 4]}' + '{CANARY[half + 4 :]}'"
    duck = " || ".join(f"'{part}'" for part in (CANARY[: half - 4], CANARY[half - 4 : half + 4], CANARY[half + 4 :]))
    text = (HEAD.replace("LIMIT", str(limit)) + STEPS[name]).replace("PARTS", parts)
    text = text.replace("CAST('TOKEN' AS INT)", f"CAST({duck} AS INT)").replace("t = 'TOKEN'", f"t = {parts}")
    assert [str(d) for d in check(text)[1] if d.severity == "error"] == []
    local = LocalWiring(tmp_path / "runs.db", secrets=LocalSecrets(tmp_path / "home" / "credentials.json"))
    sent: list[str] = []
    send = local.queue.send

    def sending(commands: Any, delay_s: int = 0) -> Any:
        sent.extend(str(encode_command(command)) for command in commands)
        return send(commands, delay_s)

    local.queue.send = sending  # type: ignore[method-assign]
    started = local.start(StartRequest(playbook=text, payload={"url": url}))
    if name == "sealed":
        run_until_it_waits(local, started.execution_id)
        operate.signal(local.control, started.execution_id, "go", {})
    assert local.run(started.execution_id, timeout_s=60)
    summary = executions.summary(local.control, started.execution_id)
    out = ways_out(local, tmp_path, sent)
    whole = local.worker  # the result may be behind a reference
    assert whole is not None
    assert summary["error"] is None, summary["error"]
    result = summary["result"]
    if isinstance(result, dict):
        result = json.loads(local.results.get(result["key"]))
    assert result == RESULTS[name]
    local.close()
    told = capfd.readouterr()
    out |= {"logs": caplog.text, "stdout": told.out, "stderr": told.err, "summary": json.dumps(summary)}
    assert {where: found for where, text in out.items() if (found := found_in(text))} == {}
    if name in ("whole", "fields", "sealed", "loops"):
        assert f"Bearer {CANARY}" in Service.seen


@pytest.mark.parametrize(
    ("kind", "error", "shown"),
    [
        (
            "http",
            ("client_error", f"GET http://a/b: HTTP 418: {CANARY} is expired", 418),
            "GET http://a/b: failed (client_error, 418); ",
        ),
        (
            "http",
            ("rate_limit", f"GET http://a/b: HTTP 429: {CANARY} is slow", 429),
            "GET http://a/b: failed (rate_limit, 429); ",
        ),
        ("http", ("parse", f"GET http://a/b: key {CANARY} twice", 200), "GET http://a/b: failed (parse, 200); "),
        (
            "http",
            ("client_error", f"GET http://a/b: to {CANARY}@c", "body_redirected"),
            "GET http://a/b: failed (client_error, body_redirected); ",
        ),
        ("http", ("timeout", "GET http://a/b: no answer in time", "ReadTimeout"), "GET http://a/b: no answer in time"),
        ("http", ("schema", "`body` and `json` exclude each other", None), "`body` and `json` exclude each other"),
        ("llm", ("rate_limit", f"llm: {CANARY}", 429), "llm: failed (rate_limit, 429); "),
        ("duckdb", ("schema", f"cannot cast {CANARY}", None), "duckdb: failed (schema); "),
    ],
)
def test_a_message_with_words_of_the_service_is_withheld(kind: str, error: tuple[Any, str, Any], shown: str) -> None:
    task = Task("token", kind, {}, {"result": {"secret": True}})
    failed = with_secret_result(Outcome.failed(error[0], error[1], code=error[2], details={"body": CANARY}), task)
    assert failed.error is not None and failed.error.message.startswith(shown)
    assert CANARY not in f"{failed.error.message} {failed.error.details}"


READS = """
  - step: login
    tool: { name: token, kind: http, url: u, spec: { result: { secret: SECRET } } }
    NEXT
  - step: other
    tool: { kind: noop, result: "OTHER" }
"""


@pytest.mark.parametrize(
    ("secret", "next_", "other", "found"),
    [
        ("true", "next: { arcs: [{ step: other, when: '{{ event.result.status == 200 }}' }] }", "x", True),
        ("true", "next: { arcs: [{ step: other, args: { t: '{{ output.data.access_token }}' } }] }", "x", True),
        ("true", "set_ctx: { t: '{{ event.result }}' }", "x", True),
        ("true", "next: { arcs: [{ step: other }] }", "{{ steps.login.result.data }}", True),
        ("true", "next: { arcs: [{ step: other }] }", "{{ login.body.access_token }}", True),
        ("true", "next: { arcs: [{ step: other, when: '{{ event.status == 1 }}' }] }", "{{ steps.login.status }}", False),
        ("[access_token]", "next: { arcs: [{ step: other, when: '{{ event.result.data.access_token }}' }] }", "x", True),
        ("[access_token]", "next: { arcs: [{ step: other }] }", "{{ login.body.access_token }}", True),
        ("[data.access_token]", "next: { arcs: [{ step: other }] }", "{{ login.body.access_token.x }}", True),
        ("[body.user.email]", "next: { arcs: [{ step: other }] }", "{{ login.data.user.email }}", True),
        (
            "[access_token]",
            "next: { arcs: [{ step: other, args: { e: '{{ event.result }}' } }] }",
            "{{ login.data.expires_in }}",
            False,
        ),
        ("false", "next: { arcs: [{ step: other }] }", "{{ login.data.access_token }}", False),
    ],
)
def test_reading_a_secret_result_outside_its_step_is_refused(secret: str, next_: str, other: str, found: bool) -> None:
    text = HEAD.replace("LIMIT", "64") + READS.replace("SECRET", secret).replace("NEXT", next_).replace("OTHER", other)
    assert [d.code for d in check(text)[1] if d.severity == "error"] == (["E210"] if found else [])


@pytest.mark.parametrize("kind", ["playbook, path: a/b", "callback, signal: go", "wait, seconds: 1", "store, data: 1"])
def test_results_that_are_recorded_elsewhere_cannot_be_secret(kind: str) -> None:
    text = HEAD.replace("LIMIT", "64") + f"  - {{ step: a, tool: {{ kind: {kind}, spec: {{ result: {{ secret: true }} }} }} }}\n"
    assert [d.code for d in check(text)[1] if d.severity == "error"] == ["E114"]


@pytest.mark.parametrize(
    "result",
    [
        "{ secret: yes please }",
        "{ secret: [] }",
        "{ secret: [1] }",
        "{ secret: ['a..b'] }",
        "{ secret: ['{{ x }}'] }",
        "{ secrets: true }",
    ],
)
def test_a_declaration_out_of_shape_is_refused(result: str) -> None:
    text = HEAD.replace("LIMIT", "64") + f"  - {{ step: a, tool: {{ kind: noop, spec: {{ result: {result} }} }} }}\n"
    assert [d.code for d in check(text)[1] if d.severity == "error"] in (["E112"], ["E110"])
