"""`kind: mcp`: how servers of both sorts are asked, what comes of their answers, and how it fails."""

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
from noetl_core.tools.base import ToolCall
from noetl_core.tools.http.tool import HttpTool
from noetl_core.tools.invoke import invoke
from noetl_core.tools.mcp.messages import events, header_text, mirrored
from noetl_core.tools.mcp.tool import McpTool
from noetl_core.tools.network.addresses import AddressPolicy
from noetl_core.views.executions import executions
from tests.mcp_server import McpServer, mcp_server, text
from tests.running import run_text

OPENING = ["initialize", "notifications/initialized"]


@pytest.fixture
def server() -> Iterator[McpServer]:
    with mcp_server() as server:
        yield server


@pytest.fixture(scope="module")
def tool() -> Iterator[McpTool]:
    tool = McpTool(HttpTool(AddressPolicy(allow_private=True)))
    yield tool
    tool.close()


def ask(
    by: McpTool,
    url: str | None,
    spec: dict[str, Any] | None = None,
    log: list[str] | None = None,
    timeout_s: float = 10,
    **inputs: Any,
) -> Outcome:
    stored = {"mcp": {"type": "bearer", "token": "tk-v3ry-secret", "base_url": url}}
    all_inputs = {"url": url, **inputs}
    call = ToolCall(
        "mcp",
        {name: value for name, value in all_inputs.items() if value is not None},
        spec or {},
        task_run_id="run-1",
        timeout_s=timeout_s,
        secrets=stored.__getitem__,
        log=lambda line, stream="stdout", /: (log if log is not None else []).append(line),
    )
    return invoke(by, call)


def failed(outcome: Outcome) -> tuple[str, bool | None, str]:
    assert outcome.error is not None, outcome.result
    shown = outcome.error.as_dict()
    return shown["kind"], shown["retryable"], shown["message"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("sessions", [False, True])
def test_a_tool_is_called(tool: McpTool, stream: bool, sessions: bool) -> None:
    with mcp_server(stream=stream, sessions=sessions) as server:
        done = ask(tool, server.url, tool="echo", arguments={"city": "Zürich"})
    assert done.result == {
        "content": [{"type": "text", "text": '{"city": "Z\\u00fcrich"}'}],
        "structured": {"city": "Zürich"},
        "text": '{"city": "Z\\u00fcrich"}',
    }
    assert server.methods == [*OPENING, "tools/call", *(["DELETE"] if sessions else [])]
    assert server.asked[0]["params"]["protocolVersion"] == "2025-11-25"
    assert "mcp-protocol-version" not in server.headers[0]
    assert {headers["mcp-protocol-version"] for headers in server.headers[1:]} == {"2025-11-25"}
    assert [headers.get("mcp-session-id", "") != "" for headers in server.headers] == [
        False,
        *[sessions] * (len(server.asked) - 1),
    ]
    assert server.alive == set(), "the session is deleted"
    keys = [headers["idempotency-key"] for headers in server.headers]
    assert len(set(keys)) == len(keys) and keys[2] == "run-1"


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-03-26", "2024-11-05"])
def test_an_older_revision_is_spoken(tool: McpTool, server: McpServer, revision: str) -> None:
    server.revision = revision
    assert ask(tool, server.url, tool="echo").result["structured"] == {}
    assert server.headers[2]["mcp-protocol-version"] == revision


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_without_initialize_is_called_without_sessions(tool: McpTool, stream: bool) -> None:
    with mcp_server(modern=True, sessions=False, revision="2026-07-28", stream=stream) as server:
        assert ask(tool, server.url, tool="echo", arguments={"a": 1}).result["structured"] == {"a": 1}
        assert server.methods == ["initialize", "server/discover", "tools/call"]
        assert ask(tool, server.url, action="list").result["count"] == 1
    assert (server.headers[2]["mcp-method"], server.headers[2]["mcp-name"]) == ("tools/call", "echo")
    assert server.asked[2]["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] == {}


def test_arguments_go_into_headers_where_the_schema_says_so(tool: McpTool) -> None:
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    with mcp_server(modern=True, revision="2026-07-28", mirrors={"region": "Region"}, schemas={"echo": schema}) as server:
        assert ask(tool, server.url, tool="echo", arguments={"region": "eu-1"}).result["structured"] == {"region": "eu-1"}
        assert server.methods[2:] == ["tools/call", "tools/list", "tools/call"]
        assert server.headers[-1]["mcp-param-region"] == "eu-1"


def test_values_are_spelled_so_that_headers_can_have_them() -> None:
    deep = {"properties": {"at": {"type": "object", "properties": {"n": {"x-mcp-header": "N"}, "b": {"x-mcp-header": "B"}}}}}
    assert mirrored(deep, {"at": {"n": -7, "b": True, "other": 1}}) == {"Mcp-Param-N": "-7", "Mcp-Param-B": "true"}
    assert mirrored({"properties": {"a": {"x-mcp-header": "A\r\nX"}}}, {"a": "1"}) == {}
    assert mirrored({"properties": {"a": {"x-mcp-header": "A"}}}, {"a": None}) == {}
    assert header_text("us-west1") == "us-west1"
    assert header_text("Hello, 世界") == "=?base64?SGVsbG8sIOS4lueVjA==?="
    assert header_text(" padded ") == "=?base64?IHBhZGRlZCA=?="
    assert header_text("=?base64?literal?=") == "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="


def test_events_are_read_by_the_book() -> None:
    assert list(events("\ufeffdata: a\r\ndata:b\r\n\r\n: note\nevent: x\ndata:  c\n\n\ndata: d\u2028e\rid: 1\r\rdata: cut")) == [
        "a\nb",
        " c",
        "d\u2028e",
        "cut",
    ]


def test_messages_of_a_stream_before_its_answer_are_logged(tool: McpTool, server: McpServer) -> None:
    server.stream = True
    server.before = [
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}},
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "half way"}},
        {"jsonrpc": "2.0", "id": 3, "method": "sampling/createMessage", "params": {}},
    ]
    log: list[str] = []
    assert ask(tool, server.url, tool="echo", log=log).result["structured"] == {}
    assert log[-2:] == ["info: half way", "the server asks for sampling/createMessage, which is not answered"]


