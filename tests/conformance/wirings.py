"""The two wirings behind one interface - the API - and carrying out a case on either."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

from noetl_core.adapters.aws.clients import forget_clients
from noetl_core.adapters.aws.events import DynamoEventStore
from noetl_core.adapters.aws.results import S3ResultStore
from noetl_core.adapters.local.secrets import PREFIX, LocalSecrets
from noetl_core.engine.statuses import TERMINAL
from noetl_core.log.stored_values import Values
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.tools.base import Tool
from noetl_infra.deploy import local_environment
from noetl_infra.stack import Stack
from tests.api_requests import ask
from tests.conformance import checks, inline
from tests.conformance.cases import Case
from tests.conformance.compare_histories import differences
from tests.conformance.observations import Observed, problems
from tests.e2e.support import Api, aws
from tests.stacks import SCRIPTED_TOOL

STANDING = frozenset({"paused", "stuck"})
LONGEST_S = 60
POLLS_S = (0.4, 0.4, 0.6, 0.9, 1.2)
"""Seconds before each next query; the last one from then on. A query is work for the stack, too."""
AT_ONCE = 3
"""Cases carried out at the same time on the stack: each more makes it start more function processes, which costs more than it gains."""
PAGE = 1000


class NoAnswer(Exception):
    """The API did not answer as it should while a case was carried out."""


class Wiring(Protocol):
    """`call` sends a request to the API; `secret` stores a credential; `work` lets the execution go on for at most so long, and
    returns when it ended; `values` reads what is behind the references of an execution."""

    name: str

    def call(self, method: str, path: str, body: Any = None, /, **query: str) -> tuple[int, Any]: ...

    def secret(self, name: str, fields: Mapping[str, Any]) -> None: ...

    def work(self, execution_id: str, seconds: float) -> None: ...

    def values(self, execution_id: str) -> Values: ...


def scripted_tool() -> Tool:
    """The tool of the distribution in `scripted_tool/`, which is not installed here."""
    sys.path.insert(0, str(SCRIPTED_TOOL / "src"))
    try:
        tool: Tool = import_module("noetl_scripted").ScriptedTool()
    finally:
        sys.path.pop(0)
    return tool


class Local:
    """The local runner, in memory."""

    name = "local"

    def __init__(self) -> None:
        self._environment: dict[str, str] = {}
        secrets = LocalSecrets(Path("no-such-file"), self._environment)
        self.tools = inline.Watched({"scripted": scripted_tool()})
        self._wiring = LocalWiring(secrets=secrets, tools=self.tools)
        self._service = Service(lambda: self._wiring.control, lambda: b"conformance")

    def call(self, method: str, path: str, body: Any = None, /, **query: str) -> tuple[int, Any]:
        text = "" if body is None else body if isinstance(body, str) else json.dumps(body)
        answer = ask(self._service, method, f"/api/{path}", query, body=text)
        return answer.status, answer.body

    def secret(self, name: str, fields: Mapping[str, Any]) -> None:
        self._environment[PREFIX + name.upper()] = json.dumps(fields)

    def work(self, execution_id: str, seconds: float) -> None:
        self._wiring.run(execution_id, timeout_s=seconds)

    def values(self, execution_id: str) -> Values:
        return Values(self._wiring.control.store, self._wiring.control.results, execution_id, limit=None)

    def close(self) -> None:
        self._wiring.close()


class OnStack:
    """A stack's API over HTTP."""

    name = "stack"

    def __init__(self, stack: Stack) -> None:
        self._api = Api(stack.api_url)
        self._secrets = aws(stack, "secretsmanager")
        self._there: type[Exception] = self._secrets.exceptions.ResourceExistsException
        """Asked for once: botocore makes the classes when they are first asked for, and for two threads at once it makes two."""
        self._store = stack.outputs
        self._asked: Counter[str] = Counter()

    def call(self, method: str, path: str, body: Any = None, /, **query: str) -> tuple[int, Any]:
        where = f"/api/{path}" + (f"?{urlencode(query)}" if query else "")
        return self._api.call(method, where, body)

    def secret(self, name: str, fields: Mapping[str, Any]) -> None:
        kept = fields if "paths" in fields else {"data": fields, "paths": ["*"]}
        with suppress(self._there):
            self._secrets.create_secret(Name=f"noetl/{name}", SecretString=json.dumps(kept))

    def work(self, execution_id: str, seconds: float) -> None:
        time.sleep(POLLS_S[min(self._asked[execution_id], len(POLLS_S) - 1)])
        self._asked[execution_id] += 1

    def values(self, execution_id: str) -> Values:
        results = S3ResultStore(self._store["ResultsBucketName"])
        return Values(DynamoEventStore(self._store["EventsTableName"], results), results, execution_id, limit=None)


