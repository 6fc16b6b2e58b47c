"""`noetl mcp`: playbooks that opt in are tools of MCP clients; the SDK's own client calls them in this process."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError

from noetl_cli.mcp import executions
from noetl_cli.mcp.callers import LocalCallers
from noetl_cli.mcp.catalog import input_schema
from noetl_cli.mcp.executions import LONGEST, Executions
from noetl_cli.mcp.server import server
from noetl_core.dsl.parse import parse_playbook
from tests.unit.cli.mcp_playbooks import APPROVAL, FAILS, ORDER, OTHER, REFUND, SLOW

Session = Callable[[Client], Awaitable[None]]


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalCallers]:
    with closing(LocalCallers(str(tmp_path / "runs.db"))) as callers:
        for text in (ORDER, REFUND, APPROVAL, FAILS, SLOW, OTHER):
            callers.api(None).register(text)
        yield callers


def session(local: LocalCallers, use: Session, *, wait_s: float = 20, answers: bool = True, mode: str = "auto") -> None:
    """Connect a client in this process."""

    async def connect() -> None:
        async with Client(server(Executions(local, wait_s=wait_s, answers=answers), "about"), mode=mode) as client:
            await use(client)

    anyio.run(connect)


async def called(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.structured_content
    assert json.loads(vars(result.content[0])["text"]) == result.structured_content
    return dict(result.structured_content)


async def refused(client: Client, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    assert result.is_error
    return str(result.structured_content.get("error"))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_playbook_that_opts_in_is_listed_and_called(local: LocalCallers, mode: str) -> None:
    async def use(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        own = ["noetl_execution", "noetl_executions", "noetl_answer"]
        assert list(tools) == ["fails", "find_order", "refund", "slow", *own]
        assert tools["find_order"].description == "Status of an order"
        assert [tool.name for tool in tools.values() if tool.annotations and tool.annotations.read_only_hint] == own[:2]
        told: list[str | None] = []

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            told.append(message)

        result = await client.call_tool("find_order", {"id": "A-1"}, progress_callback=progress)
        answer = result.structured_content
        assert (answer["status"], answer["result"]) == ("completed", {"id": "A-1", "text": "ä"})
        assert told[0] == f"execution {answer['execution_id']} of shop/order has started"
        assert local.api(None).execution(answer["execution_id"])["labels"] == {"mcp": "find_order"}
        assert (await called(client, "noetl_executions"))["executions"][0]["execution_id"] == answer["execution_id"]

    session(local, use, mode=mode)


def test_the_inputs_are_those_of_x_schema_or_have_the_types_of_the_defaults() -> None:
    assert input_schema(parse_playbook(ORDER)) == {
        "type": "object",
        "required": ["id"],  # its default is null
        "properties": {"id": {"type": "string"}, "size": {"type": "integer", "default": 1}},  # and not `bank`
        "additionalProperties": False,
    }
    workload = "{ name: Ada, count: 1, on: true, list: [1], any: null, made: '{{ workload.name }}', in: { rate: 0.5 } }"
    schema = input_schema(parse_playbook(OTHER.replace("workflow:", f"workload: {workload}\nworkflow:", 1)))
    assert schema["properties"] == {
        "name": {"type": "string", "default": "Ada"},
        "count": {"type": "number", "default": 1},
        "on": {"type": "boolean", "default": True},
        "list": {"type": "array", "default": [1]},
        "any": {},
        "made": {},
        "in": {"type": "object", "properties": {"rate": {"type": "number", "default": 0.5}}},
    }
    assert input_schema(parse_playbook(OTHER)) == {"type": "object"}


def test_a_question_of_a_called_playbook_is_answered_by_a_tool(local: LocalCallers) -> None:
    async def use(client: Client) -> None:
        waiting = await called(client, "refund", id="A-7")
        assert waiting["status"] == "waiting"
        question = waiting["waiting_for"][0]
        assert question["question"] == "Refund A-7?"
        assert question["schema"]["required"] == ["ok"]
        named = {"execution_id": question["execution_id"], "wait_id": question["wait_id"]}
        assert named["execution_id"] != waiting["execution_id"]
        assert "the answer.ok is string" in await refused(client, "noetl_answer", **named, data={"ok": "yes"})
        answered = await called(client, "noetl_answer", **named, data={"ok": True})
        assert (answered["execution_id"], answered["result"]) == (waiting["execution_id"], {"ok": True})
        assert "it was answered, or is over" in await refused(client, "noetl_answer", **named, data={"ok": False})

    session(local, use)


def test_a_called_playbook_that_is_not_created_yet_has_no_questions(local: LocalCallers) -> None:
    now: Any = {"status": "waiting", "execution_id": "1", "waiting_for": [{"kind": "child", "wait_id": "w", "child": "12"}]}
    assert executions.questions(local.api(None), now) == []


def test_without_answers_a_person_answers(local: LocalCallers) -> None:
    async def use(client: Client) -> None:
        assert "noetl_answer" not in [tool.name for tool in (await client.list_tools()).tools]
        waiting = await called(client, "refund")
        with pytest.raises(MCPError, match="Unknown tool: noetl_answer"):
            await client.call_tool("noetl_answer", {"execution_id": "1", "wait_id": "w", "data": 1})
        question = waiting["waiting_for"][0]
        local.api(None).answer_wait(question["execution_id"], question["wait_id"], data={"ok": False})
        assert (await called(client, "noetl_execution", execution_id=waiting["execution_id"]))["result"] == {"ok": False}

    session(local, use, answers=False)


def test_a_failure_is_an_error_for_the_model(local: LocalCallers) -> None:
    async def use(client: Client) -> None:
        result = await client.call_tool("fails", {})
        assert result.is_error
        assert result.structured_content["error"]["message"] == "ValueError: no stock"

    session(local, use)


def test_long_results_are_paged_and_the_longest_left_to_noetl_get(local: LocalCallers) -> None:
    async def use(client: Client) -> None:
        answer = await called(client, "find_order", id="A-1", size=50_000)
        text = ""
        while True:
            text += answer["result_json"]
            if "next_offset" not in answer:
                break
            answer = await called(client, "noetl_execution", execution_id=answer["execution_id"], offset=answer["next_offset"])
        assert json.loads(text) == {"id": "A-1", "text": "ä" * 50_000}
        assert len(text) == answer["characters"]
        answer = await called(client, "find_order", id="A-1", size=LONGEST // 2)
        note = answer["note"]
        assert f"noetl get {answer['execution_id']}" in note

    session(local, use)


def test_an_execution_that_goes_on_is_asked_for_later(local: LocalCallers) -> None:
    async def use(client: Client) -> None:
        answer = await called(client, "slow")
        assert answer["status"] in ("running", "waiting")
        assert answer["next"] == "the execution continues: noetl_execution waits for its end"
        assert (await called(client, "noetl_execution", execution_id=answer["execution_id"], wait_s=20))["result"] == "done"

    session(local, use, wait_s=0.05)


def test_a_client_that_goes_in_the_middle_loses_nothing(local: LocalCallers) -> None:
    found: list[str] = []

    async def leave(client: Client) -> None:
        async def progress(progress: float, total: float | None, message: str | None) -> None:
            found.append(str(message).split()[1])
            scope.cancel()

        with anyio.CancelScope() as scope:
            await client.call_tool("slow", {"seconds": 0.5}, progress_callback=progress)
        assert scope.cancelled_caught

    async def come_back(client: Client) -> None:
        newest = (await called(client, "noetl_executions"))["executions"][0]
        assert newest["execution_id"] == found[0]
        assert (await called(client, "noetl_execution", execution_id=found[0]))["result"] == "done"

    session(local, leave)
    session(local, come_back)


def test_an_execution_of_a_server_that_died_goes_on_when_it_is_asked_for(local: LocalCallers) -> None:
    started = local.api(None).start(path="shop/slow", payload={"seconds": 0.1})  # and nobody carries it out

    async def use(client: Client) -> None:
        assert (await called(client, "noetl_execution", execution_id=started["execution_id"]))["result"] == "done"

    session(local, use)


def test_the_same_key_starts_one_execution(local: LocalCallers) -> None:
    async def use(client: Client) -> None:
        key: Any = {"noetl": {"idempotency_key": "k1"}}
        first, second = [await client.call_tool("find_order", {"id": "A"}, meta=key) for _ in range(2)]
        assert first.structured_content == second.structured_content
        other = await client.call_tool("find_order", {"id": "B"}, meta=key)
        assert other.is_error
        assert "k1" in other.structured_content["error"]

    session(local, use)


def test_wrong_calls_are_refused_and_the_server_goes_on(local: LocalCallers) -> None:
    async def use(client: Client) -> None:
        assert "arguments has no 'id'" in await refused(client, "find_order", size=1)
        assert "arguments.id is integer, not string" in await refused(client, "find_order", id=1)
        assert "'bank', which the schema does not allow" in await refused(
            client, "find_order", id="A", bank="https://evil.example.org"
        )
        assert "no execution ../1" in await refused(client, "noetl_execution", execution_id="../1")
        assert "no execution 12" in await refused(client, "noetl_execution", execution_id="12")
        assert "bytes" in await refused(client, "find_order", id="x" * 7_000_000)
        with pytest.raises(MCPError, match=r'Unknown tool: find_odrer \(did you mean "find_order"') as unknown:
            await client.call_tool("find_odrer", {})
        assert unknown.value.code == -32602
        assert (await called(client, "find_order", id="A-1"))["status"] == "completed"

    session(local, use)


def test_executions_of_other_playbooks_are_not_shown(local: LocalCallers) -> None:
    started = local.api(None).start(path="other")

    async def use(client: Client) -> None:
        message = f"execution {started['execution_id']} belongs to none of these tools"
        assert await refused(client, "noetl_execution", execution_id=started["execution_id"]) == message
        assert (await called(client, "noetl_executions"))["executions"] == []

    session(local, use)


def test_a_name_of_two_playbooks_is_no_tool(local: LocalCallers, capsys: pytest.CaptureFixture[str]) -> None:
    local.api(None).register(ORDER.replace("shop/order", "evil/order"))

    async def use(client: Client) -> None:
        with pytest.raises(MCPError, match="Unknown tool: find_order"):
            await client.call_tool("find_order", {"id": "A"})

    session(local, use)
    assert "find_order is not served as a tool: evil/order and shop/order have this mcp_tool" in capsys.readouterr().err


def test_a_bug_is_logged_and_the_server_goes_on(local: LocalCallers, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(client: Client) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(executions, "check", lambda *_: 1 / 0)
            assert "the server has a bug" in await refused(client, "find_order", id="A")
        assert (await called(client, "find_order", id="A"))["status"] == "completed"

    session(local, use)


def test_the_page_about_tools_shows_them(local: LocalCallers) -> None:
    page = (Path(__file__).parents[3] / "docs/mcp.md").read_text()
    (source,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    schema = input_schema(parse_playbook(source))
    assert schema["properties"] == {"id": {"type": "string", "description": "such as A-1"}}
    own = Executions(local, wait_s=1, answers=True).own_tools()
    rows = dict(re.findall(r"^\| `(noetl_\w+)` \| (.*?) \|", page, re.MULTILINE))
    assert {name: set(re.findall(r"`(\w+)`", takes)) for name, takes in rows.items()} == {
        tool.name: set(tool.schema["properties"]) for tool in own
    }