def test_all_pages_of_tools_are_listed(tool: McpTool, server: McpServer) -> None:
    server.tools = {f"tool{n}": lambda arguments: text("x") for n in range(5)}
    server.page = 2
    done = ask(tool, server.url, action="list")
    assert (done.result["count"], [t["name"] for t in done.result["tools"]]) == (5, [f"tool{n}" for n in range(5)])
    server.broken = lambda body: (
        (200, json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": {"tools": [], "nextCursor": "x"}}).encode(), JSON)
        if body["method"] == "tools/list"
        else None
    )
    assert failed(ask(tool, server.url, action="list"))[0] == "limit"


JSON = {"Content_Type": "application/json"}


def test_parts_come_as_they_are(tool: McpTool, server: McpServer) -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    server.tools["echo"] = lambda arguments: {"content": [*text("one", "two")["content"], image]}
    done = ask(tool, server.url, tool="echo").result
    assert (done["text"], done["structured"], done["content"][2]) == ("one\ntwo", None, image)


def test_a_tool_that_fails_is_an_error_with_its_words(tool: McpTool, server: McpServer) -> None:
    server.tools["echo"] = lambda arguments: text("no such city", isError=True)
    outcome = ask(tool, server.url, tool="echo")
    assert failed(outcome) == ("client_error", False, "mcp: the tool echo failed: no such city")
    assert outcome.error is not None and outcome.error.code == "tool_error" and outcome.error.details["text"] == "no such city"


def test_an_unknown_tool_is_reported_with_the_nearest_name(tool: McpTool, server: McpServer) -> None:
    want = "mcp: the server has no tool 'ehco': did you mean \"echo\"? it has echo"
    assert failed(ask(tool, server.url, tool="ehco")) == ("not_found", False, want)
    server.tools["say"] = lambda arguments: text("Unknown tool: x", isError=True)
    assert failed(ask(tool, server.url, tool="say"))[0] == "client_error", "it is there, whatever it says"
    server.result = lambda body, headers: (  # type: ignore[method-assign]
        text(f"Unknown tool: {body['params']['name']}", isError=True)
        if body["method"] == "tools/call"
        else McpServer.result(server, body, headers)
    )
    assert failed(ask(tool, server.url, tool="ehco"))[0] == "not_found", "some servers answer it as a tool's failure"


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [(-32601, "not_found", False), (-32602, "schema", False), (-32603, "server_error", True), (-32700, "server_error", False)],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_of_the_protocol_have_the_kind_they_have(
    tool: McpTool, server: McpServer, stream: bool, code: int, kind: str, retryable: bool
) -> None:
    server.stream = stream
    server.tools["echo"] = lambda arguments: {"error": {"code": code, "message": "so it is", "data": [1]}}
    outcome = ask(tool, server.url, tool="echo")
    assert failed(outcome) == (kind, retryable, "mcp: so it is")
    assert outcome.error is not None and (outcome.error.code, outcome.error.details) == (code, {"data": [1]})


@pytest.mark.parametrize(
    ("answer", "kind", "retryable"),
    [
        ((401, b"", {}), "auth", False),
        ((403, b'{"jsonrpc": "2.0", "error": {"code": -32000, "message": "no"}}', {}), "auth", False),
        ((404, b"<html>", {}), "not_found", False),
        ((405, b"", {}), "client_error", False),
        ((429, b"", {"Retry_After": "7"}), "rate_limit", True),
        ((503, b"", {}), "server_error", True),
        ((200, b"<html>", {"Content_Type": "text/html"}), "parse", False),
        ((200, b"{", JSON), "parse", False),
        ((200, b"[]", JSON), "parse", False),
        ((200, b'{"jsonrpc": "2.0", "id": 99, "result": {}}', JSON), "parse", False),
        ((200, b'{"jsonrpc": "2.0", "id": 1, "result": 7}', JSON), "parse", False),
        ((200, b'data: {"a\n\n', {"Content_Type": "text/event-stream"}), "parse", False),
        ((200, b'data: {"jsonrpc": "2.0", "id": 1, "res', {"Content_Type": "text/event-stream"}), "connection", True),
        ((200, b"", {"Content_Type": "text/event-stream"}), "connection", True),
        ((202, b"", {}), "parse", False),
    ],
)
def test_invalid_answers_fail_with_their_kind(tool: McpTool, server: McpServer, answer: Any, kind: str, retryable: bool) -> None:
    server.broken = lambda body: answer
    outcome = ask(tool, server.url, tool="echo")
    assert failed(outcome)[:2] == (kind, retryable), outcome.error
    assert server.methods == ["initialize"], "nothing else is tried"
    if kind == "rate_limit":
        assert outcome.error is not None and outcome.error.details["retry_after"] == 7


def test_invalid_results_fail_with_their_kind(tool: McpTool, server: McpServer) -> None:
    for content in ("text", [1]):
        server.tools["echo"] = lambda arguments, content=content: {"content": content}  # type: ignore[misc]
        assert failed(ask(tool, server.url, tool="echo"))[:2] == ("parse", False)
    server.tools["echo"] = lambda arguments: {"resultType": "input_required", "inputRequests": {}}
    assert failed(ask(tool, server.url, tool="echo"))[:2] == ("unsupported", False)


def test_a_revision_that_is_not_known_is_refused(tool: McpTool, server: McpServer) -> None:
    server.revision = "1999-01-01"
    kind, retryable, message = failed(ask(tool, server.url, tool="echo"))
    assert (kind, retryable) == ("unsupported", False) and "1999-01-01" in message
    assert "tools/call" not in server.methods
    server.modern, server.sessions = True, False
    assert failed(ask(tool, server.url, tool="echo"))[0] == "unsupported"


def test_a_session_that_has_ended_is_begun_anew_once(tool: McpTool, server: McpServer) -> None:
    ended: list[int] = []

    def ends(body: dict[str, Any]) -> None:
        if body.get("method") == "tools/call" and not ended:
            ended.append(1)
            server.expire()

    server.broken = ends
    assert ask(tool, server.url, tool="echo").result["structured"] == {}
    assert server.methods == [*OPENING, "tools/call", *OPENING, "tools/call", "DELETE"]
    sessions = [headers.get("mcp-session-id") for headers in server.headers]
    assert sessions[2] != sessions[5] and sessions[3] is None
    assert server.headers[2]["idempotency-key"] == server.headers[5]["idempotency-key"]
    server.broken = lambda body: server.expire() if body.get("method") == "tools/call" else None
    assert failed(ask(tool, server.url, tool="echo"))[0] == "server_error"


def test_a_session_is_deleted_after_a_failure_and_nothing_depends_on_it(tool: McpTool, server: McpServer) -> None:
    assert failed(ask(tool, server.url, tool="nothing"))[0] == "not_found"
    assert server.methods[-1] == "DELETE" and server.alive == set()


def test_a_credential_has_the_address_and_the_token_which_are_in_no_answer(tool: McpTool, server: McpServer) -> None:
    server.token = "tk-v3ry-secret"
    server.tools["echo"] = lambda arguments: text("your token is tk-v3ry-secret")
    call = ToolCall(
        "mcp",
        {"tool": "echo", "auth": "mcp", "headers": {"X-Team": "a"}},
        task_run_id="r",
        secrets={"mcp": {"type": "bearer", "data": {"token": server.token, "base_url": server.url}}}.__getitem__,
    )
    assert invoke(tool, call).result["text"] == "your token is ***"
    assert {headers["authorization"] for headers in server.headers} == {"Bearer tk-v3ry-secret"}
    assert {headers["x-team"] for headers in server.headers} == {"a"}
    assert failed(ask(tool, server.url, tool="echo"))[:2] == ("auth", False)


def test_an_answer_has_a_limit_and_a_time(tool: McpTool, server: McpServer) -> None:
    server.tools["echo"] = lambda arguments: text("x" * 10_000)
    assert failed(ask(tool, server.url, {"max_response_bytes": 5_000}, tool="echo"))[:2] == ("limit", False)
    server.tools["echo"] = lambda arguments: text(str(server.wait.wait(30)))
    assert failed(ask(tool, server.url, tool="echo", timeout_s=0.5))[:2] == ("timeout", True)
    assert failed(ask(tool, "http://127.0.0.1:1/mcp", tool="echo"))[:2] == ("connection", True)


def test_the_network_behind_the_worker_is_not_reached(server: McpServer) -> None:
    with closing(McpTool(HttpTool(AddressPolicy(allow_private=False)))) as careful:
        outcome = ask(careful, server.url, tool="echo")
    assert outcome.error is not None and outcome.error.code == "address_refused"
    assert server.asked == []


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ({}, "call needs `tool`"),
        ({"tool": 1}, "`tool` must be text"),
        ({"tool": "echo", "arguments": [1]}, "`arguments` must be a mapping"),
        ({"tool": "echo", "headers": [1]}, "`headers` must be a mapping"),
        ({"tool": "echo", "headers": {"mcp-session-id": "x"}}, "the protocol's own"),
        ({"tool": "echo", "auth": 1}, "`auth` must be a credential's name"),
        ({"action": "list", "tool": "echo"}, "list does not take `tool`"),
        ({"action": "sing"}, "`action` is one of call, list"),
    ],
)
def test_invalid_inputs_fail_before_any_request(tool: McpTool, server: McpServer, inputs: dict[str, Any], text: str) -> None:
    kind, _, message = failed(ask(tool, server.url, **inputs))
    assert (kind, text in message, server.asked) == ("schema", True, []), message
    assert "`url` must be" in failed(ask(tool, None, tool="echo"))[2]


PAGE = Path(__file__).parents[3] / "docs" / "tools" / "mcp.md"


def test_the_example_of_the_page_runs(server: McpServer, tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    server.token = "tk-1234567"
    server.tools["get_forecast"] = lambda arguments: text("Sun.", structuredContent={"city": arguments["city"], "celsius": 21})
    secrets = LocalSecrets(tmp_path / "credentials.json")
    secrets.put("weather", {"token": server.token, "base_url": server.url})
    local, state = run_text(example, secrets=secrets)
    with closing(local):
        summary = executions.summary(local.control, state.execution_id)
    assert (summary["error"], summary["result"]) == (None, "Lisbon: 21 degrees")
