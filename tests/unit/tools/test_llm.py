"""`kind: llm`: what it asks, what it makes of answers, and how it fails."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.engine.outcome import Outcome
from noetl_core.observe.cost import Meter
from noetl_core.tools.base import ToolCall
from noetl_core.tools.http.tool import HttpTool
from noetl_core.tools.invoke import invoke
from noetl_core.tools.llm import LlmTool
from noetl_core.tools.network.addresses import AddressPolicy
from noetl_core.views.executions import executions
from noetl_core.views.reading.cursor import history
from tests.llm_server import HANG, LlmServer, llm_server
from tests.running import run_text

SCHEMA = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}, "additionalProperties": False}
PRICE = {"input_per_million": 2, "output_per_million": 10}


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with llm_server(lambda body: "Paris it is") as server:
        yield server


@pytest.fixture(scope="module")
def tool() -> Iterator[LlmTool]:
    tool = LlmTool(HttpTool(AddressPolicy(allow_private=True)))
    yield tool
    tool.close()


def ask(tool: LlmTool, server: LlmServer, spec: dict[str, Any] | None = None, attempt: int = 1, **inputs: Any) -> Outcome:
    stored = {"llm": {"type": "bearer", "token": "sk-v3ry-secret", "base_url": server.url, "model": "stored-1", "price": PRICE}}
    all_inputs = {"url": server.url, "model": "test-1", **inputs}
    call = ToolCall(
        "llm",
        {name: value for name, value in all_inputs.items() if value is not None},
        spec or {},
        task_run_id="run-1",
        attempt=attempt,
        timeout_s=10,
        secrets=stored.__getitem__,
    )
    return invoke(tool, call)


def test_a_prompt_is_answered(tool: LlmTool, server: LlmServer) -> None:
    done = ask(tool, server, prompt="Where to?", system="Be brief.", temperature=0, max_tokens=9, options={"seed": 7})
    assert server.asked == [
        {
            "model": "test-1",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where to?"}],
            "temperature": 0,
            "max_tokens": 9,
            "seed": 7,
        }
    ]
    usage = {"input_tokens": 4, "output_tokens": 3}
    assert done.result == {"text": "Paris it is", "model": "test-1", "finish_reason": "stop", "usage": usage}
    assert done.meta["llm"] == {"model": "test-1", **usage}


def test_a_credential_has_the_address_the_model_the_key_and_the_price(tool: LlmTool, server: LlmServer) -> None:
    done = ask(tool, server, url=None, model=None, auth="llm", messages=[{"role": "user", "content": "Where?"}])
    assert server.headers[0]["authorization"] == "Bearer sk-v3ry-secret"
    assert done.result["model"] == "stored-1"
    assert done.meta["llm"] == {"model": "stored-1", "input_tokens": 1, "output_tokens": 3, "usd": 0.000032}


def test_the_key_is_in_no_answer(tool: LlmTool, server: LlmServer) -> None:
    server.answer = lambda body: "your key is sk-v3ry-secret"
    assert ask(tool, server, auth="llm", prompt="?").result["text"] == "your key is ***"
    server.answer = lambda body: (401, {"error": {"message": "wrong key: sk-v3ry-secret", "code": "invalid_api_key"}})
    error = ask(tool, server, auth="llm", prompt="?").error
    assert error is not None
    assert (error.kind, error.message, error.code) == ("auth", "llm: wrong key: ***", "invalid_api_key")
    assert "sk-v3ry-secret" not in str(error.details)


def test_an_answer_is_parsed_and_checked(tool: LlmTool, server: LlmServer) -> None:
    server.answer = lambda body: '```json\n{"city": "Paris"}\n```'
    done = ask(tool, server, prompt="?", schema=SCHEMA)
    assert done.result["data"] == {"city": "Paris"}
    assert server.asked[0]["response_format"] == {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}


@pytest.mark.parametrize(("form", "sent"), [("json_object", {"type": "json_object"}), ("text", None)])
def test_services_without_schema_support_get_the_schema_in_the_prompt(
    tool: LlmTool, server: LlmServer, form: str, sent: Any
) -> None:
    server.answer = lambda body: '{"city": "Paris"}'
    assert ask(tool, server, {"format": form}, prompt="?", schema=SCHEMA).result["data"] == {"city": "Paris"}
    assert server.asked[0].get("response_format") == sent
    assert json.dumps(SCHEMA) in server.asked[0]["messages"][0]["content"]


def test_an_answer_that_does_not_fit_is_repaired_once(tool: LlmTool, server: LlmServer) -> None:
    server.answer = lambda body: '{"town": "Paris"}' if len(body["messages"]) == 1 else '{"city": "Paris"}'
    done = ask(tool, server, prompt="?", schema=SCHEMA)
    assert done.result["data"] == {"city": "Paris"}
    assert [m["role"] for m in server.asked[1]["messages"]] == ["user", "assistant", "user"]
    assert "has no 'city'" in server.asked[1]["messages"][2]["content"]
    assert done.result["usage"]["output_tokens"] == 4, "both answers are counted"
    keys = [headers["idempotency-key"] for headers in server.headers]
    assert len(set(keys)) == 2, "a service that knows the key must not give the same answer again"
    ask(tool, server, attempt=2, prompt="?", schema=SCHEMA)
    assert server.headers[2]["idempotency-key"] not in keys


@pytest.mark.parametrize(("reply", "kind"), [('{"town": 1}', "schema"), ("no JSON", "parse"), ('{"city": NaN}', "parse")])
def test_an_answer_that_never_fits_fails_and_reports_its_cost(tool: LlmTool, server: LlmServer, reply: str, kind: str) -> None:
    server.answer = lambda body: reply
    failed = ask(tool, server, prompt="?", auth="llm", schema=SCHEMA)
    assert failed.error is not None and len(server.asked) == 2
    assert (failed.error.kind, failed.error.retryable) == (kind, True)
    assert failed.meta["llm"]["usd"] > 0
    once = ask(tool, server, {"repair": False}, prompt="?", schema=SCHEMA)
    assert (once.error is not None, len(server.asked)) == (True, 3)


CONTEXT = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."


@pytest.mark.parametrize(
    ("answer", "kind", "code", "retryable"),
    [
        ((401, {"error": {"message": "no", "code": "invalid_api_key"}}), "auth", "invalid_api_key", None),
        ((403, "<html>"), "auth", 403, None),
        ((404, {"error": {"message": "no model x", "code": "model_not_found"}}), "not_found", "model_not_found", None),
        ((400, {"error": {"message": CONTEXT, "code": "context_length_exceeded"}}), "limit", "context_length", False),
        ((400, {"error": {"message": "prompt is too long: 9000 tokens"}}), "limit", "context_length", False),
        ((400, {"error": "the context window is 4096 tokens"}), "limit", "context_length", False),
        ((413, ""), "limit", "context_length", False),
        ((400, {"error": {"message": "bad temperature"}}), "client_error", 400, None),
        ((429, {"error": {"message": "slow down"}}, {"Retry_After": "7"}), "rate_limit", 429, None),
        ((429, {"error": {"message": "pay", "code": "insufficient_quota"}}), "rate_limit", "insufficient_quota", False),
        ((503, {"error": {"message": "busy"}}), "server_error", 503, None),
        ((529, ""), "server_error", 529, None),
        ((200, {"object": "list"}), "parse", None, False),
        ((200, {"choices": []}), "parse", None, False),
        ((200, "{"), "parse", 200, False),
        ({"content": None, "refusal": "I cannot"}, "client_error", "refusal", False),
    ],
)
def test_errors_of_a_service_have_the_right_kind_code_and_retryability(
    tool: LlmTool, server: LlmServer, answer: Any, kind: str, code: Any, retryable: Any
) -> None:
    server.answer = lambda body: answer
    error = ask(tool, server, prompt="?").error
    assert error is not None
    assert (error.kind, error.code, error.retryable) == (kind, code, retryable)
    if code == 429:
        assert error.details["retry_after"] in ("7", 7.0)


def test_an_answer_that_is_cut_off_fails_if_a_schema_is_set(tool: LlmTool, server: LlmServer) -> None:
    server.answer = lambda body: {"content": '{"city": "Pa', "finish_reason": "length"}
    failed = ask(tool, server, prompt="?", schema=SCHEMA)
    assert failed.error is not None
    assert (failed.error.kind, failed.error.code, len(server.asked)) == ("limit", "length", 1)
    cut = ask(tool, server, prompt="?")
    assert (cut.result["text"], cut.result["finish_reason"]) == ('{"city": "Pa', "length")


def test_tool_calls_are_returned_unchanged(tool: LlmTool, server: LlmServer) -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    server.answer = lambda body: {"content": None, "tool_calls": calls, "finish_reason": "tool_calls"}
    assert ask(tool, server, prompt="?", options={"tools": []}).result["tool_calls"] == calls


def test_a_service_that_does_not_respond_times_out(tool: LlmTool, server: LlmServer) -> None:
    server.answer = lambda body: HANG
    error = ask(tool, server, {"timeout": {"read": 0.2}}, prompt="?").error
    assert error is not None and error.kind == "timeout"
    gone = ask(tool, LlmServer("http://127.0.0.1:1/v1", lambda body: ""), prompt="?").error
    assert gone is not None and gone.kind == "connection"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"prompt": 1}, "`prompt` must be text"),
        ({"messages": []}, "`messages` must be a list"),
        ({"messages": [1]}, "`messages[0]` must be a mapping"),
        ({"prompt": "?", "model": None}, "`model` must name a model"),
        ({"prompt": "?", "url": None}, "`url` must be the address"),
        ({"prompt": "?", "options": {"stream": True}}, "it cannot hold stream"),
        ({"prompt": "?", "schema": {"anyOf": []}}, "keyword 'anyOf' is not supported"),
        ({"prompt": "?", "auth": 1}, "`auth` must be a credential's name"),
    ],
)
def test_invalid_inputs_are_refused_before_any_request(
    tool: LlmTool, server: LlmServer, inputs: dict[str, Any], message: str
) -> None:
    error = ask(tool, server, **inputs).error
    assert error is not None and server.asked == []
    assert (error.kind, message in error.message) == ("schema", True), error.message


def test_invalid_prices_and_formats_are_refused(tool: LlmTool, server: LlmServer) -> None:
    for spec in ({"price": 3}, {"price": {"input_per_million": 1}}, {"price": {**PRICE, "output_per_million": -1}}):
        error = ask(tool, server, spec, prompt="?").error
        assert error is not None and "`price` must be" in error.message
    error = ask(tool, server, {"format": "xml"}, prompt="?", schema=SCHEMA).error
    assert error is not None and "`spec.format` 'xml' is unknown" in error.message


PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: ask, path: tests/ask }
workload: { url: "" }
workflow:
  - step: start
    tool:
      kind: llm
      url: "{{ workload.url }}"
      model: test-1
      prompt: one two three
      schema: { type: object, required: [city] }
      spec:
        repair: false
        price: { input_per_million: 1000000, output_per_million: 0 }
        policy: { rules: [{ when: "{{ outcome.error.retryable }}", then: { do: retry, attempts: 3, delay: 0 } }] }
"""


