"""`noetl mcp` over standard input and output, and over HTTP: who is served, with whose rights, and what hostile clients can do."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import closing
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.server.stdio import stdio_server

from noetl_cli.errors import Exit
from noetl_cli.mcp import http as transport
from noetl_cli.mcp.callers import LocalCallers, StackCallers
from noetl_cli.mcp.executions import Executions
from noetl_cli.mcp.server import server
from noetl_cli.mcp.tools import LARGEST
from noetl_console.answering import Asked
from noetl_console.local import LocalApi
from tests import commands
from tests.commands import ENV, Command
from tests.servers import Handler, serving, url_of
from tests.unit.cli.mcp_playbooks import APPROVAL, ORDER, REFUND, SLOW

PATIENCE_S = 30
PAGE = Path(__file__).parents[3] / "docs/mcp.md"


@pytest.fixture
def local(tmp_path: Path) -> LocalCallers:
    callers = LocalCallers(str(tmp_path / ".noetl/runs.db"))
    for text in (ORDER, REFUND, APPROVAL, SLOW):
        callers.api(None).register(text)
    return callers


async def use_all(client: Client) -> None:
    """List, call, and answer a callback."""
    assert [tool.name for tool in (await client.list_tools()).tools][:3] == ["find_order", "refund", "slow"]
    order = (await client.call_tool("find_order", {"id": "A-1"})).structured_content
    assert order["result"] == {"id": "A-1", "text": "ä"}
    question = (await client.call_tool("refund", {})).structured_content["waiting_for"][0]
    named = {"execution_id": question["execution_id"], "wait_id": question["wait_id"]}
    answered = (await client.call_tool("noetl_answer", {**named, "data": {"ok": True}})).structured_content
    assert (answered["status"], answered["result"]) == ("completed", {"ok": True})


def test_a_client_calls_over_standard_input_and_output(local: LocalCallers, tmp_path: Path) -> None:
    local.close()
    command = [sys.executable, "-P", "-m", "noetl_cli.main", "mcp"]

    async def connect() -> None:
        async with Client(StdioServerParameters(command=command[0], args=command[1:], cwd=tmp_path, env=ENV)) as client:
            await use_all(client)

    anyio.run(connect)


def test_a_client_calls_over_http_and_strangers_are_refused(local: LocalCallers, tmp_path: Path) -> None:
    local.close()
    with Command("mcp", "--http", "0", "--name", "mcp.example.org", cwd=tmp_path) as serving_command:
        until = time.monotonic() + PATIENCE_S
        while "Authorization" not in serving_command.stderr:
            assert time.monotonic() < until
            time.sleep(0.02)
        url, token = serving_command.stderr.split()[0], serving_command.stderr.split()[-1]
        own = {"Authorization": f"Bearer {token}"}

        async def connect(mode: str) -> None:
            async with (
                httpx2.AsyncClient(headers=own) as sender,
                Client(streamable_http_client(url, http_client=sender), mode=mode) as client,
            ):
                await use_all(client)

        for mode in ("auto", "legacy"):
            anyio.run(connect, mode)

        def status(body: Any = None, **headers: str) -> int:
            request = body or json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
            all_headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
            return httpx.post(url, content=request, headers=all_headers).status_code

        assert status(**own) == 200
        assert status() == status(Authorization="Bearer nobody") == status(Authorization=token) == 401
        assert status(**own, Host="evil.example.org") == 421  # DNS rebinding
        assert status(**own, Origin="http://evil.example.org") == 403
        assert status(**own, Origin="http://localhost:1") == 403
        assert status(**own, Origin=url.removesuffix("/mcp")) == 200
        assert status(**own, Host="mcp.example.org", Origin="https://mcp.example.org") == 200  # the proxy in front of it
        assert status(**own, Origin="http://mcp.example.org") == 403
        assert status("x" * (LARGEST + 1), **own) == 413
        assert status("[" * 100_000, **own) == 400
        serving_command.send_signal(15)
        assert serving_command.wait() == 143
        assert "Traceback" not in serving_command.stderr


@pytest.mark.nightly
def test_the_program_of_the_page_lists_and_calls_over_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, where `mcp` is imported already; `noetl` is that of this interpreter."""
    page = PAGE.read_text()
    (program,), (playbook,) = (re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL) for language in ("python", "yaml"))
    (prints,) = re.findall(r"In both cases the program prints:\n\n```\n(.*?)```", page, re.DOTALL)
    with closing(LocalCallers(str(tmp_path / ".noetl/runs.db"))) as callers:
        callers.api(None).register(playbook)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(sys, "argv", ["client.py"])
    exec(program, {})
    assert capsys.readouterr().out == prints
    with Command("mcp", "--http", "0", cwd=tmp_path) as serving_command:
        until = time.monotonic() + PATIENCE_S
        while "Authorization" not in serving_command.stderr:
            assert time.monotonic() < until
            time.sleep(0.02)
        monkeypatch.setattr(sys, "argv", ["client.py", serving_command.stderr.split()[0], serving_command.stderr.split()[-1]])
        exec(program, {})
    assert capsys.readouterr().out == prints


