"""Records executions as the functions carry them out: every request that their code makes, and what it causes.

Stores and queues are mocked (moto), and the functions' own wiring is used, one for each function. The clock is the model's:
each request and delivery takes its median time, so caches and leases expire as they would on AWS. Deliveries come in the order
of their times; a worker that is busy leaves a message to another environment. Records of the stream that are older than the
fastest tenth of deliveries come with the first one that is due.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from random import Random
from typing import Any
from unittest.mock import patch

from bench.latency.inputs import TIMES
from bench.latency.model import HOPS, KINDS, Invocation, Record, Request
from bench.proxy import Counts, count_units
from bench.scaling.write_units import WrittenUnits
from botocore.client import BaseClient
from moto import mock_aws
from tests.aws_calls import through_botocore
from tests.contract.aws import environment, make_bucket, make_queue, make_table, resource

from noetl_core.adapters.aws.catalog_table.gates import DynamoGates
from noetl_core.adapters.aws.events import commit_from_image
from noetl_core.adapters.aws.queue import message_of, read_command
from noetl_core.adapters.clock import SystemClock
from noetl_core.control.admit import StartRequest, admit, register
from noetl_core.control.asks import answer
from noetl_core.control.cached_states import CachedStates
from noetl_core.control.core import Control
from noetl_core.control.fence import boundary_of
from noetl_core.control.sweeping.sweep import Swept, reconcile_safely
from noetl_core.engine.ids import execution_id_at
from noetl_core.log.codec import ASK_VERSION, decode_ask
from noetl_core.runtime import control_wiring, worker_wiring
from noetl_core.values.instants import SECOND
from noetl_core.worker.claiming.gates import RecentGates
from noetl_core.worker.service import Worker

BEGIN = 1_790_000_000 * SECOND
MS = SECOND // 1000
INVOCATION_S = 880
CONTROLS = ("admit", "router", "ask")
OPERATIONS: Mapping[str, str] = {
    "PutItem": "put",
    "GetItem": "get",
    "Query": "query",
    "UpdateItem": "update",
    "DeleteItem": "delete",
    "SendMessageBatch": "send",
    "Invoke": "invoke",
}
Cause = tuple[int, int]


@dataclass
class _Environment:
    """An environment of the worker, and when its last invocation ends."""

    worker: Worker
    busy_until: float = 0.0


class Stack:
    """The functions over mocked AWS, with a record of their requests. With `cold`, the ask function never has a state cached."""

    def __init__(self, names: Mapping[str, str], *, cold: bool = False) -> None:
        self.names, self.cold = names, cold
        self.now = float(BEGIN)
        self.clock = SystemClock()
        self.invocations: list[Invocation] = []
        self._open: list[Invocation] = []
        self._due: list[tuple[float, int, str, str, Cause]] = []
        """Messages: when they come, a number, trigger, body, cause."""
        self._wakes: list[tuple[float, Mapping[str, Any], Cause]] = []
        self._numbers = itertools.count()
        self._written = {
            names[name]: WrittenUnits(table, resource(table))
            for name, table in (("EVENTS_TABLE", "EventsTable"), ("CATALOG_TABLE", "CatalogTable"))
        }
        self.controls: dict[str, Control] = {name: control_wiring.control.__wrapped__() for name in CONTROLS}
        for control in self.controls.values():
            control.marks = None  # files on this machine
        self._environments: list[_Environment] = [_Environment(worker_wiring.worker.__wrapped__())]

    # --- requests ---------------------------------------------------------------------------------------------------------

    def request(self, call: Any, client: Any, operation: str, asked: dict[str, Any]) -> Any:
        """Carry out a request of the function whose invocation is open, and record it."""
        if not self._open:
            return call(client, operation, asked)
        invocation = self._open[-1]
        self._deliver_meanwhile()
        made = Request(OPERATIONS[operation])
        cause = (invocation.number, len(invocation.requests))
        invocation.requests.append(made)
        if made.kind == "invoke":
            return self._ask(made, asked)
        began, self.now = self.now, self.now + TIMES[KINDS[made.kind]].median * MS
        if made.kind == "send":
            for entry in asked["Entries"]:
                trigger = "queue" if asked["QueueUrl"] != self.names["CONTROL_QUEUE_URL"] else "timer"
                at = began + entry.pop("DelaySeconds", 0) * SECOND + TIMES[HOPS[trigger]].median * MS
                heapq.heappush(self._due, (at, next(self._numbers), trigger, entry["MessageBody"], cause))
            return call(client, operation, asked)
        answered = call(client, operation, asked)
        self._count(made, operation, asked, answered)
        if made.kind == "put" and asked["TableName"] == self.names["EVENTS_TABLE"]:
            item = asked["Item"]
            made.mark = "decision" if item["pk"]["S"].startswith("m#") else "end" if "wake" in item else ""
            if "wake" in item:
                self._wakes.append((began, item, cause))
        return answered

    def _count(self, made: Request, operation: str, asked: dict[str, Any], answered: Any) -> None:
        if made.kind in ("put", "delete"):
            written = self._written[asked["TableName"]]
            before = written.units.total()
            if made.kind == "put":
                written.put(asked["Item"])
            else:
                written.delete(asked["Key"]["pk"]["S"], asked["Key"]["sk"]["S"])
            made.write_units = written.units.total() - before
        else:
            counts = Counts()
            count_units(counts, operation, asked, answered)
            taken = counts.take()
            made.read_units, made.write_units = taken.get("read_units", 0.0), taken.get("write_units", 0.0)

    def _ask(self, made: Request, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Invoke the ask function, as its handler does its work."""
        control = self.controls["ask"]
        if self.cold:
            control.states = CachedStates(control.store)
        overhead = TIMES["invoke"].median * MS
        self.now += overhead / 2
        with self._invocation("ask", "ask", ()) as made.inner:
            command = answer(control, decode_ask(json.loads(asked["Payload"])))
        self.now += overhead / 2
        body = {"v": ASK_VERSION, "command": None if command is None else message_of(command)}
        return {"Payload": BytesIO(json.dumps(body).encode())}

    # --- invocations ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _invocation(self, function: str, trigger: str, causes: tuple[Cause, ...]) -> Iterator[Invocation]:
        invocation = Invocation(len(self.invocations), function, trigger, causes)
        self.invocations.append(invocation)
        self._open.append(invocation)
        try:
            yield invocation
        finally:
            self._open.pop()

    def run(self, source: str) -> tuple[str, list[Invocation]]:
        """Carry out an execution of a playbook that is registered; return its id and its invocations."""
        first = len(self.invocations)
        playbook, _ = register(self.controls["admit"], source)
        with self._invocation("admit", "api", ()):
            started = StartRequest(path=playbook.path, execution_id=execution_id_at(int(self.now), 0))
            execution_id = admit(self.controls["admit"], started).execution_id
        while self._due or self._wakes:
            self._deliver()
        return execution_id, self.invocations[first:]

    def _next_wakes(self) -> float:
        """Return when the stream's next batch comes."""
        return min((began for began, _, _ in self._wakes), default=float("inf")) + TIMES["stream"].median * MS

    def _deliver(self) -> None:
        """Deliver what comes next, at its time."""
        if self._due and self._due[0][0] <= self._next_wakes():
            at, _, trigger, body, cause = heapq.heappop(self._due)
            self.now = at
            if trigger == "queue":
                self._work(body, cause)
            else:
                with self._invocation("router", "timer", (cause,)):
                    reconcile_safely(self.controls["router"], json.loads(body)["wake"], Swept())
        else:
            self.now = self._next_wakes()
            self._route()

    def _deliver_meanwhile(self) -> None:
        """Route what the stream has brought by now, beside an open invocation of a worker."""
        if any(open_.function in ("router", "admit") for open_ in self._open):
            return
        now = self.now
        while self._next_wakes() <= now:
            self.now = self._next_wakes()
            self._route()
        self.now = now

    def _work(self, body: str, cause: Cause) -> None:
        free = next((one for one in self._environments if one.busy_until <= self.now), None) or self._another()
        with self._invocation("worker", "queue", (cause,)) as invocation:
            command = read_command(body, free.worker.results)
            for _ in free.worker.chain(command, self.clock.now() + INVOCATION_S * SECOND):
                invocation.runs += 1
        free.busy_until = self.now

    def _another(self) -> _Environment:
        """Add an environment of the worker, which has read no gate yet."""
        first, gates = self._environments[0].worker, DynamoGates(self.names["CATALOG_TABLE"])
        name = f"{first.name}-{len(self._environments)}"
        worker = replace(first, gates=RecentGates(gates, self.clock, gates.gates), name=name)
        self._environments.append(_Environment(worker))
        return self._environments[-1]

    def close(self) -> None:
        self._environments[0].worker.close()

    def _route(self) -> None:
        newest = self.now - TIMES["stream"].quantiles[0.1] * MS
        batch = [wake for wake in self._wakes if wake[0] <= newest]
        self._wakes = [wake for wake in self._wakes if wake[0] > newest]
        router = self.controls["router"]
        commits = [commit for _, item, _ in batch if (commit := commit_from_image(item, router.results)) is not None]
        boundaries = [boundary for commit in commits if (boundary := boundary_of(commit)) is not None]
        if boundaries:
            with self._invocation("router", "stream", tuple(cause for _, _, cause in batch)):
                router.route(commits[0].stream.execution_id, boundaries)


