"""A table of DynamoDB (moto), and runs of cursor loops that claim its items."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from noetl_core.aws.clients import client
from noetl_core.tools.aws import rights
from noetl_core.tools.cursors import dynamodb
from noetl_core.tools.cursors.dynamodb import DynamoDBCalls
from tests.unit.tools.aws_playbooks import mocked

from .cursor_runs import ClaimingRun
from .one_run import Script, echo, task

BEST_EFFORT = {"failure": {"mode": "best_effort"}}
OPEN: dict[str, Any] = {"where": "todo = :t", "values": {"t": "yes"}, "index": "open"}
SOURCES: dict[str, dict[str, Any]] = {
    "a query of a sparse index": {**OPEN, "done": {"todo": None, "state": "done"}},
    "a scan of a sparse index": {"index": "open", "done": {"todo": None, "state": "done"}},
    "a query of a table": {
        "where": "pk = :p",
        "filter": "(#s = :r)",
        "names": {"s": "state"},
        "values": {"p": "a", "r": "ready"},
        "done": {"state": "done"},
    },
    "a claim that changes": {
        "where": "pk = :p",
        "filter": "#s = :r",
        "names": {"#s": "state"},
        "values": {":p": "a", ":r": "ready"},
        "set": {"state": "running"},
        "done": {"state": "done"},
    },
    "items that are deleted": {**OPEN, "done": "delete"},
}


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(rights.OWN, raising=False)
    monkeypatch.setattr(dynamodb, "AT_ONCE", 1)  # moto looks and writes in two steps
    with mocked():
        make("items")
        fill("items")
        yield


def make(name: str, projection: Any = None) -> None:
    def keys(*names: str) -> Any:
        return [{"AttributeName": n, "KeyType": kind} for n, kind in zip(names, ("HASH", "RANGE"), strict=True)]

    client("dynamodb").create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": n, "AttributeType": t} for n, t in {"pk": "S", "n": "N", "todo": "S"}.items()],
        KeySchema=keys("pk", "n"),
        GlobalSecondaryIndexes=[
            {"IndexName": "open", "KeySchema": keys("todo", "n"), "Projection": projection or {"ProjectionType": "ALL"}}
        ],
    )


def fill(name: str, count: int = 7) -> None:
    for n in range(1, count + 1):
        item = {"pk": {"S": "a"}, "n": {"N": str(n)}, "todo": {"S": "yes"}, "state": {"S": "ready"}}
        client("dynamodb").put_item(TableName=name, Item=item)


def claiming(
    script: Script = echo,
    *,
    run_id: str = "r1",
    mode: str = "parallel",
    policy: Any = None,
    frame: int = 3,
    tool: DynamoDBCalls | None = None,
    **cursor: Any,
) -> ClaimingRun:
    fields = {**SOURCES["a query of a sparse index"], **cursor}
    step = {
        "loop": {
            "cursor": {"kind": "dynamodb", "table": "items", **{k: v for k, v in fields.items() if v != "none"}},
            "iterator": "item",
            "spec": {"mode": mode, "frame": frame, "policy": dict(policy or {})},
        },
        "tool": task("a", result="{{ iter.item.n }}"),
    }
    return ClaimingRun(step, script, run_id=run_id, tool=tool or DynamoDBCalls())


def items(name: str = "items") -> dict[int, Any]:
    found = client("dynamodb").scan(TableName=name, ConsistentRead=True)["Items"]
    return {int(item["n"]["N"]): item for item in sorted(found, key=lambda item: int(item["n"]["N"]))}


def states(name: str = "items") -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for n, item in items(name).items():
        found.setdefault(item["state"]["S"], []).append(n)
    return found


def claims(name: str = "items") -> int:
    """Items that are claimed."""
    return sum(float(item.get("claimed_until", {}).get("N", 0)) > time.time() for item in items(name).values())


def write(n: int, **attributes: Any) -> None:
    changes = {name: {"Value": value, "Action": "PUT"} for name, value in attributes.items()}
    client("dynamodb").update_item(TableName="items", Key={"pk": {"S": "a"}, "n": {"N": str(n)}}, AttributeUpdates=changes)


def expire() -> None:
    for n, item in items().items():
        if "claimed_until" in item:
            write(n, claimed_until={"N": str(int(time.time()) - 1)})


class Requests:
    """Sees each request to DynamoDB that a cursor makes, before it is sent and after it was answered."""

    def __init__(self, before: Callable[[str], None] = lambda _: None, after: Callable[[str], None] = lambda _: None) -> None:
        self._hooks = {"before-parameter-build.dynamodb": before, "after-call.dynamodb": after}
        self._inside = False
        self._handlers = {event: self._handler(hook) for event, hook in self._hooks.items()}

    def _handler(self, hook: Callable[[str], None]) -> Any:
        def handler(model: Any, **_: Any) -> None:
            if self._inside:
                return  # a request of the hook itself
            self._inside = True
            try:
                hook(model.name)
            finally:
                self._inside = False

        return handler

    def __enter__(self) -> Requests:
        for event, handler in self._handlers.items():
            client("dynamodb").meta.events.register(event, handler)
        return self

    def __exit__(self, *_: object) -> None:
        for event, handler in self._handlers.items():
            client("dynamodb").meta.events.unregister(event, handler)


def whole(run: ClaimingRun, why: str) -> None:
    claimed = [key for frame in run.named("LoopFrameClaimed") for key in frame["keys"]]
    assert len(claimed) == len(set(claimed)) == 7, why
    assert run.last.data["succeeded"] == 7 and sorted(run.last.data["result"]) == [1, 2, 3, 4, 5, 6, 7], why
    assert states() == {"done": [1, 2, 3, 4, 5, 6, 7]} and claims() == 0, why
    assert len({call.task_run_id for call in run.calls}) == 7, why


def redriven(run: ClaimingRun) -> ClaimingRun:
    again = ClaimingRun(run.step, echo, run_id=run.run_id + "x", tool=DynamoDBCalls())
    again.store, again.results, again.gates = run.store, run.results, run.gates
    again.handle(carried_over={"runs": [[run.run_id, {"failed": True}]]})
    return again