def test_garbage_on_standard_input_harms_no_other_call(local: LocalCallers) -> None:
    """A client that sends lines which are no messages, calls which are wrong, and goes in the middle of a call."""
    messages: list[dict[str, Any]] = []
    started = anyio.Event()

    class Output:
        async def write(self, text: str) -> None:
            messages.append(json.loads(text))
            if messages[-1].get("method") == "notifications/progress":
                started.set()

        async def flush(self) -> None:
            """Nothing is kept back."""

    def message(number: int, method: str, **params: Any) -> str:
        return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"

    async def lines() -> AsyncIterator[str]:
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        yield message(1, "initialize", **about)
        yield '{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
        yield "[" * 100_000 + "\n"
        yield '{"jsonrpc": "2.0"\n'
        yield "\ufffd\x00\n"
        yield message(2, "tools/call", name="find_order", arguments=[1])
        yield message(3, "tools/call", name={"a": 1}, arguments={})
        yield message(4, "no/such/method")
        yield message(5, "tools/call", name="noetl_execution", arguments={"execution_id": "9" * 5_000})
        yield message(6, "tools/call", name="find_order", arguments={"id": "A-1"})
        slow = {"name": "slow", "arguments": {"seconds": 1}, "_meta": {"progressToken": "p"}}
        yield message(7, "tools/call", **slow)
        with anyio.fail_after(PATIENCE_S):
            await started.wait()
            while not any(each.get("id") == 6 for each in messages):
                await anyio.sleep(0.01)

    async def serve() -> None:
        offered = server(Executions(local, wait_s=20, answers=True), "about")
        streams: Any = (lines(), Output())
        async with stdio_server(*streams) as (received, sent):
            await offered.run(received, sent, offered.create_initialization_options())

    with closing(local):
        anyio.run(serve)
        answers = {each["id"]: each for each in messages if "id" in each}
        assert {number for number, each in answers.items() if "error" in each} >= {2, 3, 4}
        assert answers[5]["result"]["isError"]
        assert answers[6]["result"]["structuredContent"]["status"] == "completed"
        assert 7 not in answers or "error" in answers[7]  # the client had gone
        execution_id = next(each for each in messages if each.get("method"))["params"]["message"].split()[1]
        until = time.monotonic() + PATIENCE_S
        while (found := local.api(None).execution(execution_id))["status"] != "completed":
            assert time.monotonic() < until, found["status"]
            time.sleep(0.05)
        assert found["result"] == "done"


def test_over_http_the_api_gets_the_tokens_of_callers_and_never_the_servers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_TOKEN", "of-the-server")
    asked: list[str | None] = []

    class Stack(Handler):
        def do_GET(self) -> None:
            asked.append(self.headers["Authorization"])
            self.say(200, b'{"playbooks": []}', Content_Type="application/json")

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Stack)) as stack:
        over_http = StackCallers(url_of(stack), http=True)
        assert over_http.api("bearer of-ada").playbooks() == {"playbooks": []}
        over_http.api("Bearer of-bob").playbooks()
        assert asked == ["Bearer of-ada", "Bearer of-bob"]
        for nobody in (None, "", "Bearer", "Bearer ", "Basic b2Y="):
            assert not over_http.admits(nobody)
            with pytest.raises(Exit, match="no token"):
                over_http.api(nobody)
        StackCallers(url_of(stack), http=False).api(None).playbooks()  # the starter of the process provides its environment
        assert asked[2:] == ["Bearer of-the-server"]


def test_the_api_of_a_stack_is_used_as_the_local_store_is(local: LocalCallers, tmp_path: Path) -> None:
    local.close()
    with closing(LocalApi(str(tmp_path / ".noetl/runs.db"))) as api:

        class Gateway(Handler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                headers = {name.title(): value for name, value in self.headers.items()}
                reply = api.answer(Asked(self.command, url.path, url.query, headers, self.told()))
                self.say(reply.status, reply.body, Content_Type="application/json")

            do_POST = do_GET

        with serving(ThreadingHTTPServer(("127.0.0.1", 0), Gateway)) as gateway:
            callers = StackCallers(url_of(gateway), http=False)

            callers.api(None).register(APPROVAL.replace("shop/approval", "shop/approval, mcp_tool: approve", 1))

            async def connect() -> None:
                async with Client(server(Executions(callers, wait_s=20, answers=True), "about")) as client:
                    order = (await client.call_tool("find_order", {"id": "A-1"})).structured_content
                    assert order["result"] == {"id": "A-1", "text": "ä"}
                    question = (await client.call_tool("approve", {"id": "A-2"})).structured_content["waiting_for"][0]
                    assert question["question"] == "Refund A-2?"
                    answer = {"execution_id": question["execution_id"], "wait_id": question["wait_id"], "data": {"ok": True}}
                    answered = (await client.call_tool("noetl_answer", answer)).structured_content
                    assert (answered["status"], answered["result"]) == ("completed", {"ok": True})

            anyio.run(connect)


def test_requests_without_a_token_reach_no_tool() -> None:
    class Never:
        async def tools(self, authorization: str | None) -> Any:
            raise AssertionError

    guarded = transport.app(server(Never(), "about"), 80, "mcp.example.org", lambda authorization: False)

    async def ask() -> int:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(guarded), base_url="http://127.0.0.1:80") as sender:
            return (await sender.post("/mcp", json={})).status_code

    assert anyio.run(ask) == 401


def test_usage_is_checked_before_anything_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(*arguments: str) -> str:
        error = commands.in_process("mcp", *arguments).exception
        assert isinstance(error, Exit)
        assert error.code == 2
        return error.message

    monkeypatch.chdir(tmp_path)
    assert "leave out --http and --on" in refusal("--author", "--http", "0")
    assert "needs a store in a file" in refusal("--store", "memory")
    monkeypatch.setitem(sys.modules, "mcp", None)  # as if it were not installed
    assert refusal() == "the MCP SDK is missing: pip install 'noetl-serverless[mcp]'"