def record(source: str, *, asks: bool, cold: bool = False, iterations: int = 0, in_flight: int = 1) -> Record:
    """Record an execution of a playbook, with or without the ask function. Raises `RuntimeError` if it does not complete."""
    with mock_aws(), environment():
        names = {
            "EVENTS_TABLE": make_table("EventsTable"),
            "CATALOG_TABLE": make_table("CatalogTable"),
            "RESULTS_BUCKET": make_bucket(),
            "COMMAND_QUEUES": json.dumps({"default": make_queue("CommandQueue")}),
            "CONTROL_QUEUE_URL": make_queue("ControlQueue"),
            "ASKS": "yes" if asks else "no",
            "ASK_FUNCTION": "ask" if asks else "",
        }
        caches = (control_wiring.results, worker_wiring.results)
        call: Any = vars(BaseClient)["_make_api_call"]
        with environment(**names):
            for cached in caches:
                cached.cache_clear()
            stack = Stack(names, cold=cold)
            nonces = Random(23)  # each record of a playbook has the same sizes
            with (
                patch.object(SystemClock, "now", lambda _: int(stack.now)),
                patch.object(SystemClock, "nonce", lambda _: nonces.randbytes(8).hex()),
                patch.object(BaseClient, "_make_api_call", lambda *arguments: stack.request(call, *arguments)),
                through_botocore(),
            ):
                execution_id, invocations = stack.run(source)
                state = stack.controls["router"].load(execution_id)
            stack.close()
            for cached in caches:
                cached.cache_clear()
    if state.status != "completed":
        raise RuntimeError(f"the recorded execution is {state.status}")
    return Record(invocations, iterations, in_flight)
