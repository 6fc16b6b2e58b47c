"""The durable agent (`noetl new --template agent`): its process is killed again and again, and nothing is done twice.

A scripted model calls tools of two MCP servers and a playbook. The process is killed while a server works on a request, or shortly
after its answer. At the end the answer, the tokens and the calls are those of an agent that was never killed, and each call
has come with one key.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from noetl_cli.commands.authoring.new import TEMPLATES
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions.executions import summary
from noetl_core.views.executions.waiting_callbacks import answer_wait, waiting_callbacks
from tests.commands import ENV, Command
from tests.llm_server import llm_server
from tests.mcp_server import McpServer, mcp_server, text
from tests.servers import Handler, serving, url_of

TURNS = 24
"""Answers of the model that call a tool of each server, before the one that calls `refund`, where many processes are killed."""
PATIENCE_S = 60.0
LATER_S = 0.05
"""Seconds after a request at which every second kill comes."""
SERVER = """\
          - when: "{{ tool.server | default('') == 'post' }}" # one branch for each server: its credential goes to no other
            then:
              - name: send
                kind: mcp
                auth: post
                tool: "{{ tool.name }}"
                arguments: "{{ iter.call.function.arguments | fromjson }}"
                spec:
                  policy:
                    rules:
                      - { when: "{{ outcome.error.retryable }}", then: { do: retry, attempts: 3, delay: 0.1 } }
                      - when: "{{ outcome.status == 'error' }}"
                        then: { do: continue, set_prev: { error: "{{ outcome.error.message }}" } }
                      - else: { then: { do: continue, set_prev: "{{ outcome.result.text }}" } }
"""


def playbook() -> str:
    """The template with a second server, and with short delays."""
    source = (TEMPLATES / "agent/playbook.yaml").read_text()
    source = source.replace(
        "          - else:\n              - name: call\n", f"{SERVER}          - else:\n              - name: call\n"
    )
    source = source.replace("keychain:\n", "keychain:\n  - { name: post, kind: bearer }\n", 1)
    note = "    - { name: note, server: post, description: Writes a note, parameters: { type: object } }\n"
    source = source.replace("    - name: refund #", f"{note}    - name: refund #", 1)
    assert source.count("post") == 4
    return source.replace("delay: 5 ", "delay: 0.1 ").replace("delay: 2 ", "delay: 0.1 ")


def calling(*calls: tuple[str, dict[str, Any]], turn: int) -> dict[str, Any]:
    """An answer of the model that calls tools."""
    asked = [
        {"id": f"c{turn}-{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(calls)
    ]
    return {"content": "", "tool_calls": asked, "finish_reason": "tool_calls"}


class Killer:
    """Kills the process of the agent while a service answers one of its requests."""

    def __init__(self, kills: int, seed: int) -> None:
        self.left, self.killed, self.pid = kills, 0, 0
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self.plan()

    def plan(self) -> None:
        """Choose the request of the next process that is its last one."""
        self._requests, self._last, self._dying = 0, self._chance.randint(1, 3), False

    def request(self) -> None:
        with self._lock:
            self._requests += 1
            held = self._dying
            if not held:
                if self.left == 0 or self._requests != self._last:
                    return
                self.left -= 1
                self.killed += 1
                self._dying = True
            pid, late = self.pid, self.left % 2 == 0
        if held:  # gets no answer before the kill: the number of requests does not depend on the process's speed
            time.sleep(4 * LATER_S)
            return
        if late:
            threading.Timer(LATER_S, _kill, (pid,)).start()
        else:
            _kill(pid)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class World:
    """The services of an agent, and its processes."""

    def __init__(self, folder: Path, killer: Killer, turns: float) -> None:
        self.folder, self.killer, self.turns = folder, killer, turns
        self.paid: list[tuple[str, Any]] = []
        self.shop = self.post = McpServer()

    def model(self, body: dict[str, Any]) -> dict[str, Any] | str:
        self.killer.request()
        messages = body["messages"]
        turn = sum(message["role"] == "assistant" for message in messages)
        if turn < self.turns:
            return calling(("find_order", {"id": f"A-{turn}"}), ("note", {"text": f"about A-{turn}"}), turn=turn)
        if turn == self.turns:
            return calling(("refund", {"id": "A-1"}), turn=turn)
        return f"The end: {messages[-1]['content']}"

    def find_order(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.killer.request()
        return text(f"order {arguments['id']} is lost", structuredContent={"status": "lost", **arguments})

    def note(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.killer.request()
        return text("noted")

    def calls(self, server: McpServer) -> dict[str, set[str]]:
        """The arguments of the calls that a server has received, by key."""
        found: dict[str, set[str]] = defaultdict(set)
        for body, headers in zip(server.asked, server.headers, strict=True):
            if body.get("method") == "tools/call":
                found[headers["idempotency-key"]].add(json.dumps(body["params"]["arguments"]))
        return dict(found)

    def run(self, decision: bool | None, **payload: Any) -> dict[str, Any]:
        """Run the agent, resume it whenever it was killed, and return its summary."""
        arguments = ["run", "playbook.yaml", "--idempotency-key", "agent", "--output", "json", "--payload", json.dumps(payload)]
        until = time.monotonic() + 10 * PATIENCE_S
        while True:
            assert time.monotonic() < until
            self.killer.plan()
            with Command(*arguments, cwd=self.folder, env=ENV | {"NOETL_HOME": str(self.folder / ".noetl")}) as command:
                self.killer.pid = command.pid
                code = self._ended(command, decision)
                told = command.stderr
            found = self.summary()
            if code != -signal.SIGKILL:
                assert code in (0, 1), told
                return found
            if found:
                arguments = ["resume", found["execution_id"], "--output", "json"]

    def _ended(self, command: Command, decision: bool | None) -> int:
        """Wait for the end of a process; meanwhile a person decides about the calls that wait."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            with suppress(TimeoutError):
                return command.wait(0.3)
            if decision is not None:
                self.decide(decision)
        raise AssertionError(command.stderr)

    @contextmanager
    def wiring(self) -> Iterator[LocalWiring | None]:
        store = self.folder / ".noetl/runs.db"
        if not store.exists():
            yield None
            return
        with closing(LocalWiring(store)) as wiring:
            yield wiring

    def decide(self, allowed: bool) -> None:
        with self.wiring() as wiring:
            if wiring is not None:
                for each in waiting_callbacks(wiring.control, lambda: b"key")["callbacks"]:
                    answer_wait(wiring.control, each["execution_id"], each["wait_id"], {"allowed": allowed})

    def summary(self) -> dict[str, Any]:
        with self.wiring() as wiring:
            heads = [] if wiring is None else list(wiring.index.heads(None, "templates/agent", limit=10))
            return {} if wiring is None or not heads else summary(wiring.control, heads[0].execution_id)