def test_the_log_has_the_tokens_of_every_attempt_and_their_cost(server: LlmServer) -> None:
    answers = iter(["nothing", '{"city": "Paris"}'])
    server.answer = lambda body: next(answers)
    local, state = run_text(PLAYBOOK, {"url": server.url})
    with closing(local):
        assert state.status == "completed"
        commits = list(history(local.store, state.execution_id))
    meter = Meter(state.execution_id)
    meter.observe(commits)
    *_, processed = (e for commit in commits for e in commit.events if e.name == "TaskProcessed")
    assert processed.data["outcome"]["meta"]["llm"] == {"model": "test-1", "input_tokens": 3, "output_tokens": 2, "usd": 3.0}
    step = meter.as_dict()["steps"]["start"]
    assert (step["units"]["llm_input_tokens"], step["units"]["llm_output_tokens"], step["units"]["llm_usd"]) == (6, 3, 6)
    assert step["cost"] > 6


PAGE = Path(__file__).parents[3] / "docs" / "tools" / "llm.md"


def test_the_example_of_the_page_runs(server: LlmServer, tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    server.answer = lambda body: '{"topic": "delivery", "urgent": true}'
    secrets = LocalSecrets(tmp_path / "credentials.json")
    secrets.put("llm", {"token": "sk-1234567", "base_url": server.url})
    local, state = run_text(example, secrets=secrets)
    with closing(local):
        summary = executions.summary(local.control, state.execution_id)
    assert (summary["error"], summary["result"]) == (None, "delivery")
    assert (server.headers[0]["authorization"], server.asked[0]["model"]) == ("Bearer sk-1234567", "gpt-5-mini")
