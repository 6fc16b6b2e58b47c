"""`cursor: {kind: dynamodb}`: items of a table. A query or a scan finds unclaimed items, and a conditional update claims each,
until the frame is full.

A repeated claim finds its items by the same query, and takes no others. An item that a lagging index does not show is claimed
again when its lease expires.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.aws import rights
from noetl_core.tools.aws.clients import client
from noetl_core.tools.aws.dynamodb import conditional_write, expressions, shown
from noetl_core.tools.aws.errors import errors_of
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.cursors.base import Claimed, ClaimIds, Inputs, Row, Settlement
from noetl_core.tools.cursors.dynamodb_requests import Requests, Schema, check, key_of, schema_of, text_of
from noetl_core.tools.stopping import stopper

KIND: Final = "cursor.dynamodb"
AT_ONCE: Final = 8
"""Concurrent writes, because DynamoDB cannot write several items with separate conditions in one request."""
BATCH: Final = 64
"""Writes between two checks of cancellation."""
PAGE: Final = 100
"""The minimum number of items that a page of a query examines."""


class DynamoDBCursor:
    """Claims items. The fields are those of `dsl.fields.cursor`."""

    kind = KIND
    fills = True

    def __init__(self, fields: Mapping[str, Any]) -> None:
        table = _text(fields, "table")
        if table is None or "/" in table or ":" in table:
            raise BadInput("`cursor.table` must be the name of a table, not an ARN")
        self._table: dict[str, Any] = {
            "table": table,
            "by": _text(fields, "claimed_by") or "claimed_by",
            "until": _text(fields, "claimed_until") or "claimed_until",
            **{name: text for name in ("region", "index", "where", "filter") if (text := _text(fields, name)) is not None},
            **{name: fields[name] for name in ("values", "names", "set", "done", "failed") if fields.get(name) is not None},
        }
        for name in ("values", "names", "set"):
            if not isinstance(self._table.get(name, {}), Mapping):
                raise BadInput(f"`cursor.{name}` must be a mapping, not {type(self._table[name]).__name__}")
        if "done" not in self._table:
            raise BadInput("`cursor.done` is missing: attributes to change in items that are done, or the word delete")
        for name in ("done", "failed"):
            changes = self._table.get(name, "delete")
            if changes != "delete" and not (isinstance(changes, Mapping) and changes):
                raise BadInput(f"`cursor.{name}` must be a mapping of attributes to values, or the word delete")

    def claim(self, ids: ClaimIds, limit: int, lease_s: float) -> Inputs:
        return {**self._inputs("claim", ids), "limit": limit, "lease_s": lease_s}

    def claimed(self, result: Any) -> Claimed:
        return Claimed([Row(key, item) for key, item in result["items"]], json.dumps(result["keys"], ensure_ascii=False))

    def renew(self, ids: ClaimIds, rows: Sequence[Row], key_type: str | None, lease_s: float) -> Sequence[Inputs]:
        if not rows:
            return []
        return [{**self._inputs("renew", ids), "keys": _keys(key_type), "rows": [row.key for row in rows], "lease_s": lease_s}]

    def held(self, result: Any, rows: Sequence[Row]) -> Collection[str]:
        return frozenset(result)

    def settle(self, ids: ClaimIds, settlement: Settlement, key_type: str | None) -> Sequence[Inputs]:
        rows = {
            what: [row.key for row in rows]
            for what, rows in (("done", settlement.done), ("failed", settlement.failed), ("released", settlement.released))
        }
        return [{**self._inputs("settle", ids), "keys": _keys(key_type), "rows": rows, "lease_s": 0}]

    def _inputs(self, action: str, ids: ClaimIds) -> dict[str, Any]:
        return {**self._table, "action": action, "claim": ids.claim, "failed_id": ids.failed}


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise BadInput(f"`cursor.{name}` must be text, not {value!r:.60}")
    return value.strip() if isinstance(value, str) else None


def _keys(key_type: str | None) -> Any:
    return json.loads(key_type or "[]")


class DynamoDBCalls:
    """Carries out the cursor's requests to DynamoDB. It is not a kind for tasks."""

    kind = KIND
    inline = False

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def run(self, call: ToolCall) -> Outcome:
        inputs = call.inputs
        rights.check(rights.TABLES, inputs["table"])
        dynamodb = client("dynamodb", inputs.get("region"))
        with errors_of(KIND, rights.TABLES, inputs["table"]), ThreadPoolExecutor(AT_ONCE) as pool:
            if inputs["action"] == "claim":
                return Outcome.ok(self._claimed(call, dynamodb, pool))
            requests, stop = Requests(inputs, {}, self._now()), stopper(call)
            if inputs["action"] == "renew":
                writes = [(text, requests.renew(key_of(text, inputs["keys"]))) for text in inputs["rows"]]
            else:
                rows = [(what, text) for what, texts in inputs["rows"].items() for text in texts]
                writes = [(text, requests.settle(what, key_of(text, inputs["keys"]))) for what, text in rows]
            answers = _written(dynamodb, pool, [request for _, request in writes], stop)
            # A refused item belongs to another claim, or no longer exists: on renewal it is lost; on settling it is already
            # settled.
            return Outcome.ok([text for (text, _), answer in zip(writes, answers, strict=True) if answer is not None])

    def _claimed(self, call: ToolCall, dynamodb: Any, pool: ThreadPoolExecutor) -> dict[str, Any]:
        inputs, stop = call.inputs, stopper(call)
        table = dynamodb.describe_table(TableName=inputs["table"])["Table"]
        schema = schema_of(table, inputs.get("index"), (inputs["by"], inputs["until"]))
        bound = expressions(call)
        check(inputs, schema, bound.get("ExpressionAttributeNames", {}))
        requests = Requests(inputs, bound, self._now())
        items: list[Any] = []
        again = False
        query = {**requests.query(schema), "Limit": max(PAGE, 2 * inputs["limit"])}
        for page in dynamodb.get_paginator("query" if inputs.get("where") else "scan").paginate(**query):
            stop()
            found = page["Items"]
            held = [item for item in found if item.get(inputs["by"], {}).get("S") == inputs["claim"]]
            if again and not held:
                break
            # A claim that has items takes no others: a late caller may have lost its run to a worker that has them already.
            again = again or bool(held)
            items += _taken(dynamodb, pool, held if again else found, requests, schema, inputs["limit"] - len(items), stop)
            if len(items) >= inputs["limit"]:
                break
        hidden = (inputs["by"], inputs["until"])
        rows = [[text_of(item, schema.keys), shown({n: v for n, v in item.items() if n not in hidden})] for item in items]
        return {"keys": schema.keys, "items": rows}


def _taken(
    dynamodb: Any,
    pool: ThreadPoolExecutor,
    found: Sequence[Mapping[str, Any]],
    requests: Requests,
    schema: Schema,
    most: int,
    stop: Callable[[], None],
) -> list[Any]:
    """Claim items in order, up to `most` of them, skipping those that others have claimed meanwhile."""
    taken: list[Any] = []
    left = list(found)
    while left and len(taken) < most:
        some, left = left[: most - len(taken)], left[most - len(taken) :]
        keys = [{name: item[name] for name, _ in schema.keys} for item in some]
        answers = _written(dynamodb, pool, [requests.take(key, schema) for key in keys], stop)
        taken += [answer["Attributes"] for answer in answers if answer is not None]
    return taken


def _written(
    dynamodb: Any, pool: ThreadPoolExecutor, requests: Sequence[Mapping[str, Any]], stop: Callable[[], None]
) -> list[Any]:
    """Make concurrent writes. Return the answers in order; None if the condition of a write did not hold."""
    answers: list[Any] = []
    for start in range(0, len(requests), BATCH):
        stop()
        answers += pool.map(lambda request: conditional_write(dynamodb, request), requests[start : start + BATCH])
    return answers