@contextmanager
def world(folder: Path, kills: int, turns: float = TURNS) -> Iterator[World]:
    """Start the services, and write the playbooks and the credentials of the agent."""
    made = World(folder, Killer(kills, seed=7), turns)

    class Bank(Handler):
        def do_POST(self) -> None:
            made.paid.append((self.headers["Idempotency-Key"], json.loads(self.told())))
            made.killer.request()
            with suppress(BrokenPipeError, ConnectionResetError):  # the client has been killed
                self.say(201, b'{"paid": 20}', Content_Type="application/json")

    with ExitStack() as stack:
        model = stack.enter_context(llm_server(made.model))
        made.shop = stack.enter_context(mcp_server(tools={"find_order": made.find_order}))
        made.post = stack.enter_context(mcp_server(tools={"note": made.note}, sessions=False, stream=True))
        bank = stack.enter_context(serving(ThreadingHTTPServer(("127.0.0.1", 0), Bank)))
        secrets = {
            "model": {"type": "bearer", "token": "t", "base_url": model.url, "model": "large"},
            "shop": {"type": "bearer", "token": "t", "base_url": made.shop.url},
            "post": {"type": "bearer", "token": "t", "base_url": made.post.url},
            "bank": {"type": "bearer", "token": "t"},
        }
        (folder / ".noetl").mkdir()
        (folder / ".noetl/credentials.json").write_text(json.dumps(secrets))
        (folder / ".noetl/credentials.json").chmod(0o600)
        (folder / "playbook.yaml").write_text(playbook())
        refund = (TEMPLATES / "agent/refund.yaml").read_text()
        (folder / "refund.yaml").write_text(
            refund.replace("https://bank.example.org", url_of(bank)).replace("delay: 10", "delay: 0.1")
        )
        yield made


def check_an_agent_that_is_killed(folder: Path, kills: int, turns: int) -> None:
    """Compare an agent that is killed with one that is not."""
    ends = []
    for times in (0, kills):
        place = folder / str(times)
        place.mkdir()
        with world(place, times, turns) as made:
            ended = made.run(True, budget={"calls": 2 * turns + 1})
            assert made.killer.killed == times
            assert ended["status"] == "completed", ended["error"]
            ends.append((ended["result"], ended["ctx"]))
            for server, wanted in ((made.shop, '{"id": "A-%s"}'), (made.post, '{"text": "about A-%s"}')):
                calls = made.calls(server)
                assert sorted(calls.values(), key=str) == sorted([{wanted % turn} for turn in range(turns)], key=str), calls
            assert {key for key, _ in made.paid} == {"refund-A-1"}
            sent = sum(body.get("method") == "tools/call" for body in (*made.shop.asked, *made.post.asked))
            assert (sent == 2 * turns) if times == 0 else (sent > 2 * turns or times < 20)  # some came again, with the same key
    assert ends[0] == ends[1]
    assert ends[0][0]["answer"] == 'The end: {"paid": 20}'
    assert ends[0][0]["calls"] == 2 * turns + 1


def test_an_agent_that_is_killed_twice_calls_nothing_under_a_second_key(tmp_path: Path) -> None:
    check_an_agent_that_is_killed(tmp_path, kills=2, turns=2)


@pytest.mark.nightly  # the test above kills twice
def test_an_agent_that_is_killed_twenty_times_calls_nothing_under_a_second_key(tmp_path: Path) -> None:
    check_an_agent_that_is_killed(tmp_path, kills=20, turns=TURNS)


@pytest.mark.nightly  # the tests of the template refuse a call without kills
def test_a_refused_call_is_not_made_however_often_the_agent_is_killed(tmp_path: Path) -> None:
    with world(tmp_path, 10) as made:
        ended = made.run(False, budget={"calls": 2 * TURNS + 1})
        assert (made.killer.killed, made.paid) == (10, [])
        assert ended["result"]["answer"] == 'The end: {"error": "a person has refused it"}'


@pytest.mark.nightly  # the tests of the template use a budget up without kills
def test_the_budget_is_kept_however_often_the_agent_is_killed(tmp_path: Path) -> None:
    with world(tmp_path, 10, math.inf) as made:
        ended = made.run(None, budget={"calls": 25})
        assert made.killer.killed == 10
        assert (ended["status"], ended["error"]["kind"]) == ("failed", "limit")
        assert ended["ctx"]["calls"] == 24
        assert (len(made.calls(made.shop)), len(made.calls(made.post))) == (12, 12)