@contextmanager
def on_stack(stack: Stack) -> Iterator[OnStack]:
    """The adapters of this process look at the stack, too."""
    before = dict(os.environ)
    os.environ.update(local_environment(stack.endpoint))
    forget_clients()
    try:
        yield OnStack(stack)
    finally:
        os.environ.clear()
        os.environ.update(before)
        forget_clients()


def on_local(case: Case) -> tuple[Observed, list[str]]:
    """A case on a local runner of its own: what was seen, and what is wrong."""
    wiring = Local()
    try:
        return _tried(case, wiring)
    finally:
        wiring.close()


def limits_compared(case: Case, in_parts: AbstractContextManager[Any]) -> list[str]:
    """In what a case is otherwise on the local runner with an inline limit of a few bytes than with the default, and once more
    where what is stored is read in parts, which `in_parts` makes so."""
    wrong: list[str] = []
    plain = Local()
    try:
        seen = observe(case, plain)
        for way in (nullcontext(), in_parts):
            small = Local()
            try:
                with way:
                    limited = observe(inline.with_small_limit(case), small)
                    wrong += [*_otherwise(case, seen, plain, limited, small), *small.tools.by_reference]
            finally:
                small.close()
            if not inline.has_references(limited):
                break  # nothing is stored: read in parts it is the same run
        return [*wrong, *plain.tools.by_reference]
    except NoAnswer as error:
        return [str(error)]
    finally:
        plain.close()


def _otherwise(case: Case, plain: Observed, on: Wiring, small: Observed, where: Wiring) -> list[str]:
    one, other = inline.Whole(plain, on.values(plain.execution_id)), inline.Whole(small, where.values(small.execution_id))
    return list(inline.differences(one, other, concurrent=case.concurrent))


def on_both(case: Case, wiring: OnStack, *, small_too: bool = True) -> tuple[list[str], list[str]]:
    """Return the problems found locally, and those on the stack. The stack must also agree with the local runner and, with
    `small_too`, with a run that has an inline limit of a few bytes."""
    local, small = Local(), Local()
    try:
        mine, wrong = _tried(case, local)
        seen, wrong_there = _tried(case, wiring)
        wrong_there += [
            f"the local runner and the stack differ: {d}" for d in differences(mine, seen, concurrent=case.concurrent)
        ]
        limited = inline.with_small_limit(case) if small_too and case.runs and mine.execution_id else None
        if limited is not None and inline.has_references(observe(limited, small)):  # without any it is the same run
            wrong_there += _otherwise(case, mine, local, observe(limited, wiring), wiring)
    except NoAnswer as error:
        return wrong, [*wrong_there, str(error)]
    finally:
        local.close()
        small.close()
    return wrong, wrong_there


def _tried(case: Case, wiring: Wiring) -> tuple[Observed, list[str]]:
    try:
        seen = observe(case, wiring)
        return seen, judge(case, wiring, seen)
    except NoAnswer as error:
        return Observed(), [str(error)]


