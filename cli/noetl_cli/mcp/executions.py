"""Starts executions for callers, follows them, and answers their callbacks.

An execution outlives the call that has started it: a caller that has gone asks for it later, by its id.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio

from noetl_cli.display.download import write_json
from noetl_cli.errors import FAILED, Exit
from noetl_cli.mcp.callers import Callers
from noetl_cli.mcp.catalog import Catalog, Offered
from noetl_cli.mcp.tools import OFFSET, Answer, Call, Tool, check, inputs, page
from noetl_core.engine.statuses import STOPPED
from noetl_core.values.request_bounds import MAX_PAGE

if TYPE_CHECKING:
    from noetl_core.api.requests import Api
    from noetl_core.api.shapes.executions import Execution
    from noetl_core.api.shapes.following import Changes

T = TypeVar("T")
POLL_S: Final = (0.05, 1.0)
"""Seconds between two looks at an execution: the first ones, and the longest."""
PROGRESS_S: Final = 5.0
"""Seconds after which a waiting client is told that the call goes on, if nothing else happens."""
LISTED: Final = 50
"""The most executions of a list."""
LONGEST: Final = 8 * 1024 * 1024
"""Bytes of the longest result that is read here; `noetl get` downloads longer ones."""
GENERATIONS: Final = 20
"""The most calls of playbooks by playbooks that are followed to a callback, or back to a tool."""
ID: Final = {"type": "string", "description": "`execution_id` of an answer"}
WAIT: Final = {"type": "number", "minimum": 0, "maximum": 600, "description": "Seconds to wait for the end"}


class Executions:
    """The tools of registered playbooks, and those for their executions."""

    def __init__(self, callers: Callers, *, wait_s: float, answers: bool) -> None:
        self._callers, self._wait_s, self._answers = callers, wait_s, answers
        self._catalog = Catalog()

    async def tools(self, authorization: str | None) -> dict[str, Tool]:
        """Return the tools for a caller. Raises `Exit`."""
        offered = await _off_loop(lambda: self._catalog.offered(self._callers.api(authorization)))
        playbooks = [Tool(one.name, one.description, one.schema, partial(self._start, one)) for one in offered.values()]
        return {tool.name: tool for tool in (*playbooks, *self.own_tools())}

    def own_tools(self) -> list[Tool]:
        about = "The status and the result of an execution of one of these tools; waits for its end"
        found = [
            Tool("noetl_execution", about, inputs("execution_id", execution_id=ID, wait_s=WAIT, offset=OFFSET), self._show, True),
            Tool("noetl_executions", "The newest executions of these tools", inputs(), self._list, True),
        ]
        if self._answers:
            about = "Answers a question (`waiting_for`) of an execution: a decision that a person should have made or confirmed"
            wait_id = {"type": "string", "description": "`wait_id` of the question"}
            data = {"description": "The answer; it matches the `schema` of the question"}
            form = inputs("execution_id", "wait_id", "data", execution_id=ID, wait_id=wait_id, data=data)
            found.append(Tool("noetl_answer", about, form, self._answer))
        return found

    # --- the calls ------------------------------------------------------------------------------------------------------

    async def _start(self, tool: Offered, call: Call) -> Answer:
        check(call.arguments, tool.schema)

        def start() -> tuple[str, list[str]]:  # on one thread to its end, even if the client goes meanwhile
            started = self._api(call).start(
                path=tool.path,
                version=tool.version,
                payload=call.arguments,
                idempotency_key=call.idempotency_key,
                labels={"mcp": tool.name},
            )
            self._callers.carry(started["execution_id"])
            return started["execution_id"], started["warnings"]

        execution_id, warnings = await _off_loop(start)
        await call.progress(f"execution {execution_id} of {tool.path} has started")
        answer = await self._follow(call, execution_id, self._wait_s)
        return Answer({**answer.data, "warnings": warnings}, answer.failed) if warnings else answer

    async def _show(self, call: Call) -> Answer:
        execution_id = await self._own_id(call)
        wait_s = float(call.arguments.get("wait_s", self._wait_s))
        return await self._follow(call, execution_id, wait_s, offset=int(call.arguments.get("offset", 0)))

    async def _list(self, call: Call) -> Answer:
        def find() -> list[dict[str, Any]]:
            api = self._api(call)
            paths = {tool.path: tool.name for tool in self._catalog.offered(api).values()}
            found: list[Any] = [e for e in api.executions(limit=MAX_PAGE)["executions"] if e["playbook"]["path"] in paths]
            shown = ("execution_id", "status", "started_at")
            return [{name: e[name] for name in shown} | {"tool": paths[e["playbook"]["path"]]} for e in found[:LISTED]]

        return Answer({"executions": await _off_loop(find)})

    async def _answer(self, call: Call) -> Answer:
        execution_id, wait_id = await self._own_id(call), str(call.arguments["wait_id"])

        def answer() -> str:
            api = self._api(call)
            api.answer_wait(execution_id, wait_id, data=call.arguments["data"])
            root = _root(api, execution_id)["execution_id"]
            self._callers.carry(root)  # it also runs the executions that it calls
            return root

        return await self._follow(call, await _off_loop(answer), self._wait_s, answered=wait_id)

    # --- following ------------------------------------------------------------------------------------------------------

    async def _follow(
        self, call: Call, execution_id: str, wait_s: float, *, offset: int = 0, answered: str | None = None
    ) -> Answer:
        """Wait until an execution ends, needs somebody, or `wait_s` is over; return its state."""
        began, told, pause, last = time.monotonic(), 0.0, POLL_S[0], -1
        while True:
            now, questions = await _off_loop(partial(self._look, call, execution_id, answered))
            left = began + wait_s - time.monotonic()
            if now["status"] in STOPPED or questions or left <= 0:
                return await _off_loop(partial(self._state, call, now, questions, offset))
            if now["count"] != last or time.monotonic() - told >= PROGRESS_S:
                await call.progress(_progress(now))
                told, last = time.monotonic(), now["count"]
            await anyio.sleep(min(pause, left))
            pause = min(pause * 1.5, POLL_S[1])

    def _look(self, call: Call, execution_id: str, answered: str | None) -> tuple[Changes, list[dict[str, Any]]]:
        api = self._api(call)
        now = api.changes(execution_id, limit=0)
        assert now is not None  # None is the answer to a request with a tag
        return now, [each for each in questions(api, now) if each["wait_id"] != answered]

    def _state(self, call: Call, now: Changes, questions: list[dict[str, Any]], offset: int) -> Answer:
        out: dict[str, Any] = {"execution_id": now["execution_id"], "status": now["status"]}
        if now["status"] == "completed":
            return Answer(out | self._result(self._api(call), now["execution_id"], offset))
        if now["status"] in STOPPED:
            about = {"error": now["error"], "reason": now.get("reason")}
            return Answer(out | {name: value for name, value in about.items() if value}, failed=True)
        if questions:
            how = "answer it with noetl_answer" if self._answers else "somebody else answers it"
            return Answer({**out, "waiting_for": questions, "next": f"{how}; then noetl_execution has the result"})
        return Answer({**out, "progress": _progress(now), "next": "the execution continues: noetl_execution waits for its end"})

    def _result(self, api: Api, execution_id: str, offset: int) -> dict[str, Any]:
        out = _Bounded()
        try:
            write_json(api, execution_id, api.execution(execution_id)["result"], out)
        except _TooLong:
            return {"note": f"the result has more than {LONGEST:,} bytes: noetl get {execution_id} downloads it"}
        text = out.getvalue().decode()
        shown = page(text, offset, "result_json")
        return shown if offset or "next_offset" in shown else {"result": json.loads(text)}

    # --- rights ---------------------------------------------------------------------------------------------------------

    def _api(self, call: Call) -> Api:
        return self._callers.api(call.authorization)

    async def _own_id(self, call: Call) -> str:
        """Return the id of the execution that a call names, and carry it out if nobody does. Raises `Exit` unless it belongs to
        a tool: the token of a caller may see others, but the model that calls has no business with them."""
        execution_id = str(call.arguments["execution_id"])

        def checked() -> str:
            api = self._api(call)
            root = _root(api, execution_id)
            if root["playbook"]["path"] not in {tool.path for tool in self._catalog.offered(api).values()}:
                raise Exit(FAILED, f"execution {execution_id} belongs to none of these tools")
            if root["status"] not in STOPPED:
                self._callers.carry(root["execution_id"])
            return execution_id

        return await _off_loop(checked)


def _root(api: Api, execution_id: str) -> Execution:
    """Return the execution that has called the playbook of this one, directly or indirectly."""
    found = api.execution(execution_id)
    for _ in range(GENERATIONS):
        if (parent := found.get("parent")) and "run_id" in parent:
            found = api.execution(parent["execution_id"])
    return found


def questions(api: Api, now: Mapping[str, Any], generation: int = 0) -> list[dict[str, Any]]:
    """Return the callbacks for which an execution waits, and those of the playbooks that it calls."""
    found: list[dict[str, Any]] = []
    for wait in now.get("waiting_for", ()) if now["status"] == "waiting" else ():
        if wait["kind"] == "callback":
            about = {"question": wait.get("description"), "schema": wait.get("schema"), "until": wait.get("until")}
            named = {"execution_id": now["execution_id"], "wait_id": wait["wait_id"], "task": wait.get("task")}
            found.append({name: value for name, value in {**named, **about}.items() if value is not None})
        elif wait.get("child") and generation < GENERATIONS:
            with suppress(Exit):  # it is requested, and not created yet
                found += questions(api, api.changes(str(wait["child"]), limit=0) or {"status": ""}, generation + 1)
    return found


def _progress(now: Mapping[str, Any]) -> str:
    """Return how far an execution is, such as `running, 12 events; fetch running 3/7`."""
    steps = [
        f"{name} {step['status']}" + (f" {step['loop']['succeeded']}/{step['loop']['total']}" if "loop" in step else "")
        for name, step in now["steps"].items()
        if step["open"]
    ]
    return "; ".join([f"{now['status']}, {now['count']} events", *steps[:5]])


class _TooLong(Exception):
    """A result is longer than `LONGEST`."""


class _Bounded(BytesIO):
    """A buffer of at most `LONGEST` bytes."""

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > LONGEST:
            raise _TooLong
        return super().write(data)


async def _off_loop(do: Callable[[], T]) -> T:
    """Call on a thread, so that other calls are answered meanwhile. A call that is cancelled runs on to its end."""
    return await anyio.to_thread.run_sync(do, abandon_on_cancel=True)