def observe(case: Case, wiring: Wiring) -> Observed:
    """Carry out a case."""
    seen = Observed()
    for name, fields in case.secrets.items():
        wiring.secret(name, fields)
    if wiring.name == "local" or "diagnostics" in case.expect:
        _, answer = wiring.call("POST", "playbooks/validate", {"playbook": case.text})
        seen.diagnostics = answer["diagnostics"]
    status, answer = _start(case, wiring)
    if status != 202:
        seen.refused = {"status": status, **answer["error"]}
        return seen
    execution_id = seen.execution_id = answer["execution_id"]
    if not case.runs:
        return seen
    summary = _carry_out(case, wiring, execution_id)
    for what in ("status", "result", "ctx", "error", "steps"):
        setattr(seen, what, summary[what])
    seen.events = [*_history(wiring, execution_id)]
    if wiring.name == "local" or case.concurrent:  # otherwise the histories are the same
        seen.replay = _ask(wiring, f"executions/{execution_id}/replay")["differences"]
    return seen


def judge(case: Case, wiring: Wiring, seen: Observed) -> list[str]:
    """Return the problems of a case, those of its named checks included."""
    found = list(problems(case, seen))
    for name in case.expect.get("check", []):
        found += checks.CHECKS[name](case, wiring, seen)
    return found


def _start(case: Case, wiring: Wiring) -> tuple[int, Any]:
    for playbook in case.registered:
        status, answer = wiring.call("POST", "playbooks", {"playbook": playbook})
        if status != 201:
            raise NoAnswer(f"registering: HTTP {status}: {answer}")
    by = case.request.get("by", "text")
    body: dict[str, Any] = {"payload": dict(case.payload)}
    body |= {k: v for k, v in case.request.items() if k != "by"}
    if by == "text":
        return wiring.call("POST", "executions", {**body, "playbook": case.text})
    status, answer = wiring.call("POST", "playbooks", {"playbook": case.text})
    if status != 201:
        return status, answer
    if by == "id":
        return wiring.call("POST", "executions", {**body, "playbook_id": answer["digest"]})
    version = {"version": answer["version"]} if by == "path+version" else {}
    return wiring.call("POST", "executions", {**version, **body, "path": answer["path"]})


def _carry_out(case: Case, wiring: Wiring, execution_id: str) -> Any:
    """The summary once it has ended, or stands where the case says, with all its acts done."""
    acts = [dict(act) for act in case.acts]
    until = time.monotonic() + LONGEST_S
    status = ""
    while time.monotonic() < until:
        wiring.work(execution_id, 0.05 if case.acts else LONGEST_S)
        summary = _ask(wiring, f"executions/{execution_id}")
        status = summary["status"]
        if acts and status == acts[0]["at"]:
            _act(wiring, execution_id, acts.pop(0), len(acts))
        elif status in TERMINAL or (not acts and (status in STANDING or status == case.expect.get("status"))):
            return summary
    raise NoAnswer(f"{case.id} on {wiring.name} is still {status} after {LONGEST_S} s; acts left: {acts}")


def _act(wiring: Wiring, execution_id: str, act: dict[str, Any], left: int) -> None:
    what = next(k for k in act if k != "at")
    if what == "signal":  # with an id of ours, because histories are compared
        body = {"execution_id": execution_id, "id": f"signal-{left}", **act["signal"]}
        status, answer = wiring.call("POST", "events", body)
    else:
        status, answer = wiring.call("POST", f"executions/{execution_id}/{what}", act[what] or {})
    if status != 202:
        raise NoAnswer(f"{what}: HTTP {status}: {answer}")


def _ask(wiring: Wiring, path: str, **query: str) -> Any:
    status, answer = wiring.call("GET", path, **query)
    if status != 200:
        raise NoAnswer(f"{path}: HTTP {status}: {answer}")
    return answer


def _history(wiring: Wiring, execution_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: dict[str, str] = {}
    while True:
        page = _ask(wiring, f"executions/{execution_id}/events", limit=str(PAGE), **after)
        found += page["events"]
        if page["cursor"] is None or len(page["events"]) < PAGE:
            return found
        after = {"after": page["cursor"]}
